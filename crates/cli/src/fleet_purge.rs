//! `prony fleet purge`: removes runs from the NATS server.

use std::time::{Duration, SystemTime};

use clap::Args;
use prony_fleet::coordinator::StoredRun;
use prony_fleet::names::RunId;
use prony_record::quantity;
use prony_report::number;

use crate::ending::{Ending, Failure};
use crate::fleet::{ServerArgs, failure};
use crate::terminal;

/// `prony fleet purge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prony fleet purge --creds coordinator.creds 20260101120000-1f4a2b3c
  prony fleet purge --creds coordinator.creds --older-than 1d
  prony fleet purge --creds coordinator.creds --all

Without it, the server removes a run a week after its start. Connected agents also remove their
copies of the results. If a run is in flight, nothing is removed and the exit status is 3.")]
pub(crate) struct PurgeArgs {
    /// The runs to remove
    #[arg(value_name = "RUN", required_unless_present_any = ["all", "older_than"])]
    runs: Vec<RunId>,
    /// Remove all runs that started longer ago than this, such as 90m or 2d
    #[arg(long, value_name = "TIME", value_parser = quantity::age, conflicts_with_all = ["runs", "all"])]
    older_than: Option<Duration>,
    /// Remove all runs
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Removes the runs.
pub(crate) fn run(typed: &PurgeArgs) -> Result<Ending, Failure> {
    let fleet = typed.server.connect()?;
    let known = fleet.runs().map_err(failure)?;
    let missing = |run: &&RunId| !known.iter().any(|one| one.manifest.run == **run);
    if let Some(run) = typed.runs.iter().find(missing) {
        return Err(Failure::wrong(format!(
            "there is no run {run} on the server (`prony fleet collect` without a run lists some)"
        )));
    }
    let now = SystemTime::now();
    let is_meant = |one: &&StoredRun| match typed.older_than {
        Some(age) => started(one).is_some_and(|at| now.duration_since(at).is_ok_and(|it| it > age)),
        None => typed.all || typed.runs.contains(&one.manifest.run),
    };
    let meant: Vec<&StoredRun> = known.iter().filter(is_meant).collect();
    if let Some(busy) = meant.iter().find(|one| one.busy > 0) {
        return Err(Failure::refused(format!(
            "run {} is in flight on {}; nothing was removed (stop the run, or wait for its end)",
            busy.manifest.run,
            number::plural(busy.busy as u64, "agent", "agents")
        )));
    }
    let mut messages = 0;
    for one in &meant {
        messages += fleet.purge(&one.manifest).map_err(failure)?;
    }
    if typed.all {
        messages += fleet.purge_rest().map_err(failure)?;
    }
    terminal::print_message(&format!(
        "prony: removed {} ({}) from the NATS server",
        number::plural(meant.len() as u64, "run", "runs"),
        number::plural(messages, "message", "messages")
    ));
    Ok(Ending::Done)
}

fn started(run: &StoredRun) -> Option<SystemTime> {
    humantime::parse_rfc3339(&run.manifest.made_at).ok()
}
