//! Time series: counts and response times of each half second.

use serde::{Deserialize, Serialize};

use crate::{Distribution, Nanos, buckets, unmeasured};

/// Length of an element of the time series.
pub const HALF_SECOND: Nanos = Nanos::from_millis(500);

/// An element of the time series, as stored in records.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HalfSecond {
    /// End of the half second, in seconds since the measured part began. The last half second may
    /// be shorter than the others.
    pub t_s: f64,
    /// Requests that succeeded within the half second.
    pub ok: u64,
    /// Requests that failed within the half second.
    pub failed: u64,
    /// HTTP bytes received by the requests that finished within the half second.
    pub bytes_in: u64,
    /// Mean arrival rate within the half second, in requests per second; open loop only. Absent in
    /// records written by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Median response time in microseconds; 0 (null in JSON) if no request finished.
    #[serde(with = "unmeasured")]
    pub p50_us: f64,
    /// 90th percentile of the response time in microseconds; 0 if no request finished, and in
    /// records written by earlier versions.
    #[serde(default, with = "unmeasured")]
    pub p90_us: f64,
    /// 99th percentile of the response time in microseconds.
    #[serde(with = "unmeasured")]
    pub p99_us: f64,
}

/// Consecutive half seconds of a running load. Unlike percentiles, half seconds can be merged
/// exactly.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Series {
    /// Index of the first half second; half second 0 begins with the measured part.
    first: usize,
    half_seconds: Vec<HalfSecondCounts>,
}

impl Series {
    /// Creates a series of half seconds. The first half second has the index `first`.
    pub(crate) fn of(first: usize, half_seconds: Vec<HalfSecondCounts>) -> Series {
        Series {
            first,
            half_seconds,
        }
    }

    /// Replaces the whole series with a single half second, whose index is `number`.
    pub(crate) fn begin(&mut self, number: usize, half_second: HalfSecondCounts) {
        self.first = number;
        self.half_seconds.clear();
        self.half_seconds.push(half_second);
    }

    pub(crate) fn clear(&mut self) {
        self.first = 0;
        self.half_seconds.clear();
    }

    pub(crate) fn merge(&mut self, other: &Series) {
        if self.half_seconds.is_empty() {
            self.clone_from(other);
            return;
        }
        if other.half_seconds.is_empty() {
            return;
        }
        let missing = self.first.saturating_sub(other.first);
        self.half_seconds
            .splice(0..0, (0..missing).map(|_| HalfSecondCounts::default()));
        self.first -= missing;
        let offset = other.first - self.first;
        let length = self
            .half_seconds
            .len()
            .max(offset + other.half_seconds.len());
        self.half_seconds
            .resize_with(length, HalfSecondCounts::default);
        for (mine, theirs) in self.half_seconds[offset..]
            .iter_mut()
            .zip(&other.half_seconds)
        {
            mine.merge(theirs);
        }
    }

    /// Returns each half second with its index.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &HalfSecondCounts)> {
        (self.first..).zip(&self.half_seconds)
    }

    /// Returns all half seconds since the start of the measured part.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &HalfSecondCounts> {
        static NONE: HalfSecondCounts = HalfSecondCounts::NONE;
        std::iter::repeat_n(&NONE, self.first).chain(&self.half_seconds)
    }
}

/// Counts of one half second of a running load.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct HalfSecondCounts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_in: u64,
    /// Response times of the requests that finished in the half second, in coarse buckets: value
    /// and count, sorted by value.
    pub(crate) times: Vec<(Nanos, u64)>,
}

/// Number of significant bits of a response time in a half second. Values are exact within 1.6%. A
/// half second has a few hundred buckets at most, so the series of an hour takes only a few
/// megabytes.
const COARSE_BITS: u32 = 6;

fn coarse(time: Nanos) -> Nanos {
    coarse_time(coarse_bucket(time.0))
}

/// Returns the number of the coarse bucket that contains a time. Each of the shortest times has a
/// bucket of its own.
pub(crate) const fn coarse_bucket(nanos: u64) -> u32 {
    buckets::bucket_of(COARSE_BITS, nanos)
}

/// Returns the middle of an existing coarse bucket, which represents the times in it.
pub(crate) const fn coarse_time(bucket: u32) -> Nanos {
    Nanos(buckets::middle_of(COARSE_BITS, bucket))
}

impl HalfSecondCounts {
    const NONE: HalfSecondCounts = HalfSecondCounts {
        ok: 0,
        failed: 0,
        bytes_in: 0,
        times: Vec::new(),
    };

    /// Sets the response times of the requests that finished in this half second. The half second
    /// must not have any response times yet.
    pub(crate) fn keep_times(&mut self, times: &Distribution) {
        for (time, count) in times.buckets() {
            let time = coarse(time);
            match self.times.last_mut() {
                Some((last, kept)) if *last == time => *kept += count,
                _ => self.times.push((time, count)),
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &HalfSecondCounts) {
        self.ok = self.ok.saturating_add(other.ok);
        self.failed = self.failed.saturating_add(other.failed);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        buckets::add_counts(&mut self.times, &other.times);
    }

    pub(crate) fn finish(&self, end: Nanos, scratch: &mut Distribution) -> HalfSecond {
        scratch.clear();
        for &(time, count) in &self.times {
            scratch.record_many(time, count);
        }
        let summary = scratch.summary();
        HalfSecond {
            t_s: end.as_secs_f64(),
            ok: self.ok,
            failed: self.failed,
            bytes_in: self.bytes_in,
            offered_per_s: None,
            p50_us: summary.p50,
            p90_us: summary.p90,
            p99_us: summary.p99,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(first: usize, ok: &[u64]) -> Series {
        let half_second = |&ok: &u64| HalfSecondCounts {
            ok,
            times: vec![(Nanos(ok), ok)],
            ..HalfSecondCounts::NONE
        };
        Series {
            first,
            half_seconds: ok.iter().map(half_second).collect(),
        }
    }

    fn ok(series: &Series) -> Vec<u64> {
        series.iter().map(|half_second| half_second.ok).collect()
    }

    #[test]
    fn series_merge_at_their_slice_numbers() {
        let mut all = series(2, &[5, 6]);
        all.merge(&series(4, &[7]));
        assert_eq!(ok(&all), [0, 0, 5, 6, 7]);
        all.merge(&series(0, &[1]));
        assert_eq!(ok(&all), [1, 0, 5, 6, 7]);
        all.merge(&series(2, &[5]));
        assert_eq!(ok(&all), [1, 0, 10, 6, 7]);
        assert_eq!(all.half_seconds[2].times, [(Nanos(5), 10)]);
        all.merge(&Series::default());
        let mut none = Series::default();
        none.merge(&all);
        assert_eq!(none, all);
    }
}
