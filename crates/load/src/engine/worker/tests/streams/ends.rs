//! Tests of streams and connections that end before their responses: retries and outcomes.

use prony_record::Outcome;

use super::server::{
    CANCEL, END_STREAM, INTERNAL_ERROR, NO_ERROR, OK, REFUSED_STREAM, data, field, goaway, head,
    ping, reset, settings,
};
use super::*;
use crate::socket::Close;
use crate::socket::simulated::SendTiming;

#[test]
fn a_refused_request_is_retried() {
    // Refused requests are retried, whatever their method, because the server did not process them.
    for words in ["-X GET", "-X POST --body something"] {
        let server = ScriptedH2Server::new(|call| match call.number % 10 {
            3 => after(ms(4), reset(call.stream, REFUSED_STREAM)),
            _ => after(ms(10), ok(call.stream)),
        });
        let (outcomes, seen) = load(&format!("{words} -c 2 --streams 5 -n 90"), server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 90)]);
        let record = &outcomes.record;
        assert_eq!(record.totals.retried, 10);
        assert_eq!(seen.borrow().calls.len(), 100);
        assert_eq!(outcomes.connects(), 2);
        // The clock of the retried request keeps running.
        assert_us(record.response_time_us.max, 14_000);
        assert_us(record.response_time_us.p50, 10_000);
    }
}

#[test]
fn a_request_that_is_refused_twice_has_failed() {
    let server = ScriptedH2Server::new(|call| after(ms(4), reset(call.stream, REFUSED_STREAM)));
    let (outcomes, seen) = load("-c 2 --streams 5 -n 40", server);
    assert_eq!(outcomes.all(), [(Outcome::Reset, 40)]);
    assert_eq!(outcomes.record.totals.retried, 40);
    assert_eq!(seen.borrow().calls.len(), 80);
    let findings = &outcomes.record.findings;
    let is_reported =
        |finding: &prony_record::Finding| finding.text.contains("refused the request twice");
    assert!(findings.iter().any(is_reported), "{findings:?}");
}

#[test]
fn a_reset_fails_only_its_stream() {
    let server = ScriptedH2Server::new(|call| {
        let half = [head(call.stream, OK, 0), data(call.stream, b"h", 0)].concat();
        match call.number % 4 {
            0 => after(ms(3), reset(call.stream, INTERNAL_ERROR)),
            1 => {
                let mut steps = after(ms(1), half);
                steps.extend(after(ms(2), reset(call.stream, CANCEL)));
                steps
            }
            _ => after(ms(10), ok(call.stream)),
        }
    });
    let (outcomes, _) = load("-c 1 --streams 4 -n 400", server);
    let expected = [(Outcome::Ok, 200), (Outcome::Reset, 200)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.record.totals.retried, 0);
    assert_eq!(outcomes.connects(), 1);
    assert_eq!(outcomes.record.status[&200], 200);
}

#[test]
fn a_protocol_error_of_a_stream_fails_only_that_stream() {
    // The response head declares 5 bytes (content-length is entry 28 of the static table).
    let server = ScriptedH2Server::new(|call| match call.number {
        7 => {
            let fields = b"\x88\x0f\x0d\x015";
            let head = server::frame(server::HEADERS, 0x4, call.stream, fields);
            after(ms(3), [head, data(call.stream, b"hi", END_STREAM)].concat())
        }
        _ => after(ms(10), ok(call.stream)),
    });
    let (outcomes, _) = load("-c 1 --streams 4 -n 40", server);
    let expected = [(Outcome::Ok, 39), (Outcome::Protocol, 1)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.connects(), 1);
}

