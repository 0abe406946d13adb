//! The order of trials: randomized complete blocks.
//!
//! Every variant runs once in each block, in an order that is random for each block. Drift of the
//! machine therefore affects all variants equally (R. A. Fisher, *The Design of Experiments*, 1935,
//! chapter IV).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Returns the order of a block's variants, as indexes into the plan's list.
///
/// `block` counts from 0. The order depends only on the arguments, not on earlier blocks, so a
/// resumed experiment continues its original schedule.
pub fn order(seed: u64, block: usize, variants: usize) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Each block has a separate random stream, so its order doesn't depend on earlier blocks.
    random.set_stream(block as u64);
    let mut order: Vec<usize> = (0..variants).collect();
    // This Fisher–Yates shuffle is written out, because a library's shuffle may change between
    // versions, and a recorded seed must always give the same order.
    for last in (1..variants).rev() {
        order.swap(last, below(last as u64 + 1, &mut random) as usize);
    }
    order
}

/// Draws a random integer from 0 to `end - 1`. All values are equally likely.
fn below(end: u64, random: &mut ChaCha8Rng) -> u64 {
    // Draws at or above the largest multiple of `end` would favor small numbers, so reject them.
    let fair = u64::MAX - u64::MAX % end;
    loop {
        let drawn = random.next_u64();
        if drawn < fair {
            return drawn % end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_block_holds_every_variant_once() {
        for variants in [0, 1, 2, 7, 100] {
            for block in 0..20 {
                let mut order = order(7, block, variants);
                order.sort_unstable();
                assert_eq!(order, (0..variants).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_seed_keeps_its_meaning() {
        // These expected values must never change: a change would break every resumed experiment
        // and every recorded order.
        let drawn: Vec<_> = (0..4).map(|block| order(42, block, 4)).collect();
        assert_eq!(
            drawn,
            [[2, 0, 3, 1], [2, 1, 3, 0], [0, 1, 2, 3], [2, 3, 0, 1]]
        );
    }

    #[test]
    fn every_order_is_as_likely_as_any_other() {
        let mut counts: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for block in 0..6_000 {
            *counts.entry(order(1, block, 3)).or_default() += 1;
        }
        assert_eq!(counts.len(), 6);
        // Each of the six orders is expected 1,000 times. Five standard deviations are about 145.
        for (order, count) in counts {
            assert!((855..=1_145).contains(&count), "{order:?}: {count}");
        }
    }

    #[test]
    fn seeds_differ() {
        let of = |seed| {
            (0..10)
                .map(|block| order(seed, block, 4))
                .collect::<Vec<_>>()
        };
        assert_ne!(of(1), of(2));
    }
}
