//! Tests of early data: requests that are sent before the end of the handshake.

use std::cell::Cell;
use std::rc::Rc;

use prony_record::{Outcome, QuicUse};

use super::*;

/// Options of a load that opens a new connection for each request, so that connections can use
/// tickets from earlier ones.
const WORDS: &str = "-n 90 -c 1 --no-keepalive --early-data";

fn quic(load: &QuicOutcomes) -> &QuicUse {
    load.record.quic.as_ref().unwrap()
}

#[test]
fn early_data_saves_a_round_trip_on_resumed_connections() {
    let load = simulate(WORDS, GOOD, 100, always(finish(ok(b"hi"))));
    assert_eq!(load.all(), [(Outcome::Ok, 90)], "{}", load.errors());
    assert_eq!(load.log.borrow().requests, 90);
    assert_eq!(load.record.totals.retried, 0);
    assert_eq!(load.log.borrow().connections, 90);
    // A connection completes its handshake before it closes, even if the response arrives earlier.
    // The load ends before the last connection's datagrams arrive.
    assert_eq!(load.log.borrow().handshakes, 89);
    let quic = quic(&load);
    // A ticket is used only once, and a connection with early data ends before the server sends new
    // ones. A full handshake yields two, so two of three connections have one.
    assert_eq!(
        (quic.early_data_offered, quic.early_data_accepted),
        (60, 60)
    );
    assert_eq!(load.record.totals.tls_resumed, 60);
    let times = &load.record.response_time_us;
    // A request takes one or two round trips, plus a millisecond at the server.
    assert!((14_200.0..14_450.0).contains(&times.mean), "{}", times.mean);
    assert!((21_000.0..21_100.0).contains(&times.p99), "{}", times.p99);
    // Early data doesn't shorten the handshake.
    let connect = load.record.connect_time_us.p50;
    assert!((10_000.0..10_100.0).contains(&connect), "{connect}");
}

#[test]
fn without_the_flag_there_is_no_early_data() {
    let words = "-n 30 -c 1 --no-keepalive";
    let load = simulate(words, GOOD, 100, always(finish(ok(b"hi"))));
    assert_eq!(load.all(), [(Outcome::Ok, 30)], "{}", load.errors());
    assert_eq!(quic(&load).early_data_offered, 0);
    assert_eq!(load.record.totals.tls_resumed, 29);
}

#[test]
fn requests_of_rejected_early_data_are_sent_again_once() {
    for streams in [1, 8] {
        let script = Box::new(|number| match number % 3 {
            0 => QuicReply {
                bytes: ok(b"hi"),
                ..end(ReplyEnd::ForgetTickets)
            },
            1 => QuicReply {
                bytes: ok(b"hi"),
                ..end(ReplyEnd::Close(0x100))
            },
            _ => finish(ok(b"hi")),
        });
        let words = match streams {
            1 => WORDS.to_owned(),
            _ => "-n 400 -c 2 --streams 8 --early-data --timeout 5s".to_owned(),
        };
        let load = simulate(&words, GOOD, 100, script);
        let totals = &load.record.totals;
        let quic = quic(&load);
        let rejected = quic.early_data_offered - quic.early_data_accepted;
        assert!(rejected > 0, "{quic:?}");
        assert!(totals.retried >= rejected, "{totals:?} {quic:?}");
        if streams == 1 {
            assert_eq!(totals.ok + totals.failed, 90, "{:?}", load.all());
            // The server closes the connection before it sends the response.
            assert_eq!(load.log.borrow().requests, 90);
            assert_eq!(totals.retried, rejected);
        } else {
            assert_eq!(totals.ok + totals.failed, 400, "{:?}", load.all());
        }
    }
}

#[test]
fn nothing_is_lost_on_a_bad_link_with_early_data() {
    for (seed, loss) in [(1, 0.05), (2, 0.2)] {
        let link = LinkQuality {
            jitter: Duration::from_millis(5),
            loss,
            duplication: 0.1,
            ..GOOD
        };
        let script = Box::new(|number| match number % 7 {
            0 => QuicReply {
                bytes: ok(b"hi"),
                ..end(ReplyEnd::ForgetTickets)
            },
            _ => finish(ok(&[b'x'; 3000])),
        });
        let words = format!(
            "-n 200 -c 4 --no-keepalive --early-data --timeout 0 --connect-timeout 1h --seed {seed}"
        );
        let load = simulate(&words, link, 100, script);
        assert_eq!(load.all(), [(Outcome::Ok, 200)], "{}", load.errors());
        assert_eq!(load.log.borrow().requests, 200);
        let quic = quic(&load);
        assert!(quic.early_data_offered > quic.early_data_accepted);
        assert!(quic.early_data_accepted > 0, "{quic:?}");
    }
}

#[test]
fn a_failed_handshake_fails_the_requests_sent_before_its_end() {
    let script = Box::new(|number| match number {
        30 => QuicReply {
            bytes: ok(b"hi"),
            ..end(ReplyEnd::RefuseConnections)
        },
        _ => finish(ok(b"hi")),
    });
    let load = simulate("-n 50 -c 1 --no-keepalive --early-data", GOOD, 100, script);
    let totals = &load.record.totals;
    assert_eq!((totals.ok, totals.failed), (31, 19), "{:?}", load.all());
    assert_eq!(load.log.borrow().requests, 31);
    assert_eq!(totals.retried, 0);
    assert!(quic(&load).early_data_offered > quic(&load).early_data_accepted);
}

#[test]
fn a_request_that_was_too_early_is_sent_again_without_early_data() {
    // HEADERS with `:status` 425, which is entry 70 of QPACK's static table.
    const TOO_EARLY: &[u8] = &[0x01, 0x04, 0x00, 0x00, 0xff, 0x07];
    for words in [
        WORDS,
        "-n 90 -c 1 --no-keepalive --early-data --expect-status 200-599",
    ] {
        let sent = Rc::new(Cell::new(0));
        let counted = sent.clone();
        let script = Box::new(move |number| match number % 3 {
            1 => {
                counted.set(counted.get() + 1);
                finish(TOO_EARLY.to_vec())
            }
            _ => finish(ok(b"hi")),
        });
        let load = simulate(words, GOOD, 100, script);
        let retried = load.record.totals.retried;
        assert!(retried > 0 && retried <= quic(&load).early_data_offered);
        assert_eq!(load.log.borrow().requests, 90 + retried);
        // Only requests that were not sent as early data keep the response 425.
        let kept = load.record.status.get(&425).copied().unwrap_or(0);
        assert_eq!(kept + retried, sent.get(), "{words}");
        assert_eq!(load.record.status[&200], 90 - kept, "{words}");
    }
    // Without early data, 425 is a response like any other.
    let script = always(finish(TOO_EARLY.to_vec()));
    let load = simulate("-n 5 -c 1", GOOD, 100, script);
    assert_eq!(load.all(), [(Outcome::UnexpectedStatus, 5)]);
    assert_eq!(load.record.totals.retried, 0);
}
