//! Computes the statistics that wrk prints and passes to a script's `done`.

use prony_record::Distribution;

/// Distinct integers with their counts, in ascending order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    values: Vec<(u64, u64)>,
}

impl Statistics {
    /// Converts times to whole microseconds, with an error of up to 0.1%.
    pub fn of_times(times: &Distribution) -> Statistics {
        let mut values: Vec<(u64, u64)> = Vec::new();
        for (time, count) in times.buckets() {
            let micros = time.0.saturating_add(500) / 1000;
            match values.last_mut() {
                Some((last, counted)) if *last == micros => *counted += count,
                _ => values.push((micros, count)),
            }
        }
        Statistics { values }
    }

    /// Collects single values, in any order.
    pub fn of_samples(mut samples: Vec<u64>) -> Statistics {
        samples.sort_unstable();
        let chunks = samples.chunk_by(|one, other| one == other);
        let values = chunks.map(|chunk| (chunk[0], chunk.len() as u64)).collect();
        Statistics { values }
    }

    /// Returns the number of recorded values, counting repeated values each time.
    pub fn count(&self) -> u64 {
        self.values.iter().map(|(_, count)| count).sum()
    }

    /// Returns the number of distinct values.
    pub fn distinct(&self) -> usize {
        self.values.len()
    }

    /// Returns the distinct value at this zero-based index, and its count.
    pub fn at(&self, index: usize) -> Option<(u64, u64)> {
        self.values.get(index).copied()
    }

    /// Returns the smallest value; 0 if there is none.
    pub fn min(&self) -> u64 {
        self.values.first().map_or(0, |(value, _)| *value)
    }

    /// Returns the largest value; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.values.last().map_or(0, |(value, _)| *value)
    }

    /// Returns the arithmetic mean; 0 if there is no value.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.values.iter().map(|(v, n)| *v as f64 * *n as f64).sum();
        match self.count() {
            0 => 0.0,
            count => sum / count as f64,
        }
    }

    /// Returns the sample standard deviation.
    pub fn stdev(&self) -> f64 {
        let mean = self.mean();
        let squares = |(value, n): &(u64, u64)| (*value as f64 - mean).powi(2) * *n as f64;
        match self.count() {
            0 | 1 => 0.0,
            count => (self.values.iter().map(squares).sum::<f64>() / (count - 1) as f64).sqrt(),
        }
    }

    /// Returns the percentage of values within one standard deviation of the mean; NaN if there is
    /// no value.
    pub fn within_stdev_percent(&self) -> f64 {
        let (mean, stdev) = (self.mean(), self.stdev());
        let near = |value: u64| (value as f64 - mean).abs() <= stdev;
        let near = self.values.iter().filter(|(value, _)| near(*value));
        near.map(|(_, count)| count).sum::<u64>() as f64 / self.count() as f64 * 100.0
    }

    /// Returns the distinct values, each with the number of values up to and including it.
    pub fn cumulated(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.values.iter().scan(0, |total, (value, count)| {
            *total += count;
            Some((*value, *total))
        })
    }

    /// Returns the value at a quantile, 0 to 1, with the rank that HdrHistogram computes: the exact
    /// rank, rounded.
    pub fn at_share(&self, share: f64) -> u64 {
        self.at_rank((share * self.count() as f64).round() as u64)
    }

    /// Returns the value at a percentile, with the rank that wrk computes: the exact rank plus 0.5,
    /// rounded.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank = (percent / 100.0 * self.count() as f64 + 0.5)
            .round()
            .max(0.0) as u64;
        self.at_rank(rank)
    }

    fn at_rank(&self, rank: u64) -> u64 {
        let found = self.cumulated().find(|(_, total)| *total >= rank);
        found.map_or(self.max(), |(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_record::Nanos;

    fn close_to(seen: f64, expected: f64) {
        assert!((seen - expected).abs() < 1e-9, "{seen} {expected}");
    }

    #[test]
    fn figures_of_samples_are_those_worked_out_by_hand() {
        let some = Statistics::of_samples(vec![9, 4, 4, 2, 4, 7, 5, 5]);
        assert_eq!((some.count(), some.distinct()), (8, 5));
        assert_eq!((some.min(), some.max()), (2, 9));
        assert_eq!(some.at(1), Some((4, 3)));
        assert_eq!(some.at(5), None);
        close_to(some.mean(), 5.0);
        // The squared deviations add up to 32, for 8 values.
        close_to(some.stdev(), (32.0f64 / 7.0).sqrt());
        // 4, 4, 4, 5, 5 and 7 are within 2.138 of 5.
        close_to(some.within_stdev_percent(), 75.0);
    }

    #[test]
    fn percentiles_go_by_wrks_rank() {
        let ten = Statistics::of_samples((1..=10).collect());
        // The ranks are 5.5, 8, 9.5 and 10.4, rounded to 6, 8, 10 and 10, which is the last.
        assert_eq!(ten.percentile(50.0), 6);
        assert_eq!(ten.percentile(75.0), 8);
        assert_eq!(ten.percentile(90.0), 10);
        assert_eq!(ten.percentile(99.0), 10);
        assert_eq!(ten.percentile(100.0), 10);
        assert_eq!(ten.percentile(0.0), 1);
    }

    #[test]
    fn statistics_of_nothing_are_zero() {
        let nothing = Statistics::default();
        assert_eq!(
            (nothing.min(), nothing.max(), nothing.percentile(50.0)),
            (0, 0, 0)
        );
        assert_eq!((nothing.mean(), nothing.stdev()), (0.0, 0.0));
        assert!(nothing.within_stdev_percent().is_nan());
        assert_eq!(Statistics::of_samples(vec![3]).stdev(), 0.0);
    }

    #[test]
    fn times_are_whole_microseconds() {
        let mut times = Distribution::new();
        for nanos in [1_400, 1_450, 1_600, 5_000_000] {
            times.record(Nanos(nanos));
        }
        let times = Statistics::of_times(&times);
        assert_eq!(times.at(0), Some((1, 2)));
        assert_eq!(times.at(1), Some((2, 1)));
        let (longest, once) = times.at(2).unwrap();
        assert!(once == 1 && longest.abs_diff(5_000) < 5, "{longest}");
    }
}
