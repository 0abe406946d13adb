//! Early ends of loads.

use serde::{Deserialize, Serialize};

use crate::number;

/// Early end of a load, caused by an `--abort-if` condition.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadAbort {
    /// Condition that ended the load, such as `p99>50ms`.
    pub condition: String,
    /// Measured value as a clause, such as `p99 is 61.3 ms`.
    pub measured: String,
    /// Length, in seconds, of the window over which the condition was evaluated. The window ends at
    /// the decision.
    pub window_s: f64,
    /// Time of the decision, in seconds since the measured part began.
    pub at_s: f64,
}

impl LoadAbort {
    /// Describes why a load was ended, as in
    /// `--abort-if p99>50ms ended the load after 12 s: p99 is 61.3 ms over the last 5 s`.
    pub fn text(&self) -> String {
        format!(
            "--abort-if {} ended the load after {}: {} over the last {}",
            self.condition,
            number::span(self.at_s),
            self.measured,
            number::span(self.window_s)
        )
    }
}
