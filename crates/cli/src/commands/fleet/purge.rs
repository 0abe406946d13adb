//! `prony fleet purge`: removes runs from the NATS server.

use std::time::SystemTime;

use prony_fleet::coordinator::StoredRun;
use prony_fleet::names::RunId;
use prony_report::number;

use crate::arguments::PurgeArgs;
use crate::coordinator::fleet_failure;
use crate::ending::{Ending, Failure};
use crate::terminal;

/// Runs `prony fleet purge`.
pub(crate) fn run(arguments: &PurgeArgs) -> Result<Ending, Failure> {
    let fleet = arguments.server.connect()?;
    let known = fleet.runs().map_err(fleet_failure)?;
    let missing = |run: &&RunId| !known.iter().any(|one| one.manifest.run == **run);
    if let Some(run) = arguments.runs.iter().find(missing) {
        return Err(Failure::wrong(format!(
            "run {run} is not on the server (`prony fleet collect` without a run lists recent runs)"
        )));
    }
    let now = SystemTime::now();
    let is_meant = |one: &&StoredRun| match arguments.older_than {
        Some(age) => started(one).is_some_and(|at| now.duration_since(at).is_ok_and(|it| it > age)),
        None => arguments.all || arguments.runs.contains(&one.manifest.run),
    };
    let meant: Vec<&StoredRun> = known.iter().filter(is_meant).collect();
    if let Some(busy) = meant.iter().find(|one| one.busy > 0) {
        return Err(Failure::refused(format!(
            "run {} is in progress on {}; nothing was removed (stop the run, or wait for it to \
                end)",
            busy.manifest.run,
            number::plural(busy.busy as u64, "agent", "agents")
        )));
    }
    let mut messages = 0;
    for one in &meant {
        messages += fleet.purge(&one.manifest).map_err(fleet_failure)?;
    }
    if arguments.all {
        messages += fleet.purge_rest().map_err(fleet_failure)?;
    }
    terminal::print_message(format_args!(
        "removed {} ({}) from the NATS server",
        number::plural(meant.len() as u64, "run", "runs"),
        number::plural(messages, "message", "messages")
    ));
    Ok(Ending::Done)
}

fn started(run: &StoredRun) -> Option<SystemTime> {
    humantime::parse_rfc3339(&run.manifest.made_at).ok()
}
