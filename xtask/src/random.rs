//! Pseudorandom numbers that follow from a seed.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(crate) struct RandomNumbers(u64);

impl RandomNumbers {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> RandomNumbers {
        RandomNumbers(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 (included) to 1 (excluded).
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts `items` into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.next() % (last as u64 + 1);
            items.swap(last, other as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_permutations_that_follow_the_seed() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..10).collect();
            RandomNumbers::new(seed).shuffle(&mut items);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
        let firsts: std::collections::BTreeSet<u32> = (0..200).map(|s| order(s)[0]).collect();
        assert_eq!(firsts.len(), 10);
    }
}
