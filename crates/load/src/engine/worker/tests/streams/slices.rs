//! Tests of HTTP/2 loads in slices. Between two slices, other loads run.

use rustls::version::{TLS12, TLS13};

use super::super::slices::{agreement, chaos, simulate_slices, turns};
use super::chaos::{random_load, whimsical};
use super::server::{NO_ERROR, goaway, ping};
use super::tls::{self, TlsServer, config};
use super::*;

const CASES: u64 = 500;
/// Number of cases over TLS. There are fewer because they take longer.
const CASES_OVER_TLS: u64 = 50;

#[test]
fn sliced_streams_agree_with_a_whole_load() {
    for words in [
        "-c 2 --streams 8",
        "-c 8 --streams 8 -r 1000",
        "-c 2 --no-keepalive",
    ] {
        let spec = spec(&format!("--http 2 {words} -d 3s --warmup 20ms"));
        let sliced = agreement::assert_agrees(&spec, || Box::new(steady(ms(2))), 1);
        if !words.contains("--no-keepalive") {
            let connections = sliced.outcomes.record.load.connections as usize;
            assert_eq!(sliced.outcomes.connects(), connections);
        }
    }
}

#[test]
fn sliced_streams_over_tls_agree_with_a_whole_load() {
    for version in [&TLS12, &TLS13] {
        for words in ["-c 2 --streams 4", "-c 2 --http 1.1"] {
            let spec = tls::spec(&format!("{words} -d 3s --warmup 20ms"));
            let config = config(version, &[b"h2", b"http/1.1"]);
            let server = || -> Box<dyn Server> {
                let config = config.clone();
                Box::new(TlsServer::new(move |_| config.clone(), steady(ms(10))))
            };
            let sliced = agreement::assert_agrees(&spec, server, 1);
            assert_eq!(sliced.outcomes.connects(), 2, "{words}");
        }
    }
}

#[test]
fn a_connection_closed_between_slices_fails_no_request() {
    for (frames, connects) in [(goaway(u32::MAX >> 1, NO_ERROR), 12), (ping(), 1)] {
        // The first request on a connection arrives at the start of a slice.
        let server = ScriptedH2Server::new(move |call| {
            let mut steps = after(ms(2), ok(call.stream));
            if call.stream == 1 {
                steps.extend(after(ms(500), frames.clone()));
            }
            steps
        });
        let spec = spec("--http 2 -c 1 --streams 8 --warmup 20ms");
        let turns = turns(12, ms(20), ms(250), ms(600));
        let sliced = simulate_slices(&spec, vec![Box::new(server)], &turns);
        let totals = &sliced.outcomes.record.totals;
        assert_eq!((totals.failed, totals.retried), (0, 0));
        assert_eq!(sliced.outcomes.connects(), connects);
    }
}

#[test]
fn a_connection_that_dies_in_a_drain_is_replaced() {
    // The first connection receives no responses from 300 ms on.
    let server = ScriptedH2Server::new(|call| {
        if call.connection == 0 && call.now >= ms(300) {
            Vec::new()
        } else {
            after(ms(2), ok(call.stream))
        }
    });
    let spec = spec("--http 2 -c 1 --streams 8 --timeout 200ms --warmup 20ms");
    let turns = turns(6, ms(20), ms(250), ms(100));
    let sliced = simulate_slices(&spec, vec![Box::new(server)], &turns);
    assert_eq!(sliced.outcomes.connects(), 2);
    assert_eq!(sliced.outcomes.count(Outcome::Timeout), 8);
    let last = sliced.workers[0].reports.last().unwrap();
    assert_eq!((last.ok, last.failed), (8 * 125, 0));
}

#[test]
fn no_request_is_lost_or_hangs_in_slices() {
    let (mut complete, mut retried) = (0, 0);
    let seeds = (0..CASES).map(|seed| (seed, false));
    let over_tls = (0..CASES_OVER_TLS).map(|seed| (seed, true));
    for (seed, over_tls) in seeds.chain(over_tls) {
        let load = |random: &mut ChaCha8Rng| random_load(random, over_tls);
        let server = |seed, badness| whimsical(seed, badness, over_tls);
        let case = || chaos::one_case(seed, load, server);
        let sliced = std::panic::catch_unwind(case);
        let sliced = sliced.unwrap_or_else(|_| panic!("seed {seed} {over_tls}"));
        complete += sliced
            .workers
            .iter()
            .filter(|it| it.reports.len() == 10)
            .count();
        retried += sliced.outcomes.record.totals.retried;
    }
    assert!(complete > 100 && retried > 50, "{complete} {retried}");
}
