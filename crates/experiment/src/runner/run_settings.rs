//! Settings of a run that are not in the plan: options, and the machines to run it on.

use std::path::PathBuf;
use std::time::Duration;

use prony_load::ScriptLoader;
use prony_machine::host::Host;
use prony_plan::{BodyComparison, Interleave};

use super::agent_load::AgentLoadRunner;

/// Error rate of an experiment.
const ALPHA: f64 = 0.05;

/// Options of a run that don't come from the plan.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Folder of the experiment.
    pub out: PathBuf,
    /// Seed of the trial order. Overrides the seed in the plan.
    pub seed: Option<u64>,
    /// Exact number of blocks. Overrides the minimum and maximum in the plan.
    pub blocks: Option<u32>,
    /// Time budget. A block that would end later is not started. Overrides the budget in the plan.
    pub budget: Option<Duration>,
    /// True to resume the experiment in `out`.
    pub resume: bool,
    /// True to resume even if the plan was edited after the experiment began.
    pub accept_plan_changes: bool,
    /// Agreement required between response bodies. Overrides the plan.
    pub bodies: Option<BodyComparison>,
    /// Mode of the trials. Overrides the plan.
    pub interleave: Option<Interleave>,
    /// Samples per second of CPU time for sampling profiles, if the plan requests none; `None` for
    /// no profiles.
    pub profile_rate_hz: Option<u32>,
    /// Probability of at least one false `faster` or `slower`.
    pub alpha: f64,
    /// True to start each variant once before the first block, which finds variants that can't run.
    pub precheck: bool,
}

impl RunSettings {
    /// Returns settings that run the plan unchanged in the new folder `out`, with a pre-check.
    pub fn new(out: PathBuf) -> RunSettings {
        RunSettings {
            out,
            seed: None,
            blocks: None,
            budget: None,
            resume: false,
            accept_plan_changes: false,
            bodies: None,
            interleave: None,
            profile_rate_hz: None,
            alpha: ALPHA,
            precheck: true,
        }
    }
}

/// Machines and interpreters that an experiment uses.
pub struct Machines<'a> {
    /// Host that runs the services.
    pub host: &'a mut dyn Host,
    /// Runner for loads on agents; `None` if the plan needs no agents.
    pub load: Option<&'a mut dyn AgentLoadRunner>,
    /// Loader for the scripts that generate requests; `None` if no load has a script.
    pub scripts: Option<&'a dyn ScriptLoader>,
}
