//! Tests of redirects in virtual time: the request's clock, and the bytes and targets of its hops.

use prony_record::FindingId;

use super::*;

/// Creates a server with a redirect chain: `/` redirects to `/1`, `/1` to `/2`, and so on up to the
/// path with the number `last`. Each response takes 10 ms.
fn chain(last: u32) -> Box<dyn Server> {
    responding(move |request| {
        let line = String::from_utf8_lossy(&request.bytes).into_owned();
        let path = line.split(' ').nth(1).unwrap().to_owned();
        let at: u32 = path[1..].parse().unwrap_or(0);
        let response = if at == last {
            OK.to_vec()
        } else {
            redirect(302, &format!("/{}", at + 1), "moved")
        };
        reply([(ms(10), Step::Send(response))])
    })
}

pub(super) fn redirect(status: u16, location: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Found\r\nLocation: {location}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[test]
fn the_last_response_of_a_redirect_chain_ends_the_request() {
    let outcomes = load("-c 1 -n 5 --follow 3", chain(3));
    let record = &outcomes.record;
    assert_eq!(outcomes.all(), [(Outcome::Ok, 5)]);
    assert_eq!(
        record.status.clone().into_iter().collect::<Vec<_>>(),
        [(200, 5)]
    );
    assert_eq!((record.totals.redirected, outcomes.connects()), (15, 1));
    // A response time covers all hops of a redirect chain. A time to first byte ends with the first
    // byte of the final response.
    for times in [
        &record.response_time_us,
        &record.service_time_us,
        &record.first_byte_us,
    ] {
        assert!((times.min / 40_000.0 - 1.0).abs() < 0.002, "{times:?}");
        assert!((times.max / 40_000.0 - 1.0).abs() < 0.002, "{times:?}");
    }
    let log = outcomes.logs[0].borrow();
    let sent: usize = log.requests.iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(
        (log.requests.len(), record.totals.bytes_out),
        (20, sent as u64)
    );
    let hop = redirect(302, "/1", "moved").len() as u64;
    assert_eq!(record.totals.bytes_in, 5 * (3 * hop + OK.len() as u64));
    assert_eq!(record.totals.body_bytes_in, 5 * (3 * 5 + 2));
}

#[test]
fn one_redirect_too_many_is_the_response_or_a_failure() {
    let outcomes = load("-c 1 -n 4 --follow 2", chain(3));
    assert_eq!(
        outcomes
            .record
            .status
            .clone()
            .into_iter()
            .collect::<Vec<_>>(),
        [(302, 4)]
    );
    assert_eq!(
        (
            outcomes.count(Outcome::Ok),
            outcomes.record.totals.redirected
        ),
        (4, 8)
    );
    let mut strict = spec("-c 1 -n 4 --follow 2");
    strict.responses.fails_beyond_follow = true;
    let outcomes = simulate(&strict, vec![chain(3)]);
    assert_eq!(outcomes.all(), [(Outcome::Redirect, 4)]);
    let found = outcomes
        .record
        .findings
        .iter()
        .find(|f| f.id == FindingId::Errors);
    assert!(found.unwrap().text.contains("stopped after 2 redirects"));
    // Without --follow a redirect is a normal response.
    let outcomes = load("-c 1 -n 4", chain(3));
    assert_eq!(
        (
            outcomes.count(Outcome::Ok),
            outcomes.record.totals.redirected
        ),
        (4, 0)
    );
}

#[test]
fn a_redirect_that_cannot_be_followed_fails_with_a_reason() {
    for (location, reason) in [
        ("ftp://127.0.0.1/", "only http and https can be followed"),
        (
            "http://8.8.8.8/",
            "8.8.8.8 is outside the loopback and private ranges",
        ),
        ("http://name.invalid/", "no address for this name"),
        ("http://:80", "Location: "),
    ] {
        let server = responding(move |_| reply([(ms(1), Step::Send(redirect(301, location, "")))]));
        let outcomes = load("-c 2 -n 6 --follow 5", server);
        assert_eq!(outcomes.all(), [(Outcome::Redirect, 6)]);
        let found = outcomes
            .record
            .findings
            .iter()
            .find(|f| f.id == FindingId::Errors);
        let text = &found.unwrap().text;
        assert!(text.contains(reason), "{location}: {text}");
    }
    // A redirect without a location is a normal response.
    let head = b"HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n";
    let outcomes = load("-c 1 -n 2 --follow 5", steady(ms(1), head));
    assert_eq!(
        (
            outcomes.count(Outcome::Ok),
            outcomes.record.totals.redirected
        ),
        (2, 0)
    );
}

#[test]
fn a_redirect_to_another_server_uses_a_new_connection_and_no_credentials() {
    let server = responding(|request| {
        let text = String::from_utf8_lossy(&request.bytes).to_lowercase();
        let response = match (request.port, text.split(' ').nth(1)) {
            (1, Some("/")) => {
                assert!(text.starts_with("post ") && text.contains("\r\nauthorization: x\r\n"));
                redirect(307, "http://127.0.0.1:2/there", "")
            }
            (2, Some("/there")) => {
                assert!(text.starts_with("post ") && text.ends_with("\r\n\r\nbody"));
                assert!(!text.contains("authorization"), "{text}");
                redirect(303, "//127.0.0.1:2/back", "")
            }
            (2, Some("/back")) => {
                assert!(
                    text.starts_with("get ") && !text.contains("content-"),
                    "{text}"
                );
                OK.to_vec()
            }
            other => panic!("{other:?}"),
        };
        reply([(ms(1), Step::Send(response))])
    });
    let mut options = LoadSettings::from_flags("-c 1 -n 3 -t 1 -X POST --body body --follow 9");
    options.header = vec!["Authorization: x".to_owned()];
    let spec = options.resolve(Some("http://127.0.0.1:1/")).unwrap();
    let outcomes = simulate(&spec, vec![server]);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 3)]);
    assert_eq!(
        (outcomes.record.totals.redirected, outcomes.connects()),
        (6, 6)
    );
}

#[test]
fn a_timeout_in_a_hop_is_that_of_any_request() {
    let outcomes = load("-c 1 -n 2 --follow 9 --timeout 25ms", chain(9));
    assert_eq!(outcomes.all(), [(Outcome::Timeout, 2)]);
    assert_eq!(outcomes.record.totals.redirected, 4);
    // The completed hops of an unfinished request count as received bytes.
    let hop = redirect(302, "/1", "moved").len() as u64;
    assert_eq!(outcomes.record.totals.bytes_in, 4 * hop);
}

#[test]
fn connections_that_a_redirect_replaces_are_not_blamed_on_the_server() {
    let server = responding(|request| {
        let response = if request.bytes.starts_with(b"GET /on ") {
            OK.to_vec()
        } else {
            redirect(302, "http://127.0.0.1:2/on", "")
        };
        reply([(ms(1), Step::Send(response))])
    });
    let outcomes = load("-n 50 -c 1 --follow 1", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 50)]);
    assert_eq!(outcomes.connects(), 100);
    let text = outcomes.finding("connections-not-reused").unwrap();
    assert!(text.contains("prony replaced 99 "), "{text}");
    assert!(!text.contains("the server closed"), "{text}");
}
