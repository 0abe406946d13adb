//! One probe: its load, its result, and the decision to end it early.

use serde::{Deserialize, Serialize};

use super::reading::GoalReading;

/// Length of a probe's settling part relative to its measured part.
pub(super) const SETTLE_SHARE: f64 = 0.2;
/// Share of the offered requests that a server must complete to be considered as keeping up.
const KEEPS_UP_SHARE: f64 = 0.9;
/// Number of requests that may be in flight at the end of a probe without counting as arrears. The
/// number matters only at low rates.
const IN_FLIGHT: f64 = 3.0;
/// If more than this share of a probe's requests is in arrears, the server is hopelessly
/// overloaded.
const HOPELESS_SHARE: f64 = 0.3;
/// A probe at the edge counts as an overload if it already has more slow requests than this
/// multiple of the number allowed in the whole probe.
const OVERLOAD_TAIL: f64 = 4.0;
/// A goal counts as clearly met only if it would allow at least this many more slow requests,
/// because few slow requests may be observed by chance.
const TAIL_ROOM: f64 = 3.0;

/// Part of the search that a probe belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbePurpose {
    /// Finds the order of magnitude of the capacity.
    Explore,
    /// Narrows the range of rates that may contain the capacity.
    Bracket,
    /// Locates the rate at which the fit crosses the goals; enters the fit.
    Edge,
    /// Probes rates around the crossing; enters the fit.
    Crossing,
}

/// A load to run as part of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Requests per second of an open loop; `None` for a closed loop.
    pub rate_per_s: Option<f64>,
    /// Length of the settling part, which is not measured, in seconds.
    pub settle_s: f64,
    /// Length of the measured part, in seconds.
    pub measure_s: f64,
    /// Part of the search that this probe belongs to.
    pub purpose: ProbePurpose,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeResult {
    /// Requests per second that were due; the achieved rate for a closed loop.
    pub offered_per_s: f64,
    /// Requests per second that succeeded, or that failed within the share that a goal permits.
    pub achieved_per_s: f64,
    /// Number of measured requests.
    pub requests: u64,
    /// Longest limit of the goals about times, in seconds; 0 if there are none.
    pub limit_s: f64,
    /// The reading of each goal; empty if nothing was measured.
    pub goals: Vec<GoalReading>,
    /// True if the load generator was saturated.
    pub generator_saturated: bool,
    /// True if the probe ended early.
    pub cut_short: bool,
    /// Total duration of the probe, in seconds.
    pub took_s: f64,
}

impl ProbeResult {
    /// Returns true if the server kept up and met all goals.
    pub fn is_met(&self) -> bool {
        self.keeps_up() && !self.goals.is_empty() && self.goals.iter().all(|goal| goal.met)
    }

    /// Returns true if the server completed about as many requests as were due. Requests that may
    /// still be in flight without violating a goal don't count as arrears, because they can be a
    /// large share of a short probe.
    pub fn keeps_up(&self) -> bool {
        let (due, ended) = (self.offered_per_s, self.achieved_per_s);
        if ended >= KEEPS_UP_SHARE * due {
            return true;
        }
        let arrears = self.requests as f64 * (1.0 - ended / due);
        arrears <= due * self.limit_s + IN_FLIGHT
    }
}

/// Measurements of a running probe so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeProgress {
    /// Time since the start of the probe, in seconds.
    pub elapsed_s: f64,
    /// Number of requests that have finished.
    pub ended: u64,
    /// The reading of each goal so far; empty before the measured part.
    pub goals: Vec<GoalReading>,
}

/// Reason to end a probe early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyEnd {
    /// The goals can no longer be met.
    Unmet,
    /// The goals are clearly met.
    Met,
}

impl Probe {
    /// Returns the planned length in seconds.
    pub fn planned_s(&self) -> f64 {
        self.settle_s + self.measure_s
    }

    /// Decides whether the probe can end early. `limit_s` is the longest limit of the goals about
    /// times.
    ///
    /// The results of the bracket only determine the rates at the edge, so they may depend on the
    /// time at which a probe ends. A probe of the bracket ends as soon as it has more slow requests
    /// than are allowed in the whole probe, or clearly fewer than are allowed among the requests so
    /// far.
    ///
    /// The other probes enter the fit. If they ended early because many requests were slow, the
    /// share of slow requests would be overestimated. If they ended early because few were slow,
    /// the share would be underestimated. Either would bias the fit. A probe at the edge therefore
    /// ends early only if the overload is so far above the goal that the probe is outside the fit's
    /// window, and a probe near the crossing ends early only if the server is hopelessly behind.
    pub fn early_end(&self, progress: &ProbeProgress, limit_s: f64) -> Option<EarlyEnd> {
        let rate = self.rate_per_s?;
        let due = rate * progress.elapsed_s;
        // The standard deviation of a number of Poisson arrivals is its square root. Requests that
        // have been in flight for less than the time limit are not in arrears.
        let arrears = due - progress.ended as f64 - 3.0 * due.sqrt() - rate * limit_s;
        let planned = rate * self.planned_s();
        if arrears > HOPELESS_SHARE * planned {
            return Some(EarlyEnd::Unmet);
        }
        let measured = rate * self.measure_s;
        let exceeds = |factor: f64| {
            let tails = progress.goals.iter().filter_map(|goal| goal.tail);
            tails
                .into_iter()
                .any(|tail| tail.over as f64 > factor * tail.allowed_of(measured).max(1.0))
        };
        match self.purpose {
            ProbePurpose::Explore | ProbePurpose::Crossing => None,
            ProbePurpose::Edge => (arrears > (1.0 - KEEPS_UP_SHARE) * planned
                && exceeds(OVERLOAD_TAIL))
            .then_some(EarlyEnd::Unmet),
            ProbePurpose::Bracket if exceeds(1.0) => Some(EarlyEnd::Unmet),
            ProbePurpose::Bracket => (arrears <= 0.0
                && progress.elapsed_s >= self.settle_s + limit_s
                && is_clearly_met(&progress.goals))
            .then_some(EarlyEnd::Met),
        }
    }
}

/// Returns true if each goal has significantly fewer slow requests than it allows.
fn is_clearly_met(goals: &[GoalReading]) -> bool {
    let clear = |goal: &GoalReading| {
        goal.tail.is_some_and(|tail| {
            let over = tail.over as f64;
            over + 2.0 * over.sqrt() + TAIL_ROOM <= tail.allowed_of(tail.all as f64)
        })
    };
    !goals.is_empty() && goals.iter().all(clear)
}
