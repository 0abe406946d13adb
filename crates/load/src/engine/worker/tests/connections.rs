//! Tests of connections that are opened, refused, lost, kept open, drained or aborted.

use prony_record::{FindingId, Outcome};

use super::*;
use crate::socket::Close;
use crate::socket::simulated::SendTiming;

fn connecting(connect: impl FnMut(Nanos) -> Connect + 'static) -> Box<dyn Server> {
    Box::new(FunctionServer {
        connect,
        response: |_: &ReceivedRequest| reply([(ms(1), Step::Send(OK.to_vec()))]),
    })
}

/// A server that resets its first connection and refuses all others. If it refused every
/// connection, the load would end early.
fn refusing() -> Box<dyn Server> {
    let mut first = true;
    connecting(move |_| {
        let errno = if std::mem::take(&mut first) {
            libc::EHOSTUNREACH
        } else {
            libc::ECONNREFUSED
        };
        Connect::Fail(Nanos::ZERO, errno)
    })
}

#[test]
fn backoff_after_refused_connects_grows_and_never_spins() {
    let outcomes = load("-d 10s -c 1", refusing());
    let log = outcomes.logs[0].borrow();
    let gaps: Vec<_> = log.connects.windows(2).map(|w| w[1].since(w[0])).collect();
    assert_eq!(gaps[..7], [10, 20, 40, 80, 160, 320, 500].map(ms));
    assert!(gaps[7..].iter().all(|gap| *gap == ms(500)));
    // Seven connection attempts begin in the first 630 ms, then one every 500 ms.
    assert_eq!(log.connects.len(), 7 + 18);
    let refused = outcomes.count(Outcome::ConnectRefused);
    assert_eq!(refused, log.connects.len() as u64 - 1);
    // The next request's clock starts when the slot becomes free after the backoff.
    assert_eq!(outcomes.record.response_time_us.max, 0.0);
}

#[test]
fn a_server_that_recovers_is_loaded_at_once() {
    let mut refusals = 3;
    let server = connecting(move |_| {
        refusals -= 1;
        if refusals >= 0 {
            Connect::Fail(Nanos::ZERO, libc::ECONNREFUSED)
        } else {
            Connect::Accept(Nanos::ZERO)
        }
    });
    let outcomes = load("-d 1s -c 1", server);
    assert_eq!(outcomes.count(Outcome::ConnectRefused), 3);
    // The backoffs take 70 ms. Then one request finishes per millisecond, except the last one,
    // which the end of the load cuts off.
    assert_eq!(outcomes.count(Outcome::Ok), 929);
}

#[test]
fn an_open_loop_continues_while_connects_are_refused() {
    let outcomes = load("-d 10s -r 100 -c 2", refusing());
    let totals = &outcomes.record.totals;
    assert_eq!(totals.started + totals.unstarted, 1000);
    assert!(outcomes.connects() < 60);
    assert!(totals.unstarted > 900);
}

#[test]
fn a_connect_without_a_response_times_out() {
    let server = connecting(|_| Connect::Never);
    let outcomes = load("-d 10s -c 3 --connect-timeout 1s", server);
    // Each connect times out after a second. The backoff grows after each timeout.
    assert_eq!(outcomes.count(Outcome::ConnectTimeout), 3 * 8);
    assert!(
        outcomes
            .record
            .response_time_us
            .at_least
            .contains(&"max".to_owned())
    );
}

#[test]
fn a_request_may_time_out_before_its_connect() {
    let server = connecting(|_| Connect::Never);
    let outcomes = load("-n 30 -c 3 --timeout 100ms --connect-timeout 1s", server);
    assert_eq!(outcomes.all(), [(Outcome::Timeout, 30)]);
    assert_eq!(outcomes.record.totals.elapsed_s, 1.0);
}