#[test]
fn a_protocol_error_of_a_connection_fails_its_streams_and_replaces_it() {
    // DATA arrives on a stream that was never opened.
    let server = ScriptedH2Server::new(|call| match call.number {
        9 => after(ms(3), data(99, b"hi", 0)),
        _ => after(ms(10), ok(call.stream)),
    });
    let (outcomes, seen) = load("-c 1 --streams 4 -n 40", server);
    let expected = [(Outcome::Ok, 36), (Outcome::Protocol, 4)];
    assert_eq!(outcomes.all(), expected);
    let seen = seen.borrow();
    // The client sends GOAWAY with the reason, and gives the server 10 ms to close.
    assert_eq!(seen.goaways, 1);
    assert_eq!(outcomes.logs[0].borrow().connects[1], ms(23 + 10));
    assert_eq!(outcomes.logs[0].borrow().closes[0], Close::Abort);
    // The slots' clocks don't run during the 10 ms in which the connection closes.
    assert_us(outcomes.record.response_time_us.max, 10_000);
}

#[test]
fn a_connection_closed_after_goaway_is_replaced_at_once() {
    let server = ScriptedH2Server::new(|call| match call.number {
        9 => {
            let mut steps = after(ms(3), data(99, b"hi", 0));
            steps.push((ms(5), Step::Send(ok(call.stream))));
            steps.push((ms(6), Step::Close));
            steps
        }
        _ => after(ms(10), ok(call.stream)),
    });
    let (outcomes, _) = load("-c 1 --streams 4 -n 40", server);
    let expected = [(Outcome::Ok, 36), (Outcome::Protocol, 4)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.logs[0].borrow().connects[1], ms(26));
}

#[test]
fn an_http1_response_is_a_protocol_error_each_time() {
    let response = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    let server = ScriptedH2Server::new(|_| Vec::new()).greeting(move |_| {
        let mut steps = after(ms(1), &response[..]);
        steps.push((ms(1), Step::Close));
        steps
    });
    let (outcomes, _) = load("-c 2 --streams 3 -n 10", server);
    assert_eq!(outcomes.all(), [(Outcome::Protocol, 10)]);
    assert_eq!(outcomes.connects(), 10);
}

#[test]
fn requests_beyond_goaway_move_to_a_new_connection() {
    for words in ["-X GET", "-X POST --body something"] {
        // At the 14th request, the fourth of its round, the server sends a GOAWAY that covers only
        // the first two requests of that round. The server closes the connection after responding
        // to those two.
        let server = ScriptedH2Server::new(|call| match (call.connection, call.number) {
            (0, 13) => {
                let mut steps = after(Nanos::ZERO, goaway(call.stream - 4, NO_ERROR));
                steps.push((ms(10), Step::Close));
                steps
            }
            (0, 12 | 14..) => Vec::new(),
            _ => after(ms(10), ok(call.stream)),
        });
        let (outcomes, seen) = load(&format!("{words} -c 1 --streams 5 -n 50"), server);
        let record = &outcomes.record;
        assert_eq!(outcomes.all(), [(Outcome::Ok, 50)], "{words}");
        assert_eq!(record.totals.retried, 3);
        let seen = seen.borrow();
        assert_eq!((seen.on(0), seen.on(1)), (15, 38));
        // No request waits for the old connections to end, and no new request uses them.
        assert_eq!(outcomes.logs[0].borrow().connects, [ms(0), ms(20)]);
        assert_us(record.response_time_us.max, 10_000);
    }
}

#[test]
fn a_second_draining_connection_waits_for_the_first_to_close() {
    // Two connections are draining. Each has one long response. These responses end at 100 ms and
    // at 210 ms.
    let server = ScriptedH2Server::new(|call| match (call.connection, call.stream) {
        (0, 1) => after(ms(100), ok(call.stream)),
        (0, 7) => after(Nanos::ZERO, goaway(1, NO_ERROR)),
        (0, 9..) => Vec::new(),
        (1, 1) => after(ms(200), ok(call.stream)),
        (1, 3) => after(ms(10), [ok(3), goaway(3, NO_ERROR)].concat()),
        _ => after(ms(10), ok(call.stream)),
    });
    let (outcomes, seen) = load("-c 1 --streams 3 -n 40", server);
    let record = &outcomes.record;
    assert_eq!(outcomes.all(), [(Outcome::Ok, 40)]);
    assert_eq!(record.totals.retried, 2);
    assert_eq!(outcomes.logs[0].borrow().connects, [0, 10, 100].map(ms));
    let seen = seen.borrow();
    assert_eq!([10, 20, 100, 110].map(|at| seen.at(ms(at))), [4, 0, 2, 2]);
    assert_eq!([200, 210, 220].map(|at| seen.at(ms(at))), [2, 3, 3]);
    // The clock of the waiting slots did not run from 20 to 100 ms.
    assert_us(record.response_time_us.max, 200_000);
    assert_us(record.response_time_us.p90, 10_000);
}

