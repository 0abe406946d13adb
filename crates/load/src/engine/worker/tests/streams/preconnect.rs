//! Tests of TLS and HTTP/2 connections that are opened before the load begins.

use prony_record::Outcome;
use rustls::version::{TLS12, TLS13};

use super::server::{NO_ERROR, goaway, limit, ping, settings};
use super::tls::{self, TlsServer, config};
use super::*;

const A_SECOND: PreconnectWait = PreconnectWait {
    maintained: ms(900),
    started: ms(100),
};

fn prepared(spec: LoadSpec, server: impl Server + 'static) -> Outcomes {
    let servers: Vec<Box<dyn Server>> = vec![Box::new(server)];
    simulate_prepared(spec, servers, A_SECOND, Nanos::ZERO, &Control::new(1))
}

fn two(words: &str) -> LoadSpec {
    spec(&format!("--http 2 {words}"))
}

/// Returns the number of connection attempts before the load began.
fn connects_before(outcomes: &Outcomes) -> usize {
    let log = outcomes.logs[0].borrow();
    log.before
        .as_ref()
        .map_or(0, |before| before.connects.len())
}

#[test]
fn all_streams_of_preconnected_connections_begin_at_once() {
    let server = steady(ms(10)).greeting(|_| after(Nanos::ZERO, limit(8)));
    let seen = server.seen();
    let outcomes = prepared(two("-c 2 --streams 4 -n 80"), server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 80)]);
    assert_eq!((connects_before(&outcomes), outcomes.connects()), (2, 0));
    assert_eq!(outcomes.record.totals.connections_opened, 0);
    // SETTINGS arrived before the start, so no request waits for them.
    assert!((0..10).all(|round| seen.borrow().at(ms(10 * round)) == 8));
    assert_us(outcomes.record.response_time_us.max, 10_000);
    assert_eq!(
        seen.borrow().acks,
        2,
        "SETTINGS must be acknowledged before the load"
    );
    assert_eq!(outcomes.record.totals.elapsed_s, 0.1);
}

#[test]
fn pings_and_settings_are_acknowledged_while_idle() {
    let server = steady(ms(10)).greeting(|_| {
        let mut steps = after(ms(1), settings(&[]));
        steps.extend(after(ms(700), ping()));
        steps.extend(after(ms(960), ping()));
        steps
    });
    let outcomes = prepared(two("-c 2 --streams 4 -n 80"), server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 80)]);
    assert_eq!(outcomes.connects(), 0);
}

#[test]
fn connections_closed_before_the_start_are_reopened() {
    for bytes in [
        goaway(0, NO_ERROR),
        // An HTTP/1.1 response is not a frame.
        b"HTTP/1.1 408 Request Timeout\r\n\r\n".to_vec(),
    ] {
        // The connections end while the worker is maintaining them, or later.
        for at in [500, 950] {
            let last = bytes.clone();
            let server = steady(ms(10)).greeting(move |connection| {
                let mut steps = after(ms(1), settings(&[]));
                if connection < 2 {
                    steps.extend(after(ms(at), last.clone()));
                }
                steps
            });
            let outcomes = prepared(two("-c 4 --streams 2 -n 80"), server);
            let all = outcomes.all();
            let is_frame = !bytes.starts_with(b"HTTP");
            if is_frame || at == 500 {
                assert_eq!(all, [(Outcome::Ok, 80)], "{at}");
            } else {
                // The end of a connection reaches the worker only after requests were sent on it,
                // so these requests may fail.
                assert_eq!(all.iter().map(|(_, n)| n).sum::<u64>(), 80);
            }
            assert_eq!(outcomes.connects(), 2, "{at}");
            let finding = outcomes.finding("connections-late").unwrap_or("");
            assert_eq!(finding.starts_with("2 of 4"), at == 500, "{finding}");
        }
    }
}

#[test]
fn preconnecting_does_not_wait_long_for_settings() {
    let server = ScriptedH2Server::new(|_| Vec::new()).greeting(|_| Vec::new());
    let outcomes = prepared(two("-c 2 -n 20 --timeout 100ms"), server);
    assert_eq!(connects_before(&outcomes), 2);
    // The connections are open, but are considered dead once their first requests time out.
    let again = outcomes.logs[0].borrow().connects.clone();
    assert_eq!(again[0], ms(100));
    assert_eq!(outcomes.record.totals.started, 20);
}

#[test]
fn handshakes_are_completed_before_the_load() {
    for version in [&TLS12, &TLS13] {
        for (names, http) in [(&[b"h2" as &[u8]], "2"), (&[b"http/1.1" as &[u8]], "1.1")] {
            let config = config(version, names);
            let two = steady(ms(10)).connecting(|_| Connect::Accept(ms(3)));
            let server = TlsServer::new(move |_| config.clone(), two);
            let outcomes = prepared(tls::spec("-c 4 -n 80"), server);
            assert_eq!(outcomes.all(), [(Outcome::Ok, 80)], "{http}");
            assert_eq!((connects_before(&outcomes), outcomes.connects()), (4, 0));
            let record = &outcomes.record;
            assert_eq!(record.negotiated.http.as_deref(), Some(http));
            assert!(record.negotiated.tls.is_some());
            assert_eq!(record.totals.tls_handshakes, 0);
            assert_us(record.response_time_us.max, 10_000);
            assert_eq!(record.totals.elapsed_s, 0.2);
        }
    }
}

#[test]
fn failed_handshakes_are_reported_and_retried_with_the_request() {
    let (good, other) = (config(&TLS13, &[b"h2"]), config(&TLS13, &[b"other"]));
    let server = TlsServer::new(
        move |connection| match connection {
            0..3 => other.clone(),
            _ => good.clone(),
        },
        steady(ms(10)),
    );
    let outcomes = prepared(tls::spec("-c 4 -n 80"), server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 80)]);
    assert_eq!((connects_before(&outcomes), outcomes.connects()), (4, 3));
    assert_eq!(outcomes.record.totals.tls_handshakes, 3);
    let finding = outcomes.finding("connections-late").unwrap();
    assert!(
        finding.starts_with("3 of 4") && finding.contains("tls: "),
        "{finding}"
    );
}
