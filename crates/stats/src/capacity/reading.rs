//! Reading of a goal in one probe.

/// Value of a goal's metric in one probe, relative to the limit.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalReading {
    /// True if the probe meets the goal.
    pub met: bool,
    /// For a percentile or a share of requests: the share of requests beyond the limit divided by
    /// the allowed share. For other metrics: the value divided by the limit. The goal is met if the
    /// excess is at most 1.
    pub excess: f64,
    /// Excess that half a request beyond the limit would cause; the smallest excess that a reading
    /// can show.
    pub resolution: f64,
    /// Count of requests beyond the limit; `None` if the goal isn't about a share of requests.
    pub tail: Option<TailCount>,
    /// Value of the metric in its own unit: microseconds, or a share from 0 to 1. Infinite if so
    /// many requests failed that the percentile is beyond every limit.
    pub value: f64,
}

/// Number of requests beyond a goal's limit, and number of all requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TailCount {
    /// Number of requests beyond the limit.
    pub over: u64,
    /// Number of all requests.
    pub all: u64,
    /// Share of all requests that may be beyond the limit without violating the goal.
    pub allowed_share: f64,
}

impl TailCount {
    /// Returns the number of requests, out of `requests`, that may be beyond the limit.
    pub(super) fn allowed_of(&self, requests: f64) -> f64 {
        self.allowed_share * requests
    }
}
