//! Response times of an entry: in sparse buckets when stored or sent, and in dense buckets while
//! they are recorded.

use std::borrow::Cow;

use crate::buckets::{self, BucketCount};
use crate::distribution::LONGEST_NS;
use crate::{Distribution, Nanos, Summary};

/// Number of significant bits of a response time. The middle of a bucket differs by at most 0.4%
/// from each time in the bucket.
const TIME_BITS: u32 = 8;

/// Number of buckets, up to the bucket that contains the longest time.
pub(crate) const TIME_BUCKETS: usize = bucket_of(Nanos(LONGEST_NS)) as usize + 1;

const fn bucket_of(time: Nanos) -> u32 {
    let nanos = match time.0 {
        nanos @ ..LONGEST_NS => nanos,
        _ => LONGEST_NS,
    };
    buckets::bucket_of(TIME_BITS, nanos)
}

/// Nonempty buckets of an entry's response times.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SparseTimes {
    /// Response times of the successful requests.
    pub(crate) known: Vec<BucketCount>,
    /// Lower bounds on response times.
    pub(crate) at_least: Vec<BucketCount>,
}

impl SparseTimes {
    pub(super) fn merge(&mut self, other: &SparseTimes) {
        buckets::add_counts(&mut self.known, &other.known);
        buckets::add_counts(&mut self.at_least, &other.at_least);
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.at_least.clear();
    }

    /// Adds a time that is known only as a lower bound.
    pub(crate) fn record_at_least(&mut self, time: Nanos) {
        let bucket = bucket_of(time);
        match self.at_least.binary_search_by_key(&bucket, |it| it.0) {
            Ok(place) => self.at_least[place].1 += 1,
            Err(place) => self.at_least.insert(place, (bucket, 1)),
        }
    }

    /// Converts the times to a distribution. Each time becomes the middle of its bucket.
    pub(super) fn to_distribution(&self) -> Distribution {
        let mut times = Distribution::new();
        let middle = |bucket: u32| Nanos(buckets::middle_of(TIME_BITS, bucket));
        for &(bucket, count) in &self.known {
            times.record_many(middle(bucket), count);
        }
        for &(bucket, count) in &self.at_least {
            times.record_many_at_least(middle(bucket), count);
        }
        times
    }

    /// Converts a distribution back, as the inverse of [`SparseTimes::to_distribution`]. Each
    /// bucket of a distribution is within one sparse bucket.
    pub(super) fn of_distribution(times: &Distribution) -> SparseTimes {
        let sparse = |buckets: &mut dyn Iterator<Item = (Nanos, u64)>| {
            let mut sparse: Vec<BucketCount> = Vec::new();
            for (time, count) in buckets {
                match sparse.last_mut() {
                    Some(last) if last.0 == bucket_of(time) => last.1 += count,
                    _ => sparse.push((bucket_of(time), count)),
                }
            }
            sparse
        };
        SparseTimes {
            known: sparse(&mut times.buckets()),
            at_least: sparse(&mut times.buckets_at_least()),
        }
    }

    /// Returns the number of recorded times, including those known only as lower bounds.
    pub fn count(&self) -> u64 {
        total_count(&self.known) + self.censored()
    }

    /// Returns the number of times that are known only as lower bounds.
    pub fn censored(&self) -> u64 {
        total_count(&self.at_least)
    }

