//! Capacity: the highest request rate at which a server meets its goals, with an interval.
//!
//! A [`Goal`] is a condition such as `p99<50ms`. A [`Search`] chooses the rate of each [`Probe`],
//! receives its [`ProbeResult`], and ends with a [`SearchOutcome`]. [`CapacityEstimate`] combines the
//! outcomes of several searches. There is no clock and no socket here: the caller runs the probes.

mod estimate;
mod fit;
mod goal;
mod search;
#[cfg(test)]
mod simulated_servers;
#[cfg(test)]
mod tests;

pub use estimate::CapacityEstimate;
pub use goal::{Goal, GoalReading};
pub use search::{
    BoundReason, Probe, ProbePurpose, ProbeResult, Search, SearchOutcome, SearchSettings,
};