#[test]
fn connections_with_a_limited_number_of_requests_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("urls.txt");
    std::fs::write(&file, "http://127.0.0.1:1/\nhttp://127.0.0.1:2/\n").unwrap();
    let two_targets = format!("--urls {}", file.display());
    // `most` is the number of requests that a connection processes. If it is less than twice the
    // number of streams, some requests are refused twice.
    for (most, words) in [
        (16, "-c 2 --streams 8"),
        (17, "-c 2 --streams 8"),
        (100, "-c 4 --streams 4 -X POST --body something"),
        (20, &format!("-c 2 --streams 8 {two_targets}")),
    ] {
        let server = ScriptedH2Server::new(move |call| {
            let last = 2 * most - 1;
            match call.stream {
                stream if stream > last => Vec::new(),
                stream if stream == last => {
                    let mut steps = after(Nanos::ZERO, goaway(last, NO_ERROR));
                    steps.extend(after(ms(10), ok(stream)));
                    steps
                }
                stream => after(ms(10), ok(stream)),
            }
        });
        let (outcomes, seen) = load(&format!("{words} -n 1600"), server);
        let record = &outcomes.record;
        assert_eq!(outcomes.all(), [(Outcome::Ok, 1600)], "{most} {words}");
        let sent = seen.borrow().calls.len() as u64;
        assert_eq!(sent, 1600 + record.totals.retried, "{most} {words}");
        let fewest = 1600 / most as usize;
        let connects = outcomes.connects();
        // With two targets, a slot that has lost its connection may take a request for the other
        // target.
        let most = fewest + fewest / 4 + 4;
        assert!((fewest..=most).contains(&connects), "{words}: {connects}");
        // No request waits: 16 requests are in flight at any time.
        assert_us(record.response_time_us.max, 10_000);
        assert_eq!(record.totals.elapsed_s, 1.0, "{most} {words}");
    }
}

#[test]
fn a_request_rejected_twice_by_goaway_has_failed() {
    let server = ScriptedH2Server::new(|_| after(ms(1), goaway(0, NO_ERROR)));
    let (outcomes, seen) = load("-c 1 --streams 5 -n 50", server);
    assert_eq!(outcomes.all(), [(Outcome::Reset, 50)]);
    assert_eq!(outcomes.record.totals.retried, 50);
    assert_eq!(seen.borrow().calls.len(), 100);
}

#[test]
fn goaway_and_close_with_open_streams() {
    // The connection has served requests before, so idempotent requests are retried. Other requests
    // fail.
    for (words, outcome, retried) in [
        ("-X GET", Outcome::Ok, 5),
        ("-X POST", Outcome::ClosedEarly, 0),
    ] {
        let server = ScriptedH2Server::new(|call| match (call.connection, call.number) {
            (0, 10) => {
                let mut steps = after(ms(2), goaway(0x7fff_ffff, NO_ERROR));
                steps.push((ms(3), Step::Close));
                steps
            }
            (0, 11..) => Vec::new(),
            _ => after(ms(10), ok(call.stream)),
        });
        let (outcomes, _) = load(&format!("{words} -c 1 --streams 5 -n 50"), server);
        let record = &outcomes.record;
        assert_eq!(
            outcomes.count(outcome),
            5 + 45 * u64::from(outcome == Outcome::Ok)
        );
        assert_eq!(record.totals.ok + record.totals.failed, 50);
        assert_eq!(record.totals.retried, retried);
        assert_eq!(outcomes.connects(), 2);
    }
}

