//! The client against smoltcp, an independent TCP, over a simulated link in virtual time. The link
//! loses, duplicates, delays, reorders and corrupts packets.
//!
//! Each seed draws the link, the sizes and the settings of one run. Every response must arrive
//! unchanged, or the connection must report why it failed.

mod link;
mod run;
mod server;

use run::{Plan, Summary, run};

/// Number of runs per test. `PRONY_TCP_SEEDS` sets a larger one.
const SEEDS: u64 = 2_500;

fn seeds() -> u64 {
    let set = std::env::var("PRONY_TCP_SEEDS").ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// Runs every seed, and adds up the counts.
fn run_all(plan: impl Fn(u64) -> Plan) -> Summary {
    let mut sum = Summary::default();
    for seed in 0..seeds() {
        let summary = run(&plan(seed));
        assert_eq!(summary.wrong, 0, "seed {seed}: wrong bytes");
        assert_eq!(
            summary.complete + summary.failed,
            summary.connections,
            "seed {seed}: a connection neither completed nor failed: {summary:?}"
        );
        sum.add(&summary);
    }
    sum
}

#[test]
fn every_response_arrives_over_a_perfect_link() {
    let sum = run_all(|seed| Plan::draw(seed, 0.0));
    assert_eq!(sum.failed, 0);
    assert_eq!(sum.timeouts, 0);
}

#[test]
fn every_response_arrives_although_packets_are_lost_and_reordered() {
    let sum = run_all(|seed| Plan::draw(seed, 0.05));
    assert_eq!(sum.failed, 0);
    assert!(sum.retransmitted > 100 && sum.out_of_order > 100, "{sum:?}");
}

#[test]
fn every_response_arrives_although_a_fifth_of_the_packets_is_lost() {
    let sum = run_all(|seed| Plan::draw(seed, 0.20));
    assert!(sum.failed * 1_000 < sum.connections, "{sum:?}");
    assert!(sum.timeouts > 100, "{sum:?}");
}

#[test]
fn a_peer_with_a_tiny_window_gets_every_request() {
    let sum = run_all(|seed| Plan {
        server_buffer: 64 + (seed as usize % 400),
        request_bytes: 5_000,
        ..Plan::draw(seed, 0.02)
    });
    assert_eq!(sum.failed, 0);
}

#[test]
fn a_link_that_breaks_ends_each_connection_with_a_reason() {
    let mut failed = 0;
    for seed in 0..50 {
        let summary = run(&Plan {
            breaks_at: Some(20_000_000),
            ..Plan::draw(seed, 0.0)
        });
        assert_eq!(summary.wrong, 0);
        assert_eq!(summary.complete + summary.failed, summary.connections);
        failed += summary.failed;
    }
    assert!(failed > 10);
}
