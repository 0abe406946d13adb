//! Stalls of the load generator.

use serde::{Deserialize, Serialize};

/// Stalls of a worker: pauses of 500 ms or longer because its process was stopped or its machine
/// was paused or suspended. The record of a load contains the stalls of the worker whose stalls
/// took longest in total.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stalls {
    /// Number of stalls.
    pub count: u64,
    /// Total length in seconds.
    pub total_s: f64,
    /// Length of the longest stall in seconds.
    pub longest_s: f64,
    /// Start of the longest stall, in seconds since the measured part began.
    pub longest_at_s: f64,
}

impl Stalls {
    /// Adds later stalls of the same worker.
    #[must_use]
    pub fn and(self, later: Stalls) -> Stalls {
        let longest = if later.longest_s > self.longest_s {
            later
        } else {
            self
        };
        Stalls {
            count: self.count + later.count,
            total_s: self.total_s + later.total_s,
            ..longest
        }
    }

    /// Returns the stalls of one of two workers: the one whose stalls took longer in total. The
    /// workers of a process stall at the same time, so their stalls must not be added up.
    #[must_use]
    pub fn longer(self, other: Stalls) -> Stalls {
        if other.total_s > self.total_s {
            other
        } else {
            self
        }
    }
}
