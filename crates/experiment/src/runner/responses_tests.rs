//! Tests of the comparison of responses by each rule.

use super::BodyComparison::{MayDiffer, Same, SameDecoded};
use super::*;

fn body(length: u64, sha256: &str) -> StoredBody {
    StoredBody {
        length,
        sha256: sha256.to_owned(),
    }
}

fn digest(status: u16, body: Option<StoredBody>) -> ResponseDigest {
    ResponseDigest {
        request: "GET /".to_owned(),
        url: "GET http://127.0.0.1:4711/".to_owned(),
        status: Some(status),
        body,
        ..ResponseDigest::default()
    }
}

fn digests_of(digest: ResponseDigest) -> ResponseDigests {
    ResponseDigests {
        digests: [(0, digest)].into(),
        protocols: None,
    }
}

fn plain(status: u16, body: Option<StoredBody>) -> ResponseDigests {
    digests_of(digest(status, body))
}

/// Returns the digests of a response with the body `sent`, which is the compressed form of
/// `decoded`.
fn gzip(sent: StoredBody, decoded: DecodedBody) -> ResponseDigests {
    digests_of(ResponseDigest {
        decoded,
        content_encoding: Some("gzip".to_owned()),
        content_type: Some("text/html".to_owned()),
        ..digest(200, Some(sent))
    })
}

fn length(own: u64, baseline: u64, decoded: bool) -> DifferenceKind {
    DifferenceKind::Length {
        own,
        baseline,
        decoded,
    }
}

#[test]
fn differences_are_named() {
    let first = plain(200, Some(body(13, "aa")));
    let text = |other: &ResponseDigests, rule| difference(&first, other, rule);
    for rule in [Same, SameDecoded, MayDiffer] {
        assert_eq!(text(&first, rule), None);
        let not_found = plain(404, Some(body(13, "aa")));
        let said = text(&not_found, rule).unwrap();
        assert_eq!(said.kind, DifferenceKind::Status(200, 404));
    }
    let longer = plain(200, Some(body(14, "bb")));
    let said = text(&longer, SameDecoded).unwrap();
    assert_eq!(said.request, "GET /");
    assert_eq!(said.kind, length(13, 14, false));
    let other = plain(200, Some(body(13, "bb")));
    let said = text(&other, Same).unwrap();
    let content = DifferenceKind::Content {
        length: 13,
        decoded: false,
    };
    assert_eq!(said.kind, content);
    assert_eq!(text(&other, MayDiffer), None);
}

#[test]
fn a_compressed_body_equals_the_plain_one_unless_bytes_are_compared() {
    let whole = plain(200, Some(body(1000, "aa")));
    let small = gzip(body(90, "cc"), DecodedBody::Body(body(1000, "aa")));
    assert_eq!(difference(&small, &whole, SameDecoded), None);
    let said = difference(&small, &whole, Same).unwrap();
    assert_eq!(said.kind, length(90, 1000, false));
    let sent = as_sent_differences(&small, &whole);
    let lengths: Vec<_> = sent
        .iter()
        .map(|it| (it.own.length, it.baseline.length))
        .collect();
    assert_eq!(lengths, [(Some(90), Some(1000))]);
    let encodings = (
        &sent[0].own.content_encoding,
        &sent[0].baseline.content_encoding,
    );
    assert_eq!(encodings, (&Some("gzip".to_owned()), &None));

    let other = gzip(body(90, "cc"), DecodedBody::Body(body(999, "bb")));
    let said = difference(&other, &whole, SameDecoded).unwrap();
    assert_eq!(said.kind, length(999, 1000, true));
}

#[test]
fn undecodable_bodies_are_compared_by_their_bytes() {
    let broken = |hash| {
        let why = DecodedBody::Undecodable("corrupt deflate stream".to_owned());
        gzip(body(90, hash), why)
    };
    assert_eq!(difference(&broken("cc"), &broken("cc"), SameDecoded), None);
    let said = difference(&broken("cc"), &broken("dd"), SameDecoded).unwrap();
    let reason = "corrupt deflate stream".to_owned();
    assert_eq!(said.kind, DifferenceKind::Undecodable(reason));
    assert_eq!(difference(&broken("cc"), &broken("dd"), MayDiffer), None);
}

#[test]
fn changing_bodies_are_not_compared_with_one_another() {
    let (changes, constant) = (plain(200, None), plain(200, Some(body(20, "bb"))));
    assert_eq!(difference(&changes, &changes, SameDecoded), None);
    assert!(difference(&changes, &constant, SameDecoded).is_some());
    assert!(difference(&constant, &changes, Same).is_some());
    assert_eq!(difference(&constant, &changes, MayDiffer), None);
    assert_eq!(changing(&changes, Same), ["GET /"]);
    assert!(changing(&changes, MayDiffer).is_empty());
}

#[test]
fn varying_compression_is_constant_after_decoding() {
    let trials = ["cc", "dd"].map(|hash| {
        let decoded = DecodedBody::Body(body(1000, "aa"));
        gzip(body(90, hash), decoded)
    });
    let all = over_trials(trials.iter());
    assert_eq!(changing(&all, Same), ["GET /"]);
    assert!(changing(&all, SameDecoded).is_empty());
    let whole = plain(200, Some(body(1000, "aa")));
    assert_eq!(difference(&all, &whole, SameDecoded), None);

    let mixed = over_trials([trials[0].clone(), whole.clone()].iter());
    assert_eq!(difference(&mixed, &whole, SameDecoded), None);
}

#[test]
fn trials_are_reduced_to_their_common_fields() {
    let trials = [
        plain(200, Some(body(13, "aa"))),
        plain(500, Some(body(13, "bb"))),
    ];
    let all = over_trials(trials.iter());
    assert_eq!(
        (all.digests[&0].status, &all.digests[&0].body),
        (None, &None)
    );
    assert_eq!(over_trials(trials[..1].iter()), trials[0]);
}

#[test]
fn failures_on_both_sides_are_not_compared() {
    let not_found = |hash| {
        digests_of(ResponseDigest {
            expected_statuses: Some("200-399".to_owned()),
            ..digest(404, Some(body(13, hash)))
        })
    };
    let (one, other) = (not_found("aa"), not_found("bb"));
    assert_eq!(difference(&one, &other, Same), None);
    assert_eq!(unexpected(&one).len(), 1);
    assert!(unexpected(&plain(200, None)).is_empty());
}

#[test]
fn hosts_are_left_out_of_paths() {
    assert_eq!(path_of("GET http://127.0.0.1:4711/a?b"), "GET /a?b");
    assert_eq!(path_of("GET http://localhost/"), "GET /");
}

#[test]
fn digests_stored_before_bodies_were_decoded_can_be_read() {
    let old = r#"{"digests":{"0":{"request":"GET /","status":200,
        "body":{"length":13,"sha256":"aa"}}}}"#;
    let old: ResponseDigests = serde_json::from_str(old).unwrap();
    let new = plain(200, Some(body(13, "aa")));
    assert_eq!(difference(&old, &new, SameDecoded), None);
}
