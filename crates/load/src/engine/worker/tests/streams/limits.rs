//! Tests of the limits in the peer's settings.

use prony_record::{Finding, FindingId, Outcome};

use super::server::{MAX_HEADER_LIST_SIZE, POST, REFUSED_STREAM, limit, reset, settings};
use super::*;

fn limited(outcomes: &Outcomes) -> Option<&Finding> {
    let mut findings = outcomes.record.findings.iter();
    findings.find(|finding| finding.id == FindingId::StreamsLimited)
}

#[test]
fn a_stream_limit_below_the_flag_is_reported() {
    let server = steady(ms(10)).greeting(|_| after(Nanos::ZERO, limit(3)));
    let (outcomes, seen) = load("-c 2 --streams 8 -d 1s", server);
    let seen = seen.borrow();
    for round in 0..100 {
        assert_eq!(seen.at(ms(10 * round)), 6, "{round}");
    }
    assert_eq!(outcomes.count(Outcome::Ok), 594);
    // A slot's clock doesn't run while the slot waits for the peer.
    assert_us(outcomes.record.response_time_us.max, 10_000);
    let finding = limited(&outcomes).unwrap();
    assert!(
        finding.text.contains("allows 3 concurrent streams"),
        "{finding:?}"
    );
}

#[test]
fn a_stream_limit_without_effect_is_not_reported() {
    for (words, streams) in [
        ("-c 2 --streams 8 -d 200ms", 8),
        ("-c 2 --streams 8 -d 200ms", 100),
        // Two requests are in flight at a time.
        ("-c 1 --streams 8 -r 200 -d 200ms", 2),
        ("-c 1 --streams 8 -n 2", 2),
        ("-c 1 --streams 1 -d 200ms", 1),
    ] {
        let server = steady(ms(10)).greeting(move |_| after(Nanos::ZERO, limit(streams)));
        let (outcomes, _) = load(words, server);
        assert!(outcomes.count(Outcome::Ok) > 0);
        assert_eq!(limited(&outcomes), None, "{words} of {streams}");
    }
}

#[test]
fn a_load_begins_when_a_stream_limit_of_zero_is_raised() {
    let server = steady(ms(10)).greeting(|_| {
        let mut steps = after(Nanos::ZERO, limit(0));
        steps.extend(after(ms(55), limit(10)));
        steps
    });
    let (outcomes, seen) = load("-c 1 --streams 10 -n 42", server);
    let seen = seen.borrow();
    assert_eq!(outcomes.all(), [(Outcome::Ok, 42)]);
    // The request that was sent before the settings arrived gets a response. The next request waits
    // for the limit to rise, and all later requests wait for that one to start.
    assert_eq!(
        (seen.at(ms(0)), seen.at(ms(55)), seen.at(ms(65))),
        (1, 10, 10)
    );
    assert_us(outcomes.record.response_time_us.max, 55_000);
    assert_us(outcomes.record.response_time_us.p90, 10_000);
    let finding = limited(&outcomes).unwrap();
    assert!(finding.text.contains("allows no streams on"), "{finding:?}");
}

#[test]
fn a_lowered_stream_limit_applies_to_new_requests_only() {
    let server = steady(ms(10)).greeting(|_| {
        let mut steps = after(Nanos::ZERO, limit(10));
        steps.extend(after(ms(55), limit(4)));
        steps.extend(after(ms(105), limit(7)));
        steps
    });
    let (outcomes, seen) = load("-c 1 --streams 10 -d 200ms", server);
    let seen = seen.borrow();
    assert!((0..6).all(|round| seen.at(ms(10 * round)) == 10));
    assert!((6..11).all(|round| seen.at(ms(10 * round)) == 4));
    // When the limit rises at 105 ms, three more requests begin immediately.
    assert!((11..20).all(|round| seen.at(ms(10 * round)) == 4));
    assert!((10..19).all(|round| seen.at(ms(10 * round + 5)) == 3));
    assert_us(outcomes.record.response_time_us.max, 10_000);
    assert_eq!(outcomes.count(Outcome::Unfinished), 7);
}

