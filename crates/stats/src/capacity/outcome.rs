//! The end of a search.

use serde::{Deserialize, Serialize};

/// Cause of a search that found only a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundReason {
    /// The load generator was saturated at a higher rate.
    GeneratorSaturated,
    /// The goals are met at the highest rate to probe.
    RateMax,
    /// The search ran out of time or probes while the goals were still met.
    ProbesMax,
}

/// The end of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SearchOutcome {
    /// The highest rate at which all goals are met.
    Capacity {
        /// Requests per second.
        per_s: f64,
    },
    /// All goals are met at this rate, and no higher rate could be judged.
    AtLeast {
        /// Requests per second.
        per_s: f64,
        /// Cause of the bound.
        reason: BoundReason,
    },
    /// The goals are not met at this rate, and lower rates have too few requests to be judged in the
    /// time of the search.
    Below {
        /// Requests per second.
        per_s: f64,
    },
    /// The goals are not met even at this rate, the lowest one that is probed.
    Unmet {
        /// Requests per second.
        per_s: f64,
    },
}

impl SearchOutcome {
    /// The rate, in requests per second.
    pub fn per_s(&self) -> f64 {
        match self {
            SearchOutcome::Capacity { per_s }
            | SearchOutcome::AtLeast { per_s, .. }
            | SearchOutcome::Below { per_s }
            | SearchOutcome::Unmet { per_s } => *per_s,
        }
    }
}
