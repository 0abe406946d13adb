//! Runs an experiment: blocks of trials until all verdicts are decided, all blocks have run, the
//! time budget is used up, or the user interrupts.
//!
//! Each trial is stored as soon as it ends, so a later failure loses no measurements. A resumed
//! experiment continues after the last complete block.

mod agent_load;
mod block_error;
mod distributions;
mod entries;
mod event;
mod experiment;
mod experiment_finding;
mod findings;
mod folder;
mod folder_error;
mod forecast;
mod function_costs;
mod interleaved;
mod limit_lines;
pub(crate) mod links;
mod lock;
mod mode;
mod noise;
mod order_effect;
mod outcome;
mod plan_changes;
mod protocols;
mod readiness;
mod resource_use;
mod response_findings;
mod responses;
mod revisions;
mod rounds;
mod run_settings;
mod runner_error;
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

use prony_machine::host::Host;
use prony_plan::Plan;
use prony_stats::{Design, Factor};

use experiment::Experiment;

pub use crate::interrupt::Interrupt;
pub use agent_load::{AgentLoadRequest, AgentLoadRunner};
pub use event::{ExperimentEvent, Forecast, InterleavedLoad};
pub use folder::{EXPERIMENT_FILES, ExperimentFolder};
pub use folder_error::ExperimentFolderError;
pub use forecast::{BlockTime, UnknownTime, block_range, forecast, probe_block_time};
pub use mode::trial_mode;
pub use outcome::ExperimentOutcome;
pub use resource_use::{CoreUse, ResourceUse};
pub use responses::UnansweredRequest;
pub use run_settings::{Machines, RunSettings};
pub use runner_error::{ModeError, RunnerError};
pub use sampling::{LatestSample, collect};
pub use trial::PROBE_DURATION;
pub use trial_error::{CommonFailure, FailedTrial, TargetFailure, TrialError};
pub use trial_result::{ServiceUse, SliceResult, TrialResult, TrialTelemetry};

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
        alpha: settings.alpha,
        goals: plan.goals.clone(),
    }
}
