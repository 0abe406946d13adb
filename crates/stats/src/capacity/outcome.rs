//! Outcome of a capacity search.

use serde::{Deserialize, Serialize};

/// Reason why a search found only a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundReason {
    /// The load generator was saturated at a higher rate.
    GeneratorSaturated,
    /// The goals are met even at the highest permitted rate.
    RateMax,
    /// The search ran out of time or probes while the goals were still met.
    ProbesMax,
}

/// Outcome of a capacity search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SearchOutcome {
    /// The search found the highest rate at which all goals are met.
    Capacity {
        /// The highest rate, in requests per second.
        per_s: f64,
    },
    /// All goals are met at this rate, and no higher rate could be judged.
    AtLeast {
        /// The rate, in requests per second.
        per_s: f64,
        /// Reason why there is only a bound.
        reason: BoundReason,
    },
    /// The goals are not met at this rate. Lower rates can't be judged, because they yield too few
    /// requests within the time of the search.
    Below {
        /// The rate, in requests per second.
        per_s: f64,
    },
    /// The goals are not met even at this rate, the lowest that was probed.
    Unmet {
        /// The rate, in requests per second.
        per_s: f64,
    },
}

impl SearchOutcome {
    /// Returns the capacity or bound, in requests per second.
    pub fn per_s(&self) -> f64 {
        match self {
            SearchOutcome::Capacity { per_s }
            | SearchOutcome::AtLeast { per_s, .. }
            | SearchOutcome::Below { per_s }
            | SearchOutcome::Unmet { per_s } => *per_s,
        }
    }
}
