//! Request for a load on agents, and its result.

use std::time::Duration;

use prony_load::LoadSettings;
use prony_record::Record;

use super::choice::AgentChoice;
use crate::names::RunId;

/// Default for the maximum accepted error of an agent's clock.
pub const CLOCK_BOUND_DEFAULT: Duration = Duration::from_millis(5);

/// Request for a load on agents.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// URL as on the command line of `prony load`.
    pub url: Option<String>,
    /// Settings of the load.
    pub settings: LoadSettings,
    /// Selector of the agents.
    pub choice: AgentChoice,
    /// Maximum accepted error of an agent's clock.
    pub clock_bound: Duration,
}

/// Result of a run that is over.
#[derive(Debug, Clone)]
pub struct FinishedRun {
    /// ID of the run.
    pub run: RunId,
    /// Record of the run.
    pub record: Record,
}