#[test]
fn goaway_between_requests_fails_no_request() {
    // A request is due every 50 ms, and its response takes 10 ms. GOAWAY arrives 10 ms after every
    // third response.
    let server = ScriptedH2Server::new(|call| {
        let mut steps = after(ms(10), ok(call.stream));
        if call.number % 3 == 2 {
            steps.extend(after(ms(20), goaway(call.stream, NO_ERROR)));
        }
        steps
    });
    let (outcomes, _) = load("-r 20 -c 1 --streams 5 -n 30", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 30)]);
    let record = &outcomes.record;
    assert_eq!((record.totals.retried, outcomes.connects()), (0, 10));
    assert_us(record.response_time_us.max, 10_000);
}

#[test]
fn a_close_between_requests_fails_no_request() {
    for last in [Step::Close, Step::Fail(libc::ECONNRESET)] {
        let server = ScriptedH2Server::new(move |call| {
            let mut steps = after(ms(10), ok(call.stream));
            steps.push((ms(20), last.clone()));
            steps
        });
        let (outcomes, _) = load("-r 20 -c 1 --streams 5 -n 30", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 30)]);
        assert_eq!(outcomes.record.totals.retried, 0);
        assert_eq!(outcomes.connects(), 30);
    }
}

/// A server that ends its first connection in round `round`, while four streams are open. It has
/// sent the response head on one stream, the head and part of the body on another, and nothing on
/// the other two.
fn cut(round: u64, last: Step) -> ScriptedH2Server {
    ScriptedH2Server::new(move |call| {
        if call.connection > 0 || call.number < 4 * round {
            return after(ms(10), ok(call.stream));
        }
        let half = [head(call.stream, OK, 0), data(call.stream, b"h", 0)].concat();
        match call.number % 4 {
            0 => after(ms(1), head(call.stream, OK, 0)),
            1 => after(ms(2), half),
            2 => vec![(ms(5), last.clone())],
            _ => Vec::new(),
        }
    })
}

#[test]
fn a_connection_that_ends_with_open_streams() {
    use Outcome::{ClosedEarly, Ok, Reset, Truncated};
    let reset = Step::Fail(libc::ECONNRESET);
    for (words, round, last, expected, retried) in [
        // The connection has served requests before, so requests without any response byte are
        // retried if they are idempotent.
        ("-X GET", 2, Step::Close, vec![(Ok, 38), (Truncated, 2)], 2),
        ("-X GET", 2, reset.clone(), vec![(Ok, 38), (Reset, 2)], 2),
        (
            "-X POST",
            2,
            Step::Close,
            vec![(Ok, 36), (ClosedEarly, 2), (Truncated, 2)],
            0,
        ),
        ("-X POST", 2, reset.clone(), vec![(Ok, 36), (Reset, 4)], 0),
        // The connection has served no request, so the failure counts against the server.
        (
            "-X GET",
            0,
            Step::Close,
            vec![(Ok, 36), (ClosedEarly, 2), (Truncated, 2)],
            0,
        ),
        ("-X GET", 0, reset, vec![(Ok, 36), (Reset, 4)], 0),
    ] {
        let words = format!("{words} -c 1 --streams 4 -n 40");
        let (outcomes, _) = load(&words, cut(round, last.clone()));
        let mut all = outcomes.all();
        let mut expected = expected;
        all.sort_by_key(|(outcome, _)| format!("{outcome:?}"));
        expected.sort_by_key(|(outcome, _)| format!("{outcome:?}"));
        assert_eq!(all, expected, "{words} {last:?}");
        assert_eq!(outcomes.record.totals.retried, retried, "{words} {last:?}");
        assert_eq!(outcomes.connects(), 2, "{words} {last:?}");
    }
}

