//! Times and tallies of requests, which each worker collects on its own and all front ends add up.

use std::sync::{Mutex, PoisonError};

use prony_record::{Distribution, Nanos};

/// Counts and times of requests that can be added up.
pub(crate) trait Tally: Default {
    /// Adds the counts of other requests.
    fn merge(&mut self, other: Self);
}

/// Tally of a load, to which each worker adds its own when it ends.
#[derive(Debug, Default)]
pub(crate) struct LoadTally<T>(Mutex<T>);

impl<T: Tally> LoadTally<T> {
    /// Adds the tally of a worker.
    pub(crate) fn add(&self, tally: T) {
        // Poisoning of the mutex is ignored here and below: if another worker panicked, the load
        // ends anyway.
        let mut whole = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        whole.merge(tally);
    }

    /// Returns the tally of all workers that have ended.
    pub(crate) fn take(&self) -> T {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Number, sum and extremes of times. All figures are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeSummary {
    count: u64,
    sum_ns: u128,
    /// Sum of the squared times.
    squares: u128,
    min: Option<Nanos>,
    max: Nanos,
}

impl TimeSummary {
    /// Returns the summary of times that are all zero.
    pub(crate) fn zeros(count: u64) -> TimeSummary {
        TimeSummary {
            count,
            ..TimeSummary::default()
        }
    }

    pub(crate) fn add(&mut self, time: Nanos) {
        let ns = u128::from(time.0);
        self.merge(TimeSummary {
            count: 1,
            sum_ns: ns,
            squares: ns * ns,
            min: Some(time),
            max: time,
        });
    }

    /// Returns the number of times.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the minimum, or 0 without any times.
    pub(crate) fn min(&self) -> Nanos {
        self.min.unwrap_or_default()
    }

    /// Returns the maximum, or 0 without any times.
    pub(crate) fn max(&self) -> Nanos {
        self.max
    }

    /// Returns the sum in seconds.
    pub(crate) fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Returns the arithmetic mean in nanoseconds, or NaN without any times.
    pub(crate) fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count as f64
    }

    /// Returns the sample standard deviation in nanoseconds, or 0 for fewer than two times.
    pub(crate) fn deviation_ns(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let sum = self.sum_ns as f64;
        let squared = self.squares as f64 - sum * (sum / self.count as f64);
        (squared.max(0.0) / (self.count - 1) as f64).sqrt()
    }

    /// Returns the time at this zero-based index in ascending order, with an error of up to 0.1%.
    /// If the index is too large, returns the last time. `spread` has the same times.
    pub(crate) fn at(&self, index: u64, spread: &Distribution) -> Nanos {
        if index == 0 {
            return self.min();
        }
        if index >= self.count.saturating_sub(1) {
            return self.max;
        }
        let mut seen = 0;
        let bucket = spread.buckets().find(|(_, count)| {
            seen += count;
            seen > index
        });
        // The upper end of a bucket may exceed the maximum.
        bucket.map_or(self.max, |(time, _)| time.min(self.max))
    }
}

impl Tally for TimeSummary {
    fn merge(&mut self, other: TimeSummary) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.squares += other.squares;
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.max = self.max.max(other.max);
    }
}

/// Returns `part` / `whole`, or 0 if `whole` is 0.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times_ms: &[u64]) -> (TimeSummary, Distribution) {
        let (mut summary, mut spread) = (TimeSummary::default(), Distribution::new());
        for &ms in times_ms {
            summary.add(Nanos::from_millis(ms));
            spread.record(Nanos::from_millis(ms));
        }
        (summary, spread)
    }

    fn near(time: Nanos, ms: u64) -> bool {
        time.0.abs_diff(ms * 1_000_000) <= ms * 1_000
    }

    #[test]
    fn figures_are_those_of_a_naive_computation() {
        let (summary, spread) = of(&[7, 1, 3, 9, 5]);
        let ms = Nanos::from_millis;
        assert_eq!((summary.min(), summary.max()), (ms(1), ms(9)));
        assert_eq!((summary.mean_ns(), summary.sum_s()), (5e6, 0.025));
        let deviation_ms = summary.deviation_ns() / 1e6;
        assert!((deviation_ms - 10.0_f64.sqrt()).abs() < 1e-9);
        for (index, expected) in [1, 3, 5, 7, 9, 9].into_iter().enumerate() {
            assert!(near(summary.at(index as u64, &spread), expected), "{index}");
        }
    }

    #[test]
    fn each_rank_is_found_among_many() {
        let (summary, spread) = of(&(1..=1000).rev().collect::<Vec<_>>());
        for index in 0..1000 {
            let found = summary.at(index, &spread);
            assert!(near(found, index + 1), "{index}: {found:?}");
        }
    }

    #[test]
    fn one_and_none_have_no_deviation() {
        let (none, spread) = of(&[]);
        assert_eq!(
            (none.min(), none.at(0, &spread)),
            (Nanos::ZERO, Nanos::ZERO)
        );
        assert!(none.mean_ns().is_nan() && none.deviation_ns() == 0.0);
        assert_eq!(of(&[4]).0.deviation_ns(), 0.0);
        assert_eq!(of(&[4, 4, 4]).0.deviation_ns(), 0.0);
        assert_eq!(TimeSummary::zeros(3).mean_ns(), 0.0);
    }

    #[test]
    fn merging_equals_adding_all_at_once() {
        let whole = LoadTally::default();
        for times in [&[3, 8][..], &[1, 20, 2], &[]] {
            whole.add(of(times).0);
        }
        assert_eq!(whole.take(), of(&[3, 8, 1, 20, 2]).0);
        assert_eq!(whole.take(), TimeSummary::default());
    }
}
