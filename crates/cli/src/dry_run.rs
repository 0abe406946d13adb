//! `--dry-run`: prints a plan's variants, their order and the expected duration. If the plan
//! doesn't determine the duration, a short probe estimates it.

use std::sync::Arc;

use prony_experiment::host::local::LocalHost;
use prony_experiment::runner::{
    BlockTime, FailedTrial, Interrupt, RunSettings, UnknownTime, probe_block_time, trial_mode,
};
use prony_plan::{Plan, Resolved};

use crate::arguments::ProgressFlag;
use crate::ending::{Ending, Failure};
use crate::experiment::{stop_at, sweep_up};
use crate::hosts::Hosts;
use crate::progress::Progress;
use crate::{outlook, signals, terminal};

/// Prints the variants, the order and the expected duration of an experiment.
pub(crate) fn run(
    plan: &Plan,
    settings: &RunSettings,
    hosts: Option<&Hosts>,
    flag: ProgressFlag,
) -> Result<Ending, Failure> {
    let address_of = |host: Option<&str>| hosts?.address_of(host);
    let variants = outlook::resolved(plan, &address_of).map_err(Failure::wrong)?;
    let mode = trial_mode(plan, settings).map_err(Failure::wrong)?;
    let mut failed = None;
    let block_time = match BlockTime::of(&variants, Some(&mode)) {
        BlockTime::NeedsProbe if settings.precheck => match probe(plan, &variants, flag)? {
            Ok(Some(probed)) => probed,
            Ok(None) => return Ok(Ending::Interrupted),
            Err(error) => {
                failed = Some(error);
                BlockTime::Unknown(UnknownTime::VariantFailed)
            }
        },
        BlockTime::NeedsProbe => BlockTime::Unknown(UnknownTime::ProbeSkipped),
        known => known,
    };
    let summary = outlook::summary(plan, settings, &block_time);
    let details = outlook::details(plan, settings, &variants);
    let hosts = hosts.map(Hosts::summary).unwrap_or_default();
    terminal::print(&format!("{summary}\n{mode}\n{details}{hosts}"));
    Ok(match failed {
        Some(error) => {
            terminal::print_message(&format!("prony: {error}"));
            Ending::CutShort
        }
        None => Ending::Done,
    })
}

/// Probes the variants on this machine. Returns `None` after an interrupt.
fn probe(
    plan: &Plan,
    variants: &[Resolved],
    flag: ProgressFlag,
) -> Result<Result<Option<BlockTime>, FailedTrial>, Failure> {
    let progress = Arc::new(Progress::new(flag));
    sweep_up(&progress);
    let scratch = tempfile::Builder::new().prefix("prony-probe-").tempdir();
    let scratch = scratch.map_err(Failure::refused)?;
    let mut host = LocalHost::new().map_err(Failure::refused)?;
    let interrupt = Arc::new(Interrupt::default());
    let (stopping, messages) = (interrupt.clone(), progress.clone());
    signals::listen(move |_| stop_at(&stopping, &messages))?;
    let mut on = |variant: usize| {
        let (number, of) = (variant + 1, variants.len());
        let name = plan.variant_name(variant);
        progress.line(&format!("probe {number} of {of}: {name}"));
    };
    Ok(probe_block_time(
        plan,
        variants,
        &mut host,
        scratch.path(),
        &interrupt,
        &mut on,
    ))
}