#[test]
fn each_connect_error_has_its_outcome() {
    for (errno, outcome) in [
        (libc::ECONNREFUSED, Outcome::ConnectRefused),
        (libc::ETIMEDOUT, Outcome::ConnectTimeout),
        (libc::EHOSTUNREACH, Outcome::ConnectUnreachable),
        (libc::ENETUNREACH, Outcome::ConnectUnreachable),
        (libc::EADDRNOTAVAIL, Outcome::NoLocalPort),
        (libc::EMFILE, Outcome::TooManyFiles),
        (libc::ECONNRESET, Outcome::Reset),
        (libc::ENOENT, Outcome::ConnectFailed),
        (libc::EACCES, Outcome::ConnectFailed),
    ] {
        let server = connecting(move |_| Connect::Fail(ms(1), errno));
        let outcomes = load("-n 5 -c 2", server);
        assert_eq!(outcomes.all(), [(outcome, 5)], "{errno}");
        let named = std::io::Error::from_raw_os_error(errno).to_string();
        let is_reported = outcomes
            .record
            .findings
            .iter()
            .any(|f| f.text.contains(&named));
        assert!(is_reported, "{:?}", outcomes.record.findings);
    }
}

#[test]
fn a_connect_to_a_full_backlog_is_retried_until_the_connect_timeout() {
    let mut busy = 4;
    let server = connecting(move |_| {
        busy -= 1;
        if busy >= 0 {
            Connect::Fail(Nanos::ZERO, libc::EAGAIN)
        } else {
            Connect::Accept(Nanos::ZERO)
        }
    });
    let outcomes = load("-n 3 -c 1", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 3)]);
    assert_eq!(outcomes.connects(), 5);
    // The wait for room in the backlog is part of the connect time and of the response time.
    assert!(outcomes.record.connect_time_us.max >= 4_000.0);
    assert!(outcomes.record.response_time_us.max >= 5_000.0);

    let server = connecting(|_| Connect::Fail(Nanos::ZERO, libc::EAGAIN));
    let outcomes = load("-n 2 -c 1 --connect-timeout 50ms", server);
    assert_eq!(outcomes.all(), [(Outcome::ConnectTimeout, 2)]);
    // Each retry waits longer than the previous one, so there are 16 attempts in 50 ms rather than
    // 50.
    assert_eq!(outcomes.connects(), 2 * 16);
}

/// Creates a server that responds normally to the first `whole` requests on each connection, and
/// with `end` to later ones.
fn after(whole: u64, end: impl Fn() -> Reply + 'static) -> Box<dyn Server> {
    responding(move |request| {
        if request.number < whole {
            reply([(ms(1), Step::Send(OK.to_vec()))])
        } else {
            end()
        }
    })
}

