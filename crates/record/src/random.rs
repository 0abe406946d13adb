//! Reproducible random numbers.

/// A sequence of random numbers that depends only on its seed: SplitMix64 (Steele, Lea and Flood,
/// OOPSLA 2014).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomSequence(u64);

impl RandomSequence {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> RandomSequence {
        RandomSequence(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let number = random_at(self.0, 0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    /// The next number, from 0 up to but not including 1.
    pub fn next_share(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number with this index in the sequence of `seed`, for callers that share no state.
pub fn random_at(seed: u64, index: u64) -> u64 {
    let mut mixed = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut sequence = RandomSequence::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        for (index, number) in expected.into_iter().enumerate() {
            assert_eq!(sequence.next_u64(), number);
            assert_eq!(random_at(1_234_567, index as u64), number);
        }
        assert!((0.0..1.0).contains(&sequence.next_share()));
    }
}
