//! Runs an experiment: blocks of trials until all verdicts are decided, all blocks have run, the
//! time budget is used up, or the user interrupts.
//!
//! Each trial is stored as soon as it ends, so a later failure loses no measurements. A resumed
//! experiment continues after the last complete block.

mod agent_load;
mod block_error;
mod entries;
mod event;
mod experiment;
mod experiment_finding;
mod findings;
mod folder;
mod folder_error;
mod forecast;
mod interleaved;
mod limit_lines;
pub(crate) mod links;
mod lock;
mod mode;
mod noise;
mod order_effect;
mod plan_changes;
mod protocols;
mod readiness;
mod resource_use;
mod response_findings;
mod responses;
mod rounds;
mod sampling;
mod scoped_host;
mod scoped_name;
mod search_end;
mod service_cpu;
mod slice_driver;
mod sliced_telemetry;
mod trial;
mod trial_error;
mod trial_result;
mod trial_telemetry;
mod values;
mod why;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use prony_load::ScriptLoader;
use prony_machine::host::Host;
use prony_plan::{BodyComparison, Interleave, Plan};
use prony_stats::{Design, Factor, VerdictDocument};

use experiment::Experiment;

pub use crate::interrupt::Interrupt;
pub use agent_load::{AgentLoadRequest, AgentLoadRunner};
pub use event::{ExperimentEvent, Forecast, InterleavedLoad};
pub use folder::{EXPERIMENT_FILES, ExperimentFolder};
pub use folder_error::ExperimentFolderError;
pub use forecast::{BlockTime, UnknownTime, block_range, forecast, probe_block_time};
pub use mode::{ModeError, trial_mode};
pub use resource_use::{CoreUse, ResourceUse};
pub use responses::UnansweredRequest;
pub use sampling::{LatestSample, collect};
pub use trial::PROBE_DURATION;
pub use trial_error::{CommonFailure, FailedTrial, TargetFailure, TrialError};
pub use trial_result::{ServiceUse, SliceResult, TrialResult, TrialTelemetry};

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
            precheck: true,
        }
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct ExperimentOutcome {
    /// The verdicts so far.
    pub document: VerdictDocument,
    /// True if the user interrupted the run.
    pub interrupted: bool,
    /// Trial whose failure ended the run, if there was one.
    pub failed: Option<FailedTrial>,
    /// Reason why the verdicts could not be stored, unless a failed trial has the same cause.
    pub unstored: Option<ExperimentFolderError>,
}

/// Reason why a run produced no result.
#[derive(Debug)]
pub enum RunnerError {
    /// The design in the plan is contradictory.
    Design(prony_stats::DesignError),
    /// The folder of the experiment can't be used.
    Folder(ExperimentFolderError),
    /// The requested mode of the trials is not possible.
    Mode(ModeError),
    /// The resumed experiment had used up its error rate after this number of blocks, so more
    /// blocks can't change a verdict.
    Spent(u32),
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunnerError::Design(error) => error.fmt(f),
            RunnerError::Folder(error) => error.fmt(f),
            RunnerError::Mode(error) => error.fmt(f),
            RunnerError::Spent(blocks) => write!(
                f,
                "this experiment reached its final verdicts after block {blocks}; judging it \
                    again after more blocks would make wrong verdicts more likely (start a new \
                    experiment with more --blocks; `prony report` prints the stored result)"
            ),
        }
    }
}

impl std::error::Error for RunnerError {}

impl From<ExperimentFolderError> for RunnerError {
    fn from(error: ExperimentFolderError) -> Self {
        RunnerError::Folder(error)
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

/// Runs an experiment whose load this process generates; see [`run_on`].
///
/// # Errors
///
/// The same errors as [`run_on`].
pub fn run(
    plan: &Plan,
    host: &mut dyn Host,
    settings: &RunSettings,
    interrupt: &Interrupt,
    on: &mut dyn FnMut(ExperimentEvent<'_>),
) -> Result<ExperimentOutcome, RunnerError> {
    let machines = Machines {
        host,
        load: None,
        scripts: None,
    };
    run_on(plan, machines, settings, interrupt, on)
}

/// Runs an experiment on `machines`. Calls `on` with each event, on the calling thread.
///
/// # Errors
///
/// No trial could be started. If a trial fails later, the experiment ends without an error here;
/// [`ExperimentOutcome`] contains the failure and the result of the earlier trials.
pub fn run_on(
    plan: &Plan,
    mut machines: Machines<'_>,
    settings: &RunSettings,
    interrupt: &Interrupt,
    on: &mut dyn FnMut(ExperimentEvent<'_>),
) -> Result<ExperimentOutcome, RunnerError> {
    let design = design(plan, settings);
    design.pairs().map_err(RunnerError::Design)?;
    let mode = trial_mode(plan, settings)?;
    let stored = if settings.resume {
        ExperimentFolder::open(plan, &settings.out, settings.accept_plan_changes)?
    } else {
        let seed = settings.seed.or(plan.trials.seed);
        let seed = seed.unwrap_or_else(random_seed);
        ExperimentFolder::create(plan, &settings.out, seed, Some(mode))?
    };
    Experiment::new(plan, design, settings, stored, on).run(&mut machines, interrupt)
}

/// Returns a seed from the low digits of the clock.
fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64) % 1_000_000_007
}

/// Converts a plan to the design that the statistics use.
pub fn design(plan: &Plan, settings: &RunSettings) -> Design {
    let (blocks_min, blocks_max) = block_range(plan, settings);
    let levels = |levels: &prony_plan::LevelSelection| {
        levels
            .iter()
            .map(|(factor, level)| (factor.to_owned(), level.to_owned()))
            .collect()
    };
    Design {
        factors: plan
            .factors
            .iter()
            .map(|factor| Factor {
                name: factor.name.clone(),
                levels: factor
                    .levels
                    .iter()
                    .map(|level| level.name.clone())
                    .collect(),
            })
            .collect(),
        variants: plan
            .variants
            .iter()
            .map(|variant| levels(&variant.levels))
            .collect(),
        baseline: levels(&plan.baseline),
        margin: plan.margin,
        family: plan.metrics.clone(),
        blocks_min,
        blocks_max,
        alpha: 0.05,
        goals: plan.goals.clone(),
    }
}
