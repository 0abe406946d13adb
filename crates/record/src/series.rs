//! What happened in each half second.

use serde::{Deserialize, Serialize};

use crate::{Distribution, Nanos};

/// The length of one slice of the time series.
pub const SLICE: Nanos = Nanos::from_millis(500);

/// One slice as records hold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// The slice's end in seconds since the measured part began; the last one may be shorter than
    /// the others.
    pub t_s: f64,
    /// Successes that ended within it.
    pub ok: u64,
    /// Failures that ended within it.
    pub failed: u64,
    /// HTTP bytes received by the requests that ended within it.
    pub bytes_in: u64,
    /// Median response time in microseconds, 0 where nothing ended.
    pub p50_us: f64,
    /// 99th percentile of the response time in microseconds, 0 where nothing ended.
    pub p99_us: f64,
}

/// A slice while it is being counted: mergeable, unlike percentiles.
#[derive(Debug, Clone, Default)]
pub(crate) struct SliceCounts {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) bytes_in: u64,
    /// Coarse buckets of the response times that ended in the slice, value and count.
    pub(crate) times: Vec<(Nanos, u64)>,
}

/// Bits of a response time that a slice keeps: within 1.6% of the value, and a few hundred buckets
/// at most, so that an hour's series stays within some megabytes.
const COARSE_BITS: u32 = 6;

fn coarse(time: Nanos) -> Nanos {
    let dropped = (u64::BITS - time.0.leading_zeros()).saturating_sub(COARSE_BITS);
    let half = if dropped == 0 { 0 } else { 1 << (dropped - 1) };
    Nanos((time.0 >> dropped << dropped) + half)
}

impl SliceCounts {
    /// Takes over the response times that ended in this slice.
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
        self.ok += other.ok;
        self.failed += other.failed;
        self.bytes_in += other.bytes_in;
        self.times.extend_from_slice(&other.times);
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
            p50_us: summary.p50,
            p99_us: summary.p99,
        }
    }
}
