//! A load for agents, and its result.

use std::time::Duration;

use prony_load::LoadSettings;
use prony_record::Record;

use super::choice::AgentChoice;
use crate::names::RunId;

/// Default of the largest accepted error of an agent's clock.
pub const CLOCK_BOUND_DEFAULT: Duration = Duration::from_millis(5);

/// A load for agents.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The URL, as `prony load` takes it.
    pub url: Option<String>,
    /// The load's options, each `--name=value` or `--name`.
    pub settings: LoadSettings,
    /// The agents that make the load.
    pub choice: AgentChoice,
    /// Largest accepted error of an agent's clock.
    pub clock_bound: Duration,
}

/// A run that is over.
#[derive(Debug, Clone)]
pub struct FinishedRun {
    /// The run.
    pub run: RunId,
    /// Its record.
    pub record: Record,
}
