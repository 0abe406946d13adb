//! Time series: counts and response times of each half second.

use serde::{Deserialize, Serialize};

use crate::{Distribution, Nanos, buckets, unmeasured};

/// Length of a slice of the time series.
pub const SLICE: Nanos = Nanos::from_millis(500);

/// A slice of the time series, as stored in records.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Slice {
    /// End of the slice, in seconds since the measured part began. The last slice may be shorter
    /// than the others.
    pub t_s: f64,
    /// Requests that succeeded within the slice.
    pub ok: u64,
    /// Requests that failed within the slice.
    pub failed: u64,
    /// HTTP bytes received by the requests that finished within the slice.
    pub bytes_in: u64,
    /// Mean arrival rate within the slice, in requests per second; open loop only. Absent in
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

/// Consecutive slices of a running load. Unlike percentiles, slices can be merged exactly.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Series {
    /// Index of the first slice; slice 0 begins with the measured part.
    first: usize,
    slices: Vec<SliceCounts>,
}

impl Series {
    /// Creates a series of slices. The first slice has the index `first`.
    pub(crate) fn of(first: usize, slices: Vec<SliceCounts>) -> Series {
        Series { first, slices }
    }

    /// Replaces the whole series with a single slice, whose index is `number`.
    pub(crate) fn begin(&mut self, number: usize, slice: SliceCounts) {
        self.first = number;
        self.slices.clear();
        self.slices.push(slice);
    }

    pub(crate) fn clear(&mut self) {
        self.first = 0;
        self.slices.clear();
    }

    pub(crate) fn merge(&mut self, other: &Series) {
        if self.slices.is_empty() {
            self.clone_from(other);
            return;
        }
        if other.slices.is_empty() {
            return;
        }
        let missing = self.first.saturating_sub(other.first);
        self.slices
            .splice(0..0, (0..missing).map(|_| SliceCounts::default()));
        self.first -= missing;
        let offset = other.first - self.first;
        let length = self.slices.len().max(offset + other.slices.len());
        self.slices.resize_with(length, SliceCounts::default);
        for (mine, theirs) in self.slices[offset..].iter_mut().zip(&other.slices) {
            mine.merge(theirs);
        }
    }

    /// Returns each slice with its index.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &SliceCounts)> {
        (self.first..).zip(&self.slices)
    }

    /// Returns all slices since the start of the measured part.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SliceCounts> {
        static NONE: SliceCounts = SliceCounts::NONE;
        std::iter::repeat_n(&NONE, self.first).chain(&self.slices)
    }
}

/// Counts of one slice of a running load.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SliceCounts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_in: u64,
    /// Response times of the requests that finished in the slice, in coarse buckets: value and
    /// count, sorted by value.
    pub(crate) times: Vec<(Nanos, u64)>,
}

/// Number of significant bits of a response time in a slice. Values are exact within 1.6%. A slice
/// has a few hundred buckets at most, so the series of an hour takes only a few megabytes.
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

impl SliceCounts {
    const NONE: SliceCounts = SliceCounts {
        ok: 0,
        failed: 0,
        bytes_in: 0,
        times: Vec::new(),
    };

    /// Sets the response times of the requests that finished in this slice. The slice must not have
    /// any response times yet.
    pub(crate) fn keep_times(&mut self, times: &Distribution) {
        for (time, count) in times.buckets() {
            let time = coarse(time);
            match self.times.last_mut() {
                Some((last, kept)) if *last == time => *kept += count,
                _ => self.times.push((time, count)),
            }
        }
    }

    pub(crate) fn merge(&mut self, other: &SliceCounts) {
        self.ok = self.ok.saturating_add(other.ok);
        self.failed = self.failed.saturating_add(other.failed);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        buckets::add_counts(&mut self.times, &other.times);
    }

    pub(crate) fn finish(&self, end: Nanos, scratch: &mut Distribution) -> Slice {
        scratch.clear();
        for &(time, count) in &self.times {
            scratch.record_many(time, count);
        }
        let summary = scratch.summary();
        Slice {
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
        let slice = |&ok: &u64| SliceCounts {
            ok,
            times: vec![(Nanos(ok), ok)],
            ..SliceCounts::NONE
        };
        Series {
            first,
            slices: ok.iter().map(slice).collect(),
        }
    }

    fn ok(series: &Series) -> Vec<u64> {
        series.iter().map(|slice| slice.ok).collect()
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
        assert_eq!(all.slices[2].times, [(Nanos(5), 10)]);
        all.merge(&Series::default());
        let mut none = Series::default();
        none.merge(&all);
        assert_eq!(none, all);
    }
}
