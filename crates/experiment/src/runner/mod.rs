//! Runs an experiment: blocks of trials until the verdicts are decided, all blocks have run, the time
//! budget is used up, or the user interrupts.
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
mod readiness;
mod resource_use;
mod response_findings;
mod responses;
mod rounds;
mod sampling;
mod search_end;
mod slice_driver;
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
use prony_stats::{Design, Factor, VerdictDocument};

use crate::host::Host;
use crate::plan::{BodyComparison, Interleave, Plan};

use experiment::Experiment;

pub use crate::interrupt::Interrupt;
pub use agent_load::{AgentLoadRequest, AgentLoadRunner};
pub use event::{ExperimentEvent, InterleavedLoad};
pub use folder::ExperimentFolder;
pub use folder_error::ExperimentFolderError;
pub use forecast::{BlockTime, Forecast, UnknownTime, block_range, forecast, probe_block_time};
pub use mode::{ModeError, trial_mode};
pub use resource_use::{CoreParties, CoreUse, Neighbor, ResourceUse};
pub use sampling::{LatestSample, collect};
pub use trial::PROBE_DURATION;
pub use trial_error::{FailedTrial, TrialError};
pub use trial_result::{SliceResult, TrialResult, TrialTelemetry};

/// Options of a run that do not come from the plan.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// Folder of the experiment.
    pub out: PathBuf,
    /// Seed of the trial order. Overrides the plan's.
    pub seed: Option<u64>,
    /// Exact number of blocks. Overrides the plan's range.
    pub blocks: Option<u32>,
    /// Time budget: no block starts that would end later. Overrides the plan's.
    pub budget: Option<Duration>,
    /// Resume the experiment in `out`.
    pub resume: bool,
    /// Resume even if the plan was edited since the experiment began.
    pub accept_plan_changes: bool,
    /// Comparison of response bodies. Overrides the plan's.
    pub bodies: Option<BodyComparison>,
    /// Mode of the trials. Overrides the plan's setting.
    pub interleave: Option<Interleave>,
    /// Start each variant once before the first block, to find variants that can't run.
    pub precheck: bool,
}

impl RunSettings {
    /// Runs the plan as written into the new folder `out`, with a pre-check.
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
    /// The stored verdicts; `None` if no trial was completed.
    pub document: Option<VerdictDocument>,
    /// The user interrupted the run.
    pub interrupted: bool,
    /// The trial whose failure ended the run.
    pub failed: Option<FailedTrial>,
}

/// Reason why a run produced no result at all.
#[derive(Debug)]
pub enum RunnerError {
    /// The plan's design contradicts itself.
    Design(prony_stats::DesignError),
    /// The experiment's folder can't be used.
    Folder(ExperimentFolderError),
    /// The trials can't share the time as requested.
    Mode(ModeError),
    /// The resumed experiment has used its whole error rate after this many blocks. More blocks could
    /// not change a verdict.
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
                "this experiment reached its final verdicts after block {blocks}; judging it again \
                 after more blocks would raise the error rate (start a new experiment with more \
                 --blocks; `prony report` prints the stored result)"
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

/// Machines that take part in an experiment.
pub struct Machines<'a> {
    /// Runs the services.
    pub host: &'a mut dyn Host,
    /// Runs loads on agents; `None` if the plan needs no agents.
    pub load: Option<&'a mut dyn AgentLoadRunner>,
    /// Runs the scripts of loads; `None` if no load has one.
    pub scripts: Option<&'a dyn ScriptLoader>,
}

/// Runs an experiment whose load comes from this process; see [`run_on`].
///
/// # Errors
///
/// Those of [`run_on`].
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
/// If no trial could be started. A trial that fails ends the experiment without an error here:
/// [`ExperimentOutcome`] holds the failure and the result of the trials before it.
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

/// Takes a seed from the low digits of the clock.
fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64) % 1_000_000_007
}

/// Translates a plan into the design that the statistics use.
pub fn design(plan: &Plan, settings: &RunSettings) -> Design {
    let (blocks_min, blocks_max) = block_range(plan, settings);
    let levels = |levels: &crate::plan::LevelSelection| {
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