#[test]
fn requests_lost_on_a_reused_connection_are_retried() {
    for step in [Step::Close, Step::Fail(libc::ECONNRESET)] {
        let server = after(4, move || reply([(ms(1), step.clone())]));
        let outcomes = load("-n 100 -c 1", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
        // Each connection serves four requests. Every connection except the last also loses one
        // request.
        assert_eq!(outcomes.connects(), 25);
        assert_eq!(outcomes.record.totals.retried, 24);
        assert_eq!(outcomes.logs[0].borrow().requests.len(), 124);
        // The request's clock keeps running: 1 ms until the connection was lost, and 1 ms for the
        // retry.
        assert!(outcomes.record.response_time_us.max >= 2_000.0);
        assert!(outcomes.record.service_time_us.max >= 2_000.0);
        let request = outcomes.logs[0].borrow().requests[0].1.len() as u64;
        assert_eq!(outcomes.record.totals.bytes_out, 124 * request);
    }
}

#[test]
fn a_request_lost_on_a_new_connection_has_failed() {
    for (step, outcome) in [
        (Step::Close, Outcome::ClosedEarly),
        (Step::Fail(libc::ECONNRESET), Outcome::Reset),
        (Step::Fail(libc::ETIMEDOUT), Outcome::Timeout),
    ] {
        let server = after(0, move || reply([(ms(1), step.clone())]));
        let outcomes = load("-n 10 -c 1", server);
        assert_eq!(outcomes.all(), [(outcome, 10)]);
        assert_eq!(outcomes.record.totals.retried, 0);
    }
    // A request is retried once. The second connection is a new one, so losing the request there is
    // a failure.
    let server = responding(|request| match (request.connection, request.number) {
        (0, 0) => reply([(ms(1), Step::Send(OK.to_vec()))]),
        _ => reply([(ms(1), Step::Close)]),
    });
    let outcomes = load("-n 2 -c 1", server);
    assert_eq!(
        outcomes.all(),
        [(Outcome::Ok, 1), (Outcome::ClosedEarly, 1)]
    );
    assert_eq!(outcomes.record.totals.retried, 1);
}

#[test]
fn only_retryable_requests_are_retried() {
    let count = |method: &str| {
        let server = after(1, || reply([(ms(1), Step::Close)]));
        let outcomes = load(&format!("-n 10 -c 1 -X {method} --body x"), server);
        (outcomes.count(Outcome::Ok), outcomes.record.totals.retried)
    };
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(count(method), (10, 9), "{method}");
    }
    for method in ["POST", "PATCH", "BREW"] {
        assert_eq!(count(method), (5, 0), "{method}");
    }
    // A byte of the response arrived, so the server may have processed the request.
    let server = after(1, || {
        reply([
            (ms(1), Step::Send(b"H".to_vec())),
            (ms(1), Step::Fail(libc::ECONNRESET)),
        ])
    });
    let outcomes = load("-n 10 -c 1", server);
    assert_eq!(outcomes.count(Outcome::Reset), 5);
    assert_eq!(outcomes.record.totals.retried, 0);
}

#[test]
fn idle_connections_closed_by_the_server_cost_no_request() {
    // A request is due every 20 ms. The server closes connections that are idle for 5 ms.
    let server = responding(|_| reply([(ms(1), Step::Send(OK.to_vec())), (ms(6), Step::Close)]));
    let outcomes = load("-r 50 -d 2s -c 1", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    assert_eq!(outcomes.connects(), 100);
    assert_eq!(outcomes.record.totals.retried, 0);
    let reused = |f: &&prony_record::Finding| f.id == FindingId::ConnectionsNotReused;
    assert_eq!(outcomes.record.findings.iter().filter(reused).count(), 1);
}

#[test]
fn unsolicited_bytes_end_an_idle_connection() {
    let server = responding(|_| {
        reply([
            (ms(1), Step::Send(OK.to_vec())),
            (
                ms(6),
                Step::Send(b"HTTP/1.1 408 Request Timeout\r\n\r\n".to_vec()),
            ),
        ])
    });
    let outcomes = load("-r 50 -d 200ms -c 1", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 10)]);
    let text = &outcomes
        .record
        .findings
        .iter()
        .find(|f| f.id == FindingId::UnaskedBytes)
        .unwrap()
        .text;
    assert!(
        text.contains("10 times while no request was in flight"),
        "{text}"
    );
}

#[test]
fn connections_are_reused_or_closed_as_configured() {
    let outcomes = load("-n 100 -c 5", steady(ms(1), OK));
    assert_eq!((outcomes.connects(), outcomes.count(Outcome::Ok)), (5, 100));
    let server =
        responding(|_| reply([(ms(1), Step::Send(OK_CLOSE.to_vec())), (ms(2), Step::Close)]));
    let outcomes = load("-n 100 -c 5 --no-keepalive", server);
    assert_eq!(
        (outcomes.connects(), outcomes.count(Outcome::Ok)),
        (100, 100)
    );
    // The server always closes first, so the TIME_WAIT state is on its side.
    let log = outcomes.logs[0].borrow();
    let orderly = log
        .closes
        .iter()
        .filter(|how| **how == Close::Orderly)
        .count();
    assert!(orderly >= 95, "{orderly}");
}