    /// Returns all times, including those known only as lower bounds.
    fn all(&self) -> Cow<'_, [BucketCount]> {
        if self.at_least.is_empty() {
            return Cow::Borrowed(&self.known);
        }
        let mut all = self.known.clone();
        buckets::add_counts(&mut all, &self.at_least);
        Cow::Owned(all)
    }

    /// Summarizes the times by the same rules as [`crate::Distribution::summary`].
    pub fn summary(&self) -> Summary {
        let all = self.all();
        let (Some(first), Some(last)) = (all.first(), all.last()) else {
            return Summary::default();
        };
        let known = total_count(&self.known);
        let mut at_least = Vec::new();
        if known == 0 {
            at_least.push("min".to_owned());
        }
        let mut at = |name: &str, quantile: f64| {
            let rank = (quantile * total_count(&all) as f64).ceil().max(1.0) as u64;
            let low = value_at(&all, rank);
            // `low` assumes that each time equals its lower bound. In the other extreme, all of
            // these times are longer than every known time.
            let is_bound = rank > known || value_at(&self.known, rank) > low * 1.01;
            if is_bound {
                at_least.push(name.to_owned());
            }
            low
        };
        let (p50, p75) = (at("p50", 0.5), at("p75", 0.75));
        let (p90, p95) = (at("p90", 0.9), at("p95", 0.95));
        let (p99, p99_9) = (at("p99", 0.99), at("p99_9", 0.999));
        let longest_bound = self.at_least.last().map(|it| it.0);
        if longest_bound.is_some_and(|bound| self.known.last().is_none_or(|it| bound >= it.0)) {
            at_least.push("max".to_owned());
        }
        // The age of a request that was cut off early must not become the minimum.
        let shortest = self.known.first().unwrap_or(first);
        Summary {
            min: micros(shortest.0),
            mean: rounded(mean(&all)),
            p50,
            p75: Some(p75),
            p90,
            p95: Some(p95),
            p99,
            p99_9,
            max: micros(last.0),
            stdev: (known > 0).then(|| rounded(deviation(&self.known))),
            at_least,
        }
    }
}

fn total_count(buckets: &[BucketCount]) -> u64 {
    buckets.iter().map(|(_, count)| count).sum()
}

/// Returns the middle of a bucket in microseconds.
fn micros(bucket: u32) -> f64 {
    buckets::middle_of(TIME_BITS, bucket) as f64 / 1e3
}

/// Rounds microseconds to whole nanoseconds.
fn rounded(micros: f64) -> f64 {
    (micros * 1e3).round() / 1e3
}

/// Returns the value with the given rank, in microseconds. The smallest value has rank 1.
fn value_at(buckets: &[BucketCount], rank: u64) -> f64 {
    let mut below = 0;
    let found = buckets.iter().find(|(_, count)| {
        below += count;
        below >= rank
    });
    found.or(buckets.last()).map_or(0.0, |it| micros(it.0))
}

fn mean(buckets: &[BucketCount]) -> f64 {
    let sum = |(bucket, count): &BucketCount| micros(*bucket) * *count as f64;
    buckets.iter().map(sum).sum::<f64>() / total_count(buckets) as f64
}

fn deviation(buckets: &[BucketCount]) -> f64 {
    let mean = mean(buckets);
    let square = |(bucket, count): &BucketCount| (micros(*bucket) - mean).powi(2) * *count as f64;
    (buckets.iter().map(square).sum::<f64>() / total_count(buckets) as f64).sqrt()
}

/// Response times of the current slice by entry. Each possible bucket has a counter, so recording
/// only increments a number. Counters take no memory until they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct DenseTimes {
    /// Counters, [`TIME_BUCKETS`] for each entry. Each count fits into 32 bits, because the buckets
    /// are emptied every half second.
    counts: Vec<u32>,
    /// First and last nonempty bucket of each entry.
    used: Vec<(u32, u32)>,
}

const UNUSED: (u32, u32) = (u32::MAX, 0);

impl DenseTimes {
    pub(crate) fn new(entries: usize) -> DenseTimes {
        DenseTimes {
            counts: vec![0; entries * TIME_BUCKETS],
            used: vec![UNUSED; entries],
        }
    }

    /// Adds a response time of an entry.
    #[inline]
    pub(crate) fn record(&mut self, entry: u32, time: Nanos) {
        let bucket = bucket_of(time);
        let entry = (entry as usize).min(self.used.len().saturating_sub(1));
        if let (Some(used), Some(count)) = (
            self.used.get_mut(entry),
            self.counts.get_mut(entry * TIME_BUCKETS + bucket as usize),
        ) {
            *used = (used.0.min(bucket), used.1.max(bucket));
            *count += 1;
        }
    }

