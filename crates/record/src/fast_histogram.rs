//! A histogram with a fast path for recording single values.

use crate::Nanos;
use crate::distribution::LONGEST_NS;

/// Buckets per octave. Each bucket is at most 0.1% wide.
const PER_OCTAVE: usize = 1 << PER_OCTAVE_BITS;
const PER_OCTAVE_BITS: u32 = 10;

/// A histogram with the buckets of a [`crate::Distribution`] but without its checks. It reserves
/// 150 KB of address space, but touches only the pages that it uses.
#[derive(Debug, Clone)]
pub(crate) struct FastHistogram {
    /// Each count fits into 32 bits, because the histogram is emptied every half second.
    counts: Box<[u32; BUCKETS]>,
    is_empty: bool,
}

const BUCKETS: usize = bucket_of(LONGEST_NS) + 1;

impl Default for FastHistogram {
    fn default() -> Self {
        FastHistogram {
            counts: Box::new([0; BUCKETS]),
            is_empty: true,
        }
    }
}

impl FastHistogram {
    #[inline]
    pub(crate) fn record(&mut self, time: Nanos) {
        self.is_empty = false;
        self.counts[bucket_of(time.0.min(LONGEST_NS))] += 1;
    }

    /// Empties the histogram, and calls `each` with the shortest time and the count of each bucket
    /// in use.
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

/// Returns the number of the bucket that contains a time. Each time below twice [`PER_OCTAVE`] has
/// its own bucket; each octave above has [`PER_OCTAVE`] buckets.
#[inline]
pub(crate) const fn bucket_of(nanos: u64) -> usize {
    let in_one = 2 * PER_OCTAVE as u64 - 1;
    let octave = (u64::BITS - 1 - PER_OCTAVE_BITS) - (nanos | in_one).leading_zeros();
    octave as usize * PER_OCTAVE + (nanos >> octave) as usize
}

/// Returns the shortest time in a bucket.
pub(crate) const fn start_of(bucket: usize) -> Nanos {
    let octave = (bucket / PER_OCTAVE).saturating_sub(1);
    Nanos(((bucket - octave * PER_OCTAVE) as u64) << octave)
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
            let mut histogram = FastHistogram::default();
            histogram.record(Nanos(nanos));
            histogram.take(|time, count| taken.record_many(time, count));
            assert_eq!(taken.summary(), direct.summary(), "{nanos}");
            assert_eq!(taken.encode(), direct.encode(), "{nanos}");
        }
    }

    #[test]
    fn taking_empties_the_histogram_and_longer_times_count_as_the_longest() {
        let mut histogram = FastHistogram::default();
        histogram.take(|_, _| panic!("nothing was recorded"));
        for _ in 0..3 {
            histogram.record(Nanos(u64::MAX));
        }
        let mut taken = Vec::new();
        histogram.take(|time, count| taken.push((time, count)));
        histogram.take(|_, _| panic!("all was taken"));
        let [(time, 3)] = taken[..] else {
            panic!("{taken:?}");
        };
        assert!(time.0 <= LONGEST_NS && time.0 > LONGEST_NS / 1001 * 1000);
    }
}
