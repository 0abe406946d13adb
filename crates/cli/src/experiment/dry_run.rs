//! `--dry-run`: prints a plan's variants, their order and the expected duration. If the plan
//! doesn't determine the duration, a short probe estimates it.

use prony_experiment::runner::{
    BlockTime, FailedTrial, RunSettings, UnknownTime, probe_block_time, trial_mode,
};
use prony_machine::host::local::LocalHost;
use prony_machine::host::ssh::SshMachines;
use prony_plan::{Plan, ResolvedVariant};

use crate::ending::{Ending, Failure};
use crate::experiment::hosts::PlanAgents;
use crate::experiment::leftovers;
use crate::experiment::{outlook, revisions, ssh_hosts};
use crate::session::Session;
use crate::terminal;

/// Prints the variants, the order and the expected duration of an experiment.
pub(crate) fn print_dry_run(
    plan: &Plan,
    settings: &RunSettings,
    (agents, machines): (Option<&PlanAgents>, SshMachines),
    session: &Session,
) -> Result<Ending, Failure> {
    let address_of = |host: Option<&str>| {
        let over_ssh = host.and_then(|host| machines.address_of(host));
        over_ssh.or_else(|| agents?.address_of(host))
    };
    let variants = outlook::resolve_variants(plan, &address_of).map_err(Failure::wrong)?;
    let mode = trial_mode(plan, settings).map_err(Failure::wrong)?;
    let over_ssh = ssh_hosts::summary(plan, &machines);
    let mut failed = None;
    let block_time = match BlockTime::of(&variants, Some(&mode)) {
        BlockTime::NeedsProbe if settings.precheck && !revisions::needs_builds(plan)? => {
            match probe_variants(plan, &variants, session)? {
                ProbeEnd::Measured(block_time) => block_time,
                ProbeEnd::Interrupted => return Ok(Ending::Interrupted),
                ProbeEnd::Failed(error) => {
                    failed = Some(error);
                    BlockTime::Unknown(UnknownTime::VariantFailed)
                }
            }
        }
        BlockTime::NeedsProbe => BlockTime::Unknown(UnknownTime::ProbeSkipped),
        known => known,
    };
    let summary = outlook::summary(plan, settings, &block_time);
    let details = outlook::details(plan, settings, &variants);
    let hosts = agents.map(PlanAgents::summary).unwrap_or_default() + &over_ssh;
    let builds = revisions::forecast(plan)?;
    terminal::print(&format!("{summary}\n{mode}\n{details}{builds}{hosts}"));
    Ok(match failed {
        Some(error) => {
            terminal::print_message(error);
            Ending::CutShort
        }
        None => Ending::Done,
    })
}

/// Result of running each variant of an experiment once.
enum ProbeEnd {
    /// The duration of a block.
    Measured(BlockTime),
    Interrupted,
    /// A variant could not be loaded.
    Failed(FailedTrial),
}

/// Probes the variants on this machine.
fn probe_variants(
    plan: &Plan,
    variants: &[ResolvedVariant],
    session: &Session,
) -> Result<ProbeEnd, Failure> {
    let progress = session.progress();
    leftovers::remove_leftovers(progress);
    let scratch = tempfile::Builder::new().prefix("prony-probe-").tempdir();
    let scratch = scratch.map_err(Failure::refused)?;
    let mut host = LocalHost::new().map_err(Failure::refused)?;
    let interrupt = session.interrupt_experiment()?;
    let mut on = |variant: usize| {
        let (number, of) = (variant + 1, variants.len());
        let name = plan.variant_name(variant);
        progress.line(&format!("probe {number} of {of}: {name}"));
    };
    let probed = probe_block_time(
        plan,
        variants,
        &mut host,
        scratch.path(),
        &interrupt,
        &mut on,
    );
    Ok(match probed {
        Ok(Some(block_time)) => ProbeEnd::Measured(block_time),
        Ok(None) => ProbeEnd::Interrupted,
        Err(error) => ProbeEnd::Failed(error),
    })
}
