//! Tests of servers that violate HTTP/3 or lose connections.

use super::*;

/// Returns the error code with which the client closed the first connection.
fn close_code(load: &QuicOutcomes) -> Option<String> {
    let code = load.log.borrow().close_codes.first().copied()?;
    Some(prony_protocol::h3::ErrorCode(code).to_string())
}

#[test]
fn closed_critical_streams_and_wrong_streams_end_the_connection() {
    for (name, bad, code) in [
        (
            "an ended control stream",
            ReplyEnd::EndControl,
            "H3_CLOSED_CRITICAL_STREAM",
        ),
        // A server may open only one control stream (RFC 9114 §6.2.1).
        (
            "a second control stream",
            ReplyEnd::OpenStream(&[0x00, 0x04, 0x00]),
            "H3_STREAM_CREATION_ERROR",
        ),
        // The load allows no pushes (RFC 9114 §4.6).
        (
            "a push stream",
            ReplyEnd::OpenStream(&[0x01, 0x00]),
            "H3_ID_ERROR",
        ),
        // HEADERS are not permitted on the control stream (RFC 9114 §7.2.2).
        (
            "a response on the control stream",
            ReplyEnd::Announce(&[0x01, 0x03, 0x00, 0x00, 0xd9]),
            "H3_FRAME_UNEXPECTED",
        ),
        // A QPACK decoder instruction for a section that was never sent (RFC 9204 §4.4.1).
        (
            "an unsolicited acknowledgment",
            ReplyEnd::OpenStream(&[0x03, 0x80]),
            "QPACK_DECODER_STREAM_ERROR",
        ),
        // A dynamic table larger than the load permits (RFC 9204 §4.3.1).
        (
            "a table that is too large",
            ReplyEnd::OpenStream(&[0x02, 0x3f, 0xff, 0xff, 0xff, 0x7f]),
            "QPACK_ENCODER_STREAM_ERROR",
        ),
    ] {
        let script = Box::new(move |number| match number {
            0 => end(bad),
            _ => QuicReply {
                after: Duration::from_secs(1),
                ..finish(ok(b"hi"))
            },
        });
        let load = simulate("-n 12 -c 1 --streams 4 --timeout 5s", GOOD, 100, script);
        let totals = &load.record.totals;
        assert_eq!(totals.ok + totals.failed, 12, "{name}: {:?}", load.all());
        assert!(totals.ok >= 8, "{name}: {:?}", load.all());
        assert!(load.log.borrow().connections > 1, "{name}");
        assert_eq!(close_code(&load).as_deref(), Some(code), "{name}");
    }
}

#[test]
fn unknown_streams_are_ignored() {
    // The server opens streams of a reserved type (RFC 9114 §6.2.3).
    let script = Box::new(|number| match number {
        0..20 => QuicReply {
            bytes: ok(b"hi"),
            ..end(ReplyEnd::OpenStream(&[0x21, 1, 2, 3]))
        },
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 40 -c 1 --streams 4", GOOD, 100, script);
    assert_eq!(load.all(), [(Outcome::Ok, 40)], "{}", load.errors());
    assert_eq!(load.log.borrow().connections, 1);
}

#[test]
fn a_restarted_server_resets_connections_at_once() {
    let restarting = Box::new(|number| match number {
        30 => end(ReplyEnd::Restart),
        _ => finish(ok(b"hi")),
    });
    // Requests are due at a steady rate. After the restart, the server resets a connection when one
    // of its packets arrives.
    let words = "-r 100 -n 100 -c 1 --streams 10 --timeout 60s";
    let load = simulate(words, GOOD, 100, restarting);
    let totals = &load.record.totals;
    assert_eq!(totals.ok + totals.failed, 100, "{:?}", load.all());
    // A lost request is sent again only if its connection had served other requests.
    assert!(totals.failed + totals.retried >= 1, "{:?}", load.all());
    assert!(totals.elapsed_s < 30.0, "{}", totals.elapsed_s);
    assert_eq!(load.log.borrow().connections, 2);
}

#[test]
fn idle_connections_that_the_server_ends_are_replaced() {
    let script = always(finish(ok(b"hi")));
    let words = "-r 1 -d 10s -c 1";
    let load = simulate_with(words, GOOD, 100, script, |datagrams| {
        datagrams.set_idle_timeout(Duration::from_millis(300));
    });
    let totals = &load.record.totals;
    assert_eq!(totals.failed, 0, "{:?}: {}", load.all(), load.errors());
    assert!(totals.ok >= 9, "{:?}", load.all());
    assert!(load.log.borrow().connections >= 9);
}

#[test]
fn a_server_that_allows_too_few_unidirectional_streams_fails_requests_at_once() {
    for streams in [0, 1] {
        for words in [
            "-n 6 -c 2 --timeout 1s",
            "-n 6 -c 1 --streams 4 --timeout 0",
        ] {
            let script = always(finish(ok(b"hi")));
            let load = simulate_with(words, GOOD, 100, script, |datagrams| {
                datagrams.set_unidirectional_streams(streams);
            });
            assert_eq!(load.all(), [(Outcome::Protocol, 6)], "{streams} {words}");
            assert!(
                load.errors().contains("initial_max_streams_uni"),
                "{}",
                load.errors()
            );
        }
    }
    let load = simulate_with(
        "-n 6 -c 1",
        GOOD,
        100,
        always(finish(ok(b"hi"))),
        |datagrams| {
            datagrams.set_unidirectional_streams(2);
        },
    );
    assert_eq!(load.all(), [(Outcome::Ok, 6)], "{}", load.errors());
}
