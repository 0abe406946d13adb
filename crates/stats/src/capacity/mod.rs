//! Capacity: the highest request rate at which a server meets its goals, with an interval.
//!
//! A [`Goal`] is a condition such as `p99<50ms`. A [`Search`] chooses the rate of each [`Probe`],
//! receives its [`ProbeResult`], and ends with a [`SearchOutcome`]. [`Probe::early_end`] decides if a
//! running probe can end early. [`CapacityEstimate`] combines the outcomes of several searches. There
//! is no clock and no socket here: the caller runs the probes.

mod edge;
mod estimate;
mod fit;
mod goal;
mod outcome;
mod probe;
mod reading;
mod search;
mod settings;
#[cfg(test)]
mod simulated_servers;
#[cfg(test)]
mod tests;

pub use estimate::CapacityEstimate;
pub use goal::Goal;
pub use outcome::{BoundReason, SearchOutcome};
pub use probe::{EarlyEnd, Probe, ProbeProgress, ProbePurpose, ProbeResult};
pub use reading::{GoalReading, TailCount};
pub use search::Search;
pub use settings::SearchSettings;
