//! Throttling of a process by the CPU quota of its control group.

use serde::{Deserialize, Serialize};

use crate::number;

/// CPU quota of a control group, and how often it stopped the group's processes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Throttling {
    /// CPU time that the group may use, in cores.
    pub quota_cores: f64,
    /// Periods of the quota, usually of 100 ms, in which the group ran.
    pub periods: u64,
    /// Periods in which the group used up its quota and was stopped until the next one.
    pub throttled_periods: u64,
    /// Time for which the group was stopped, added up over its cores, in seconds.
    pub throttled_s: f64,
}

impl Throttling {
    /// Returns the increase of totals since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Throttling) -> Throttling {
        Throttling {
            quota_cores: self.quota_cores,
            periods: self.periods.saturating_sub(earlier.periods),
            throttled_periods: self
                .throttled_periods
                .saturating_sub(earlier.throttled_periods),
            throttled_s: (self.throttled_s - earlier.throttled_s).max(0.0),
        }
    }

    /// Adds a later interval of the same group.
    #[must_use]
    pub fn and(self, later: Throttling) -> Throttling {
        Throttling {
            quota_cores: later.quota_cores,
            periods: self.periods + later.periods,
            throttled_periods: self.throttled_periods + later.throttled_periods,
            throttled_s: self.throttled_s + later.throttled_s,
        }
    }

    /// Returns the group that was throttled in more periods or, if there is none, the one with the
    /// lower quota.
    #[must_use]
    pub fn worse(self, other: Throttling) -> Throttling {
        let (one, two) = (self.throttled_periods, other.throttled_periods);
        if two > one || (one == two && other.quota_cores < self.quota_cores) {
            other
        } else {
            self
        }
    }

    /// Fraction of the periods in which the group was throttled, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.throttled_periods as f64 / self.periods.max(1) as f64
    }

    /// Describes the observation: "throttled in 66% of the periods of its CPU quota (196 of 299; 0.50
    /// cores)".
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "throttled in {:.0}% of the periods of its CPU quota ({} of {}; {})",
            100.0 * self.share(),
            number::count(self.throttled_periods),
            number::count(self.periods),
            Throttling::cores_text(self.quota_cores)
        )
    }

    /// Describes a quota: "0.50 cores".
    #[must_use]
    pub fn cores_text(cores: f64) -> String {
        format!("{cores:.2} cores")
    }
}
