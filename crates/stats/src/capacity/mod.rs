//! Capacity: the highest request rate at which a server meets its goals, with an interval.
//!
//! A [`Goal`] is a condition such as `p99<50ms`. A [`Search`] chooses the rate of each [`Probe`],
//! receives its [`ProbeResult`], and ends with a [`SearchOutcome`]. [`Probe::early_end`] decides
//! whether a running probe can end early. [`CapacityEstimate`] combines the outcomes of several
//! searches. [`SearchReport`] and [`CapacityDocument`] are the stored forms. The module has no
//! clock and no socket: the caller runs the probes.

mod condition;
mod connection_limit;
mod document;
mod edge;
mod estimate;
mod fit;
mod goal;
mod outcome;
mod probe;
mod reading;
mod search;
mod search_report;
mod settings;
#[cfg(test)]
mod simulated_servers;
#[cfg(test)]
mod tests;

pub use condition::{CapacityCondition, CapacityConditionError};
pub use connection_limit::connections_limited;
pub use document::{CAPACITY_SCHEMA, CapacityDocument, ConditionResult};
pub use estimate::CapacityEstimate;
pub use goal::{Goal, GoalError};
pub use outcome::{BoundReason, SearchOutcome};
pub use probe::{EarlyEnd, Probe, ProbeProgress, ProbePurpose, ProbeResult};
pub use reading::{GoalReading, TailCount};
pub use search::Search;
pub use search_report::{GoalValue, ProbeReport, ProbeTimes, SearchEnd, SearchReport};
pub use settings::{RATE_MIN, SearchSettings};
