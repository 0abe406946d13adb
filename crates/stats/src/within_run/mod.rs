//! Intervals of metrics within a single load.
//!
//! The half seconds of a load, after a warm-up that is found automatically, are joined to batches
//! that are hardly correlated (`batch_means`). Rates follow directly. For a percentile, the interval
//! of the share of requests beyond its estimate is computed, and converted to times by the
//! distribution of all requests (Woodruff 1952). The intervals don't contain what differs between
//! runs, such as the memory layout of a restarted server, so experiments never use them.

mod batch_means;
mod intervals;
mod precision;

pub use self::intervals::{RunMetric, RunSample, intervals, plain_intervals};
pub use self::precision::{
    Precision, PrecisionError, PrecisionProgress, PrecisionWatch, intervals_of, precision_intervals,
};
