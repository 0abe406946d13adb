//! Intervals of a single load, and the half seconds from which they are computed.

use serde::{Deserialize, Serialize};

use crate::series::CoarseTimes;
use crate::{HALF_SECOND, Nanos};

/// Maximum number of half seconds in a history: about 14 hours.
const HALF_SECONDS_MAX: usize = 100_000;

/// Interval of one metric within one load. It covers the variation during the load only; another
/// run, after a restart of the server, may differ more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInterval {
    /// Name of the metric: `rate`, `p99` or another percentile of the response time.
    pub metric: String,
    /// Unit of the values: `per_s` or `us`.
    pub unit: IntervalUnit,
    /// Value after the warm-up; `None` if there are no requests.
    pub value: Option<f64>,
    /// Lower end of the 95% interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the 95% interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Half of the interval's width divided by the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relative_half_width: Option<f64>,
    /// Half-width of the share of requests beyond a percentile, divided by this share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_half_width: Option<f64>,
    /// Reason for refusing an interval; `None` if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<IntervalRefusal>,
    /// Length of the warm-up that was found and left out of the value and the interval.
    pub warmup_s: f64,
    /// Number of batches.
    pub batches: u32,
    /// Length of each batch.
    pub batch_s: f64,
    /// Correlation between successive batches.
    pub lag1: f64,
    /// Precision that `--precision` asks for: the largest relative half-width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<f64>,
    /// Estimate of the measured time that the wanted precision needs; only if it was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_s: Option<f64>,
}

impl RunInterval {
    /// Returns true if the interval is as narrow as `--precision` asks for.
    pub fn is_reached(&self) -> bool {
        let width = self.relative_half_width;
        width
            .zip(self.wanted)
            .is_some_and(|(is, wanted)| is <= wanted)
    }
}

/// Unit of an interval's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalUnit {
    /// Requests per second.
    PerS,
    /// Microseconds.
    Us,
}

/// Reason why a metric has no interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum IntervalRefusal {
    /// The load has too few half seconds after the warm-up.
    TooShort,
    /// Successive batches stay correlated however long they are.
    Autocorrelated {
        /// Correlation between the longest batches that were tried.
        lag1: f64,
    },
    /// The metric rises or falls during the load.
    Drifting {
        /// Change of the rate, or of the share of requests beyond the percentile, from the start to the end of the
        /// measured part, divided by its mean.
        change: f64,
    },
    /// Too few requests lie beyond the percentile to bound it.
    TooFewRequests {
        /// Number of requests after the warm-up.
        requests: u64,
        /// Approximate minimum number of requests.
        needed: u64,
    },
    /// Too many requests failed, or are known only as lower bounds, for this percentile.
    Failures {
        /// Their share of all requests.
        share: f64,
    },
}

/// Half seconds of a load: the number of successful requests, and their response times in coarse
/// buckets. It is not stored.
#[derive(Debug, Clone, Default)]
pub struct LoadHistory {
    /// The complete half seconds of the measured part.
    pub half_seconds: Vec<(u64, Vec<(Nanos, u64)>)>,
}

/// Histories are not part of the stored record, so they don't make records differ.
impl PartialEq for LoadHistory {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl LoadHistory {
    /// Creates the history of a measured part of the given length.
    pub(crate) fn of<'a>(
        half_seconds: impl Iterator<Item = (u64, &'a CoarseTimes)>,
        length: Nanos,
    ) -> LoadHistory {
        let complete = ((length.0 / HALF_SECOND.0) as usize).min(HALF_SECONDS_MAX);
        let mut all: Vec<_> = half_seconds
            .take(complete)
            .map(|(ok, times)| (ok, times.clone()))
            .collect();
        all.resize_with(complete, Default::default);
        LoadHistory { half_seconds: all }
    }
}