#[test]
fn a_server_that_announces_close_has_10_ms_to_close() {
    let outcomes = load("-n 10 -c 1", steady(ms(1), OK_CLOSE));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 10)]);
    assert_eq!(outcomes.connects(), 10);
    // The load takes ten requests of 1 ms, and nine backoffs between them.
    assert_eq!(outcomes.record.totals.elapsed_s, 0.100);
    assert!(
        outcomes.logs[0]
            .borrow()
            .closes
            .iter()
            .all(|how| *how == Close::Abort)
    );
}

#[test]
fn without_keepalive_the_client_closes_at_once() {
    let outcomes = load("-n 10 -c 1 --no-keepalive", steady(ms(1), OK));
    assert_eq!((outcomes.connects(), outcomes.count(Outcome::Ok)), (10, 10));
    assert_eq!(outcomes.record.totals.elapsed_s, 0.010);
}

#[test]
fn a_response_before_the_request_is_sent_counts_and_closes_the_connection() {
    for taken in [
        SendTiming::Never,
        SendTiming::After(ms(50)),
        SendTiming::Fail(Nanos::ZERO, libc::EPIPE),
    ] {
        let server = responding(move |_| Reply {
            taken,
            steps: vec![(ms(1), Step::Send(OK.to_vec()))],
        });
        let outcomes = load("-n 10 -c 1", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 10)]);
        assert_eq!(outcomes.connects(), 10);
    }
}

#[test]
fn a_failed_send_without_a_response_is_a_reset() {
    for step in [Step::Close, Step::Fail(libc::ECONNRESET)] {
        let server = responding(move |_| Reply {
            taken: SendTiming::Fail(Nanos::ZERO, libc::EPIPE),
            steps: vec![(ms(1), step.clone())],
        });
        let outcomes = load("-n 10 -c 1", server);
        assert_eq!(outcomes.all(), [(Outcome::Reset, 10)]);
    }
}

#[test]
fn a_response_split_at_any_byte_gives_the_same_result() {
    const RESPONSE: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\
        Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nHello\r\n0\r\nTrailer: x\r\n\r\n";
    for at in 1..RESPONSE.len() {
        let server = responding(move |_| {
            reply([
                (ms(1), Step::Send(RESPONSE[..at].to_vec())),
                (ms(2), Step::Send(RESPONSE[at..].to_vec())),
            ])
        });
        let outcomes = load("-n 3 -c 1 --expect-size 5", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 3)], "split at {at}");
        assert_eq!(outcomes.connects(), 1);
        assert_eq!(outcomes.record.totals.bytes_in, 3 * RESPONSE.len() as u64);
        assert_eq!(outcomes.record.totals.body_bytes_in, 15);
    }
    let server = responding(|_| {
        let bytes = RESPONSE.iter().zip(1..);
        let steps = bytes.map(|(byte, n)| (ms(n), Step::Send(vec![*byte])));
        Reply {
            steps: steps.collect(),
            ..Reply::default()
        }
    });
    assert_eq!(
        load("-n 3 -c 1 --expect-size 5", server).all(),
        [(Outcome::Ok, 3)]
    );
}

#[test]
fn a_response_truncated_at_any_byte_is_not_a_success() {
    for (end, outcome) in [
        (Step::Close, Outcome::Truncated),
        (Step::Fail(libc::ECONNRESET), Outcome::Reset),
    ] {
        for length in 1..OK.len() {
            let end = end.clone();
            let server = responding(move |_| {
                reply([
                    (ms(1), Step::Send(OK[..length].to_vec())),
                    (ms(2), end.clone()),
                ])
            });
            let outcomes = load("-n 2 -c 1", server);
            assert_eq!(outcomes.all(), [(outcome, 2)], "{length} {outcome:?}");
        }
    }
    for length in 0..OK.len() {
        let server = responding(move |_| match length {
            0 => Reply::default(),
            _ => reply([(ms(1), Step::Send(OK[..length].to_vec()))]),
        });
        let outcomes = load("-n 2 -c 1 --timeout 100ms", server);
        assert_eq!(outcomes.all(), [(Outcome::Timeout, 2)], "{length}");
        assert_eq!(outcomes.record.totals.elapsed_s, 0.2);
    }
}

