//! The reading of a goal in one probe.

/// The value of a goal's metric in one probe, relative to the limit.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalReading {
    /// True if the probe meets the goal.
    pub met: bool,
    /// For a percentile or a share of requests: the share of requests beyond the limit divided by
    /// the allowed share. For other metrics: value / limit. The limit of the goal is at 1.
    pub excess: f64,
    /// Excess that corresponds to half a request; the resolution if the reading is zero.
    pub resolution: f64,
    /// Requests beyond the limit; `None` if the goal isn't about a share of requests.
    pub tail: Option<TailCount>,
    /// The metric's value in its own unit: microseconds, or a share from 0 to 1.
    pub value: f64,
    /// The measured value as a clause: `p99 is 61.3 ms`.
    pub text: String,
}

/// Number of requests beyond a goal's limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TailCount {
    /// Requests beyond the limit.
    pub over: u64,
    /// All requests.
    pub all: u64,
    /// Share of all requests that the goal allows beyond the limit.
    pub allowed_share: f64,
}

impl TailCount {
    /// Number of requests that may be beyond the limit, out of `requests`.
    pub(super) fn allowed_of(&self, requests: f64) -> f64 {
        self.allowed_share * requests
    }
}