#[test]
fn a_request_is_sent_at_most_twice() {
    // Each connection serves four requests, and ends during the next four.
    let server = ScriptedH2Server::new(|call| match call.stream {
        1..9 => after(ms(10), ok(call.stream)),
        9 => vec![(ms(5), Step::Close)],
        _ => Vec::new(),
    });
    let (outcomes, seen) = load("-c 1 --streams 4 -n 40", server);
    let totals = &outcomes.record.totals;
    assert_eq!(outcomes.count(Outcome::Ok), totals.ok);
    // Each connection receives eight requests. Four get a response, and four are retried on the
    // next connection.
    assert_eq!((totals.ok, totals.retried), (40, 36));
    assert_eq!(seen.borrow().calls.len() as u64, 40 + totals.retried);
}

#[test]
fn responses_are_read_after_a_failed_send() {
    // The fourth send contains two requests, and fails. The response to one of these requests
    // arrives nevertheless.
    let server = ScriptedH2Server::new(|call| match call.number {
        4 => {
            let mut steps = after(ms(2), ok(call.stream));
            steps.push((ms(3), Step::Close));
            steps
        }
        5 => Vec::new(),
        _ => after(ms(10), ok(call.stream)),
    })
    .taking({
        let mut sends = 0;
        move |_| {
            sends += 1;
            match sends {
                4 => SendTiming::Fail(ms(1), libc::ECONNRESET),
                _ => SendTiming::AtOnce,
            }
        }
    });
    let (outcomes, _) = load("-X POST -c 1 --streams 2 -n 20", server);
    let expected = [(Outcome::Ok, 19), (Outcome::Reset, 1)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.logs[0].borrow().connects, [ms(0), ms(23)]);
}

#[test]
fn a_send_that_fails_between_requests_fails_no_request() {
    // Sending the acknowledgment of a ping fails, and the peer never reports the end of the
    // connection.
    let server = ScriptedH2Server::new(|call| {
        let mut steps = after(ms(10), ok(call.stream));
        steps.extend(after(ms(20), ping()));
        steps
    })
    .taking({
        let mut sends = 0;
        move |connection| {
            sends += u64::from(connection == 0);
            match (connection, sends) {
                // The second send, which acknowledges the settings, succeeds. The third one fails.
                (0, 3) => SendTiming::Fail(Nanos::ZERO, libc::EPIPE),
                _ => SendTiming::AtOnce,
            }
        }
    });
    let (outcomes, _) = load("-r 20 -c 1 --streams 5 -n 10", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 10)]);
    assert_eq!(outcomes.logs[0].borrow().connects, [ms(0), ms(50)]);
    assert_us(outcomes.record.response_time_us.max, 10_000);
}

#[test]
fn a_new_connection_for_each_request() {
    let server = steady(ms(10)).connecting(|_| Connect::Accept(ms(3)));
    let (outcomes, seen) = load("-c 4 --no-keepalive -n 100", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    assert_eq!(outcomes.connects(), 100);
    assert!(seen.borrow().calls.iter().all(|call| call.stream == 1));
    assert_us(outcomes.record.response_time_us.min, 13_000);
    assert_us(outcomes.record.response_time_us.max, 13_000);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.325);
}

#[test]
fn a_new_connection_for_each_request_for_any_outcome() {
    let server = ScriptedH2Server::new(|call| match call.number % 5 {
        0 => after(ms(3), reset(call.stream, INTERNAL_ERROR)),
        1 => Vec::new(),
        2 => after(ms(3), reset(call.stream, REFUSED_STREAM)),
        3 => after(ms(1), ping()),
        _ => after(ms(10), ok(call.stream)),
    });
    let words = "-c 1 --no-keepalive -n 100 --timeout 50ms";
    let (outcomes, seen) = load(words, server);
    assert_eq!(outcomes.connects(), seen.borrow().calls.len());
    assert_eq!(outcomes.record.totals.started, 100);
    assert!(seen.borrow().calls.iter().all(|call| call.stream == 1));
}

