//! Runs the fuzz target's code briefly, and checks that the seeds cause every kind of event.

use std::collections::BTreeSet;

use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

#[expect(unreachable_pub, reason = "part of the fuzz targets")]
#[path = "../../../fuzz/src/tcp.rs"]
mod tcp;

/// Number of runs; `PRONY_TCP_SEEDS` sets a larger one.
const SEEDS: u64 = 20_000;

#[test]
fn hostile_segments_cause_no_panic_and_bounded_traffic() {
    let set = std::env::var("PRONY_TCP_SEEDS").ok();
    let seeds = set.and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut reached = BTreeSet::new();
    for seed in 0..seeds {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let length = 10 + rng.next_u32() as usize % 600;
        let data: Vec<u8> = (0..length).map(|_| rng.next_u32() as u8).collect();
        let outcome = std::panic::catch_unwind(|| tcp::run(&data));
        assert!(outcome.is_ok(), "seed {seed}");
        reached.extend(outcome.into_iter().flatten());
    }
    assert_eq!(reached.len(), 6, "{reached:?}");
}
