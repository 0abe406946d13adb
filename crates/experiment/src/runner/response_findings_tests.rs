//! Tests that each finding about responses appears if its cause is present, and only then.

use prony_stats::{Factor, Metric, Trials, Values, evaluate};

use super::super::responses::{DecodedBody, ResponseDigest, StoredBody};
use super::*;
use BodyComparison::{MayDiffer, Same, SameDecoded};

fn name(variant: usize) -> String {
    ["tcp", "unix"][variant].to_owned()
}

fn body(length: u64, sha256: &str) -> StoredBody {
    StoredBody {
        length,
        sha256: sha256.to_owned(),
    }
}

fn response(hash: &str) -> ResponseDigest {
    ResponseDigest {
        request: "GET /".to_owned(),
        url: "GET http://127.0.0.1:4711/".to_owned(),
        status: Some(200),
        body: Some(body(13, hash)),
        ..ResponseDigest::default()
    }
}

fn not_found(hash: &str) -> ResponseDigest {
    ResponseDigest {
        status: Some(404),
        expected_statuses: Some("200-399".to_owned()),
        ..response(hash)
    }
}

fn trial(block: u32, variant: usize, responses: Vec<ResponseDigest>) -> TrialResult {
    TrialResult {
        block,
        variant,
        position: variant,
        values: Values::new(),
        telemetry: Default::default(),
        resources: Default::default(),
        responses: ResponseDigests {
            digests: responses.into_iter().enumerate().collect(),
            protocols: None,
        },
        hosts: Default::default(),
        findings: Vec::new(),
        slices: Vec::new(),
        search: None,
        functions: std::collections::BTreeMap::new(),
        waits: std::collections::BTreeMap::new(),
        record: None,
    }
}

/// Returns the findings about two variants. The second one is the baseline.
fn found(
    of: impl Fn(usize, u32) -> ResponseDigest,
    rule: BodyComparison,
) -> Vec<ExperimentFinding> {
    let trials = (1..=3).flat_map(|block| [(block, 0), (block, 1)]);
    let trials: Vec<TrialResult> = trials
        .map(|(block, variant)| trial(block, variant, vec![of(variant, block)]))
        .collect();
    super::compare_responses(&by_variant(&trials, 2), &|_| 1, &name, rule)
}

fn ids(found: &[ExperimentFinding]) -> Vec<(&str, Severity)> {
    let ids = found.iter();
    ids.map(|found| (found.finding.id.as_str(), found.finding.severity))
        .collect()
}

#[test]
fn equal_responses_have_no_finding() {
    for rule in [Same, SameDecoded, MayDiffer] {
        assert!(found(|_, _| response("aa"), rule).is_empty());
    }
}

#[test]
fn bodies_that_differ_are_an_error_of_their_variant_unless_they_may() {
    let of = |variant: usize, _| response(["aa", "bb"][variant]);
    let refused = found(of, SameDecoded);
    assert_eq!(ids(&refused), [("bytes-differ", Severity::Error)]);
    assert_eq!(refused[0].variants, [0]);
    let differ: BytesDiffer = refused[0].finding.figures().unwrap();
    let names = (differ.variant.as_deref(), differ.baseline.as_deref());
    assert_eq!(names, (Some("tcp"), Some("unix")));
    assert_eq!(differ.difference.unwrap().request, "GET /");

    let allowed = found(of, MayDiffer);
    assert_eq!(ids(&allowed), [("bodies-may-differ", Severity::Note)]);
}

#[test]
fn compressed_bodies_are_decoded_for_comparison() {
    let of = |variant: usize, _| match variant {
        0 => ResponseDigest {
            body: Some(body(5, "cc")),
            decoded: DecodedBody::Body(body(13, "aa")),
            content_encoding: Some("gzip".to_owned()),
            ..response("aa")
        },
        _ => response("aa"),
    };
    let decoded = found(of, SameDecoded);
    assert_eq!(ids(&decoded), [("bodies-decoded", Severity::Note)]);
    let figures: BodiesDecoded = decoded[0].finding.figures().unwrap();
    let first = &figures.differences[0].first;
    let lengths = (first.own.length, first.baseline.length);
    assert_eq!(lengths, (Some(5), Some(13)));
    assert_eq!(ids(&found(of, Same)), [("bytes-differ", Severity::Error)]);
}