    /// Moves all times to `entries`, whose times must be empty.
    pub(crate) fn take<'a>(&mut self, entries: impl Iterator<Item = &'a mut SparseTimes>) {
        for (place, (used, entry)) in self.used.iter_mut().zip(entries).enumerate() {
            let (first, last) = std::mem::replace(used, UNUSED);
            let counts = &mut self.counts[place * TIME_BUCKETS..][..TIME_BUCKETS];
            for bucket in first..=last {
                let count = std::mem::take(&mut counts[bucket as usize]);
                if count > 0 {
                    entry.known.push((bucket, u64::from(count)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(known: &[u64], bounds: &[u64]) -> (SparseTimes, Distribution) {
        let (mut times, mut exact) = (SparseTimes::default(), Distribution::new());
        for &nanos in known {
            buckets::add_counts(&mut times.known, &[(bucket_of(Nanos(nanos)), 1)]);
            exact.record(Nanos(nanos));
        }
        for &nanos in bounds {
            times.record_at_least(Nanos(nanos));
            exact.record_at_least(Nanos(nanos));
        }
        (times, exact)
    }

    #[test]
    fn a_summary_is_that_of_a_distribution_within_half_a_percent() {
        let many: Vec<u64> = (1..=1_000).map(|n| n * n * 3_000).collect();
        for (known, bounds) in [
            (&many[..], &[][..]),
            (&many, &[5_000, 2_999_000_000]),
            (&many[..50], &[1_000; 50]),
            (&many[..98], &[5_000_000_000; 2]),
            (&[], &[3_000_000, 5_000_000]),
            (&[u64::MAX, 0, 1], &[]),
            (&[7_000_000], &[]),
            (&[], &[]),
        ] {
            let (times, exact) = of(known, bounds);
            assert_eq!(times.count(), exact.count());
            assert_eq!(times.censored(), exact.censored());
            let (ours, exact) = (times.summary(), exact.summary());
            assert_eq!(ours.at_least, exact.at_least, "{known:?} {bounds:?}");
            let figures = |it: &Summary| {
                [it.min, it.mean, it.p50, it.p90, it.p99, it.p99_9, it.max]
                    .into_iter()
                    .chain([it.p75, it.p95].map(Option::unwrap_or_default))
                    .collect::<Vec<f64>>()
            };
            for (ours, exact) in figures(&ours).into_iter().zip(figures(&exact)) {
                assert!((ours - exact).abs() <= exact * 0.005, "{ours} {exact}");
            }
            let (ours, exact) = (ours.stdev.unwrap_or(-1.0), exact.stdev.unwrap_or(-1.0));
            assert!((ours - exact).abs() <= exact.abs() * 0.01, "{ours} {exact}");
        }
    }

    #[test]
    fn a_distribution_keeps_every_bucket() {
        let every: Vec<BucketCount> = (0..TIME_BUCKETS as u32).map(|it| (it, 3)).collect();
        let times = SparseTimes {
            known: every.clone(),
            at_least: every.into_iter().step_by(7).collect(),
        };
        assert_eq!(
            SparseTimes::of_distribution(&times.to_distribution()),
            times
        );
    }

    #[test]
    fn dense_times_become_sparse_once() {
        let mut dense = DenseTimes::new(2);
        let mut entries = [SparseTimes::default(), SparseTimes::default()];
        for (entry, nanos) in [(1, 7), (9, 7), (1, u64::MAX), (1, 6)] {
            dense.record(entry, Nanos(nanos));
        }
        dense.take(entries.iter_mut());
        assert_eq!(entries[0], SparseTimes::default());
        let last = TIME_BUCKETS as u32 - 1;
        assert_eq!(entries[1].known, [(6, 1), (7, 2), (last, 1)]);
        let mut again = [SparseTimes::default(), SparseTimes::default()];
        dense.take(again.iter_mut());
        assert_eq!(again[1], SparseTimes::default());
        DenseTimes::default().record(3, Nanos(1));
    }
}