#[test]
fn a_failed_connect_fails_every_request_that_waits_for_it() {
    // After GOAWAY, four requests move to a new connection, whose connect is refused.
    let mut connects = 0;
    let server = ScriptedH2Server::new(|call| match (call.connection, call.number) {
        (0, 3) => after(ms(1), goaway(0, NO_ERROR)),
        (0, _) => Vec::new(),
        _ => after(ms(10), ok(call.stream)),
    })
    .connecting(move |_| {
        connects += 1;
        match connects {
            2 => Connect::Fail(ms(1), libc::ECONNREFUSED),
            _ => Connect::Accept(Nanos::ZERO),
        }
    });
    let (outcomes, _) = load("-c 1 --streams 4 -n 40", server);
    let expected = [(Outcome::Ok, 36), (Outcome::ConnectRefused, 4)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.record.totals.retried, 4);
    // All four slots wait for a backoff.
    assert_eq!(outcomes.logs[0].borrow().connects, [0, 1, 12].map(ms));
}

#[test]
fn pings_and_settings_are_acknowledged_between_requests() {
    let server = ScriptedH2Server::new(|call| {
        let mut steps = after(ms(10), ok(call.stream));
        steps.extend(after(ms(15), ping()));
        steps.extend(after(ms(16), settings(&[(0x99, 5)])));
        steps
    });
    let (outcomes, seen) = load("-r 20 -c 1 --streams 5 -n 30", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 30)]);
    // The load ends before the last pings arrive.
    assert_eq!(seen.borrow().acks, 1 + 29);
    assert_eq!(outcomes.connects(), 1);
}

#[test]
fn refused_requests_come_first_on_the_next_connection() {
    // The server processes ten requests on a connection, and refuses six of sixteen. While the next
    // connection is being established, other requests begin to wait for it.
    let server = ScriptedH2Server::new(|call| match call.stream {
        0..=19 => after(ms(10), ok(call.stream)),
        21 => after(Nanos::ZERO, goaway(19, NO_ERROR)),
        _ => Vec::new(),
    });
    let server = server.connecting(|_| Connect::Accept(ms(20)));
    let (outcomes, _) = load("-c 1 --streams 16 -n 320", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 320)]);
    assert!(outcomes.record.totals.retried > 0);
}

#[test]
fn a_grpc_call_fails_by_its_status() {
    let grpc = |kind: &str| [vec![OK], field("content-type", kind)].concat();
    let status = |status: &str| field("grpc-status", status);
    let both = 0x4 | END_STREAM;
    for (kind, trailers, expected) in [
        ("application/grpc", status("0"), "ok"),
        ("application/grpc", status("14"), "grpc_unavailable"),
        ("application/grpc+proto", status("5"), "grpc_not_found"),
        ("Application/gRPC;x=y", status("99"), "grpc_unknown"),
        ("application/grpc", status("x"), "grpc_no_status"),
        ("application/grpc", field("x", "y"), "grpc_no_status"),
        ("application/grpc-web", status("14"), "ok"),
        ("text/plain", status("14"), "ok"),
    ] {
        for is_trailers_only in [false, true] {
            let (head, trailers) = (grpc(kind), trailers.clone());
            let server = ScriptedH2Server::new(move |call| {
                let frame =
                    |flags, block: &[u8]| server::frame(server::HEADERS, flags, call.stream, block);
                let bytes = if is_trailers_only {
                    frame(both, &[&head[..], &trailers].concat())
                } else {
                    let body = data(call.stream, b"message", 0);
                    [frame(0x4, &head), body, frame(both, &trailers)].concat()
                };
                after(ms(1), bytes)
            });
            let (outcomes, _) = load("-c 1 --streams 2 -n 6", server);
            let counts = outcomes.all().into_iter();
            let counts = Vec::from_iter(counts.map(|(outcome, n)| (outcome.name(), n)));
            assert_eq!(counts, [(expected, 6)], "{kind}");
            assert_eq!(outcomes.record.status[&200], 6);
        }
    }
}