#[test]
fn connects_that_take_as_long_as_a_lost_syn_are_reported() {
    let mut connects = 0;
    let server = connecting(move |_| {
        connects += 1;
        Connect::Accept(match connects {
            3 => ms(1_003),
            7 => ms(3_040),
            _ => ms(2),
        })
    });
    let outcomes = load("-n 20 -c 4 --no-keepalive", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 20)]);
    let text = outcomes.finding("syn-retransmitted").unwrap();
    assert!(
        text.starts_with("2 of 20 connection attempts took about 1 s, 3 s"),
        "{text}"
    );
    // A slow server does not count as a lost SYN.
    let outcomes = load(
        "-n 20 -c 4 --no-keepalive",
        connecting(|_| Connect::Accept(ms(700))),
    );
    assert_eq!(outcomes.finding("syn-retransmitted"), None);
}

#[test]
fn requests_that_were_not_sent_count_no_bytes() {
    let server = responding(|_| Reply {
        taken: SendTiming::Never,
        ..Reply::default()
    });
    let outcomes = load("-n 4 -c 2 -X POST --body text --timeout 100ms", server);
    assert_eq!(outcomes.all(), [(Outcome::Timeout, 4)]);
    assert_eq!(outcomes.record.totals.bytes_out, 0);
    let server = responding(|_| Reply {
        taken: SendTiming::Fail(ms(1), libc::EPIPE),
        steps: vec![(ms(2), Step::Close)],
    });
    let outcomes = load("-n 4 -c 2 -X POST --body text", server);
    assert_eq!(outcomes.all(), [(Outcome::Reset, 4)]);
    assert_eq!(outcomes.record.totals.bytes_out, 0);
}

#[test]
fn a_request_that_asks_for_a_close_is_the_last_on_its_connection() {
    // The server closes without announcing it, so a second request would be lost. A request with the
    // method POST would not be sent again.
    let server = || responding(|_| reply([(ms(1), Step::Send(OK.to_vec())), (ms(2), Step::Close)]));
    for words in [
        "-X POST --body x -H Connection:close",
        "-X POST --body x -H connection:TE,Close",
        "-X POST --body x --http 1.0 -H Connection:TE",
        "-X POST --body x{{seq}} -H Connection:close",
        "-X POST --body x -H Connection:te{{seq}},close",
    ] {
        let outcomes = load(&format!("-n 20 -c 2 {words}"), server());
        assert_eq!(outcomes.all(), [(Outcome::Ok, 20)], "{words}");
        assert_eq!(outcomes.connects(), 20, "{words}");
        assert_eq!(outcomes.finding("connections-not-reused"), None, "{words}");
    }
    let outcomes = load("-n 20 -c 2 -H Connection:keep-alive", steady(ms(1), OK));
    assert_eq!(outcomes.connects(), 2);
    assert!(!spec("-n 1 -H Connection:close").info().keepalive);
    assert!(spec("-n 1 -H Connection:keep-alive").info().keepalive);
}

#[test]
fn an_upgrade_that_the_user_asked_for_is_named() {
    const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
    for (words, expected) in [
        (
            "-n 2 -c 1 -H Upgrade:websocket",
            "WebSocket is not supported",
        ),
        ("-n 2 -c 1", "status 101 without a request"),
    ] {
        let outcomes = load(words, steady(ms(1), SWITCHED));
        assert_eq!(outcomes.all(), [(Outcome::Protocol, 2)]);
        let text = outcomes.finding("errors").unwrap();
        assert!(text.contains(expected), "{text}");
    }
}
