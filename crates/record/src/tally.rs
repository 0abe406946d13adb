//! Counts of times by bucket, for the one update that each request makes.

use crate::Nanos;
use crate::distribution::LONGEST_NS;

/// Buckets of an octave, which makes each of them at most 0.1% wide.
const HALF: usize = 1 << HALF_BITS;
const HALF_BITS: u32 = 10;

/// As many buckets as a [`crate::Distribution`] has, with the same bounds, and without its checks.
/// It takes 150 KB, of which those parts are touched that are used.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// More than 32 bits can count are not recorded between two times of emptying it.
    counts: Box<[u32; BUCKETS]>,
    is_empty: bool,
}

const BUCKETS: usize = bucket_of(LONGEST_NS) + 1;

impl Default for Tally {
    fn default() -> Self {
        Tally {
            counts: Box::new([0; BUCKETS]),
            is_empty: true,
        }
    }
}

impl Tally {
    /// Adds a time.
    #[inline]
    pub(crate) fn record(&mut self, time: Nanos) {
        self.is_empty = false;
        self.counts[bucket_of(time.0.min(LONGEST_NS))] += 1;
    }

    /// Gives the shortest time of each bucket that is not empty, and its count, and empties it.
    pub(crate) fn take(&mut self, mut each: impl FnMut(Nanos, u64)) {
        if std::mem::replace(&mut self.is_empty, true) {
            return;
        }
        for (bucket, count) in self.counts.iter_mut().enumerate() {
            if *count > 0 {
                each(start_of(bucket), u64::from(*count));
                *count = 0;
            }
        }
    }
}

/// The times below two octaves' worth of buckets have one each; above, each octave has [`HALF`].
#[inline]
pub(crate) const fn bucket_of(nanos: u64) -> usize {
    let in_one = 2 * HALF as u64 - 1;
    let octave = (u64::BITS - 1 - HALF_BITS) - (nanos | in_one).leading_zeros();
    octave as usize * HALF + (nanos >> octave) as usize
}

/// The shortest time that is in a bucket.
pub(crate) const fn start_of(bucket: usize) -> Nanos {
    let octave = (bucket / HALF).saturating_sub(1);
    Nanos(((bucket - octave * HALF) as u64) << octave)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn buckets_are_those_of_a_distribution() {
        let edges = (0..46).map(|bit| 1u64 << bit);
        let near = edges.flat_map(|edge| [edge - 1, edge, edge + 1, edge + edge / 3]);
        for nanos in near.chain([LONGEST_NS]).filter(|&n| n <= LONGEST_NS) {
            let (mut direct, mut taken) = (Distribution::new(), Distribution::new());
            direct.record(Nanos(nanos));
            let mut tally = Tally::default();
            tally.record(Nanos(nanos));
            tally.take(|time, count| taken.record_many(time, count));
            assert_eq!(taken.summary(), direct.summary(), "{nanos}");
            assert_eq!(taken.encode(), direct.encode(), "{nanos}");
        }
    }

    #[test]
    fn what_was_taken_is_gone_and_what_is_beyond_is_the_longest() {
        let mut tally = Tally::default();
        tally.take(|_, _| panic!("nothing was recorded"));
        for _ in 0..3 {
            tally.record(Nanos(u64::MAX));
        }
        let mut taken = Vec::new();
        tally.take(|time, count| taken.push((time, count)));
        tally.take(|_, _| panic!("all was taken"));
        let [(time, 3)] = taken[..] else {
            panic!("{taken:?}");
        };
        assert!(time.0 <= LONGEST_NS && time.0 > LONGEST_NS / 1001 * 1000);
    }
}