#[test]
fn a_changing_stream_limit_loses_no_request() {
    for settings_ms in [1, 7, 13] {
        let server = steady(ms(10)).greeting(move |_| {
            let limits = (0..300u64).map(|number| {
                let streams = [0, 5, 1, 100, 2, 17, 0, 9][number as usize % 8];
                (ms(settings_ms * number), Step::Send(limit(streams)))
            });
            limits.collect()
        });
        let (outcomes, _) = load("-c 1 --streams 16 -n 500 -d 5s", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 500)], "{settings_ms}");
        assert_eq!(outcomes.connects(), 1);
    }
}

#[test]
fn requests_time_out_if_the_server_never_allows_a_stream() {
    // The request that was sent before the settings arrived gets a response, is refused, or gets no
    // response, depending on the server.
    for (first, others) in [
        (ok as fn(u32) -> Vec<u8>, 29),
        (|stream| reset(stream, REFUSED_STREAM), 30),
        (|_| Vec::new(), 30),
    ] {
        let server = ScriptedH2Server::new(move |call| after(ms(1), first(call.stream)))
            .greeting(|_| after(Nanos::ZERO, limit(0)));
        let words = "-n 30 -c 1 --streams 5 --timeout 300ms";
        let (outcomes, _) = load(words, server);
        let record = &outcomes.record;
        assert_eq!(
            outcomes.count(Outcome::Timeout),
            others,
            "{:?}",
            outcomes.all()
        );
        assert_eq!(record.totals.started, 30);
        assert!(record.totals.elapsed_s <= 0.3 * 31.0);
        assert!(limited(&outcomes).is_some());
    }
}

#[test]
fn an_open_loop_fails_if_the_server_never_allows_a_stream() {
    let server = steady(ms(1)).greeting(|_| after(Nanos::ZERO, limit(0)));
    let words = "-d 1s -r 100 -c 2 --streams 5 --timeout 300ms";
    let (outcomes, _) = load(words, server);
    let totals = &outcomes.record.totals;
    assert_eq!(totals.started + totals.unstarted, 100);
    // The first request of each connection succeeds.
    assert!(totals.ok >= 2);
    assert!(
        outcomes.count(Outcome::Timeout) >= 4,
        "{:?}",
        outcomes.all()
    );
    assert!(limited(&outcomes).is_some());
    assert_eq!(outcomes.record.generator.late_us.max, 0.0);
}

#[test]
fn the_stream_limit_applies_to_each_connection() {
    let server = steady(ms(10)).greeting(|connection| {
        let streams = [1, 2, 3, 4][connection as usize];
        after(Nanos::ZERO, limit(streams))
    });
    let (outcomes, seen) = load("-c 4 --streams 4 -d 100ms", server);
    let seen = seen.borrow();
    for connection in 0..4 {
        assert_eq!(seen.on(connection), 10 * (connection as usize + 1));
    }
    assert!(limited(&outcomes).unwrap().text.contains("allows 1 "));
}

#[test]
fn headers_larger_than_the_servers_limit_are_not_sent() {
    let server = steady(ms(1)).greeting(|_| after(ms(1), settings(&[(MAX_HEADER_LIST_SIZE, 100)])));
    let words = format!("-c 1 --streams 4 -d 1s -H X-Long:{}", "x".repeat(100));
    let (outcomes, seen) = load(&words, server);
    // Only the request that was sent before the settings arrived reaches the server.
    assert_eq!(seen.borrow().calls.len(), 1);
    assert_eq!(outcomes.count(Outcome::Ok), 1);
    // Each slot waits 10 ms after its request has failed.
    let failed = outcomes.count(Outcome::Protocol);
    assert!((390..=400).contains(&failed), "{failed}");
    let findings = &outcomes.record.findings;
    let why = "at most 100 bytes of headers";
    assert!(findings.iter().any(|finding| finding.text.contains(why)));
    assert_eq!(outcomes.connects(), 1);
}

#[test]
fn a_smaller_header_table_is_acknowledged_once() {
    // The first header block after the settings begins with the new table size (RFC 7541 §4.2).
    let server = steady(ms(1)).greeting(|_| after(ms(1), settings(&[(1, 0)])));
    let (outcomes, seen) = load("-X POST -c 1 --streams 2 -n 20", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 20)]);
    let seen = seen.borrow();
    let resized = seen.calls.iter().filter(|call| call.method == 0x20);
    assert_eq!(resized.count(), 1);
    assert_eq!(seen.calls[0].method, POST);
    assert_ne!(seen.calls[19].method, 0x20);
}
