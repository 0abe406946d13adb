//! The load of a trial, if agents on other machines generate it.

use std::sync::Arc;
use std::time::Instant;

use prony_load::{Control, LoadSettings, LoadSpec};
use prony_plan::abort_rules::AbortRules;
use prony_record::Record;

/// A load that agents are to generate.
pub struct AgentLoadRequest<'a> {
    /// Agents that generate the load: a number, names or labels.
    pub agents: &'a str,
    /// URL, as it would be written on the command line of `prony load`.
    pub url: &'a str,
    /// Settings of the load, including the seed.
    pub settings: &'a LoadSettings,
    /// Spec of the load, resolved on this machine.
    pub spec: &'a LoadSpec,
    /// Control that lets the caller stop the load.
    pub control: &'a Arc<Control>,
    /// Conditions that end the load. If one of them holds, the record names it.
    pub abort_rules: Option<&'a AbortRules>,
    /// Callback that is called once, with the time at which the measured part starts.
    pub measured_from: &'a (dyn Fn(Instant) + Sync),
}

/// A group of agents that can generate a load.
pub trait AgentLoadRunner: Send {
    /// Runs the load until it ends.
    ///
    /// # Errors
    /// The reason why there is no record, as a message that names the agent or server at fault.
    fn make(&mut self, request: &AgentLoadRequest<'_>) -> Result<Record, String>;
}