#[test]
fn changing_bodies_count_against_one_variant_but_not_against_both() {
    let change = |changing: &'static [usize]| {
        move |variant: usize, block: u32| {
            if changing.contains(&variant) {
                response(&format!("block {block}"))
            } else {
                response("aa")
            }
        }
    };
    assert_eq!(
        found(change(&[0]), Same)[0].finding.severity,
        Severity::Error
    );
    let both = found(change(&[0, 1]), Same);
    assert_eq!(ids(&both), [("bytes-differ", Severity::Note)]);
    assert!(
        found(change(&[0]), MayDiffer)
            .iter()
            .all(|found| found.finding.severity == Severity::Note)
    );
}

#[test]
fn a_status_that_fails_everywhere_is_an_error_about_the_status() {
    let all = found(|variant, _| not_found(["aa", "bb"][variant]), SameDecoded);
    assert_eq!(ids(&all), [("unexpected-status", Severity::Error)]);
    assert_eq!(all[0].variants, [0, 1]);
    let status: UnexpectedStatus = all[0].finding.figures().unwrap();
    assert_eq!(status.request, "GET http://127.0.0.1:4711/");
    assert_eq!(
        (status.status, status.expected.as_str()),
        (Some(404), "200-399")
    );
    assert!(status.variants.is_empty(), "all variants");
    let of = |variant: usize, _| match variant {
        0 => not_found("aa"),
        _ => response("aa"),
    };
    let one = found(of, SameDecoded);
    assert_eq!(ids(&one), [("unexpected-status", Severity::Error)]);
    assert_eq!(one[0].variants, [0]);
}

#[test]
fn a_rare_unexpected_status_is_a_warning() {
    let list = |variant| {
        let mut list = vec![response("aa"); 39];
        list.push(not_found("aa"));
        trial(1, variant, list)
    };
    let found = super::compare_responses(&by_variant(&[list(0), list(1)], 2), &|_| 1, &name, Same);
    assert_eq!(ids(&found), [("unexpected-status", Severity::Warning)]);
}

/// Returns a design with two factors. The baseline omits `site`, so comparisons are within each
/// site.
fn design() -> Design {
    let factor = |name: &str, levels: [&str; 2]| Factor {
        name: name.to_owned(),
        levels: levels.map(str::to_owned).to_vec(),
    };
    let levels = |site: &str, keepalive: &str| {
        Levels::from([
            ("site".to_owned(), site.to_owned()),
            ("keepalive".to_owned(), keepalive.to_owned()),
        ])
    };
    Design {
        factors: vec![
            factor("site", ["good", "bad"]),
            factor("keepalive", ["on", "off"]),
        ],
        variants: ["good", "bad"]
            .into_iter()
            .flat_map(|site| [levels(site, "on"), levels(site, "off")])
            .collect(),
        baseline: Levels::from([("keepalive".to_owned(), "on".to_owned())]),
        margin: 0.02,
        family: vec![Metric::RatePerS],
        blocks_min: 3,
        blocks_max: 5,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

#[test]
fn effects_of_a_factor_whose_levels_return_different_responses_are_withheld() {
    let design = design();
    let mut trials = Trials::new();
    let mut results = Vec::new();
    for block in 1..=4 {
        for variant in 0..4 {
            let rate = [100.0, 60.0, 200.0, 120.0][variant] + f64::from(block) / 10.0;
            trials.add(block, variant, Values::from([(Metric::RatePerS, rate)]));
            let of_site = if variant < 2 {
                response("aa")
            } else {
                ResponseDigest {
                    body: Some(body(0, "ee")),
                    ..response("ee")
                }
            };
            results.push(trial(block, variant, vec![of_site]));
        }
    }
    let evaluated = || evaluate(&design, &trials, &[]).unwrap();
    let main = |evaluation: &Evaluation, factor: &str| {
        let mut effects = evaluation.effects.iter();
        effects.any(|effect| effect.levels.len() == 1 && effect.levels.contains_key(factor))
    };
    let mut evaluation = evaluated();
    assert!(main(&evaluation, "site") && main(&evaluation, "keepalive"));
    let found = withhold_effects(&mut evaluation, &design, &results, SameDecoded).unwrap();
    assert!(!main(&evaluation, "site") && main(&evaluation, "keepalive"));
    let withheld: EffectsWithheld = found.finding.figures().unwrap();
    let levels = &withheld.levels[0];
    assert_eq!(
        (levels.factor.as_str(), levels.level.as_str()),
        ("site", "bad")
    );
    assert_eq!(levels.against, "good");
    let mut evaluation = evaluated();
    assert_eq!(
        withhold_effects(&mut evaluation, &design, &results, MayDiffer),
        None
    );
    assert!(main(&evaluation, "site"));
}
