//! `prony fleet`: manages agents on many machines.

mod purge;
mod tables;
mod token;
mod up;

use prony_fleet::coordinator::{AgentChoice, FinishedRun, Fleet, FleetError, LoadObserver};
use prony_fleet::wire::RunManifest;

use crate::arguments::{CheckArgs, FleetArgs, FleetCommand, ListArgs, ServerArgs, StoredRunArgs};
use crate::coordinator::{
    connect, fleet_failure, observe_agents, print_collect_hint, print_event, stop_request,
};
use crate::ending::{Ending, Failure};
use crate::output::JsonOutput;
use crate::output::load_results::LoadResults;
use crate::progress::Progress;
use crate::session::Session;
use crate::terminal;

/// Runs a subcommand of `prony fleet`.
pub(crate) fn run(arguments: &FleetArgs) -> Result<Ending, Failure> {
    match &arguments.command {
        FleetCommand::Up(arguments) => up::run(arguments),
        FleetCommand::Token(arguments) => token::run(arguments),
        FleetCommand::List(arguments) => list_agents(arguments),
        FleetCommand::Check(arguments) => check_agents(arguments),
        FleetCommand::Collect(arguments) => finish_run(arguments, Fleet::collect, false),
        FleetCommand::Attach(arguments) => finish_run(arguments, Fleet::attach, true),
        FleetCommand::Purge(arguments) => purge::run(arguments),
    }
}

impl ServerArgs {
    pub(crate) fn connect(&self) -> Result<Fleet, Failure> {
        connect(self.nats.as_deref(), &self.creds)
    }
}

fn list_agents(arguments: &ListArgs) -> Result<Ending, Failure> {
    let json = JsonOutput::open(arguments.json.as_deref())?;
    let listed = arguments
        .server
        .connect()?
        .agents()
        .map_err(fleet_failure)?;
    if listed.is_empty() {
        terminal::print_message("no agents are registered; start some with `prony agent`");
    }
    let print = || terminal::print(&tables::agents_text(&listed));
    json.show(print, &tables::agents_json(&listed))?;
    Ok(Ending::Done)
}

fn check_agents(arguments: &CheckArgs) -> Result<Ending, Failure> {
    let json = JsonOutput::open(arguments.json.as_deref())?;
    let fleet = arguments.server.connect()?;
    let choice = arguments.agents.clone().unwrap_or(AgentChoice::All);
    let checked = fleet
        .check(&choice, arguments.url.as_deref(), arguments.clock_bound)
        .map_err(fleet_failure)?;
    let print = || terminal::print(&tables::checks_text(&checked));
    json.show(print, &tables::checks_json(&checked))?;
    Ok(if checked.iter().any(|one| one.is_wrong()) {
        Ending::Doubtful
    } else {
        Ending::Done
    })
}

/// Maximum number of runs that are listed in addition to the selected one.
const LISTED_RUNS_MAX: usize = 8;

/// A function that builds the record of a stored run.
type FinishRun = fn(&Fleet, &RunManifest, LoadObserver<'_>) -> Result<FinishedRun, FleetError>;

/// Collects or takes over a stored run by calling `how`. Shows a live view only if `is_shown` is
/// true.
fn finish_run(
    arguments: &StoredRunArgs,
    how: FinishRun,
    is_shown: bool,
) -> Result<Ending, Failure> {
    let results = LoadResults::open([
        ("--json", arguments.json.as_deref()),
        ("--csv", arguments.csv.as_deref()),
        ("--html", arguments.html.as_deref()),
        ("--timeline", None),
        ("--hdr", None),
    ])?;
    let session = Session::open(arguments.progress)?;
    let progress = session.progress();
    let fleet = arguments.server.connect()?;
    let run = fleet.run(arguments.run.as_ref()).map_err(fleet_failure)?;
    if arguments.run.is_none() {
        list_runs(&fleet, &run, progress)?;
    }
    let stop = stop_request(&session)?;
    let work = |observer: LoadObserver<'_>| how(&fleet, &run, observer);
    let finished = if is_shown {
        observe_agents(&session, &stop, None, None, work).result
    } else {
        work(LoadObserver {
            on_event: &|event| print_event(progress, event),
            stop: &stop,
            feed: None,
        })
    };
    let mut finished = match finished {
        Err(FleetError::Detached(run)) => {
            progress.warn(format_args!(
                "{}; to watch it again, run prony fleet attach {run}",
                FleetError::Detached(run.clone())
            ));
            return Ok(Ending::Interrupted);
        }
        finished => finished.map_err(fleet_failure)?,
    };
    let is_stopped = stop.is_wanted();
    if stop.is_wanted_at_once() {
        print_collect_hint(&finished, &arguments.server, progress);
    }
    results.conclude(&mut finished.record, is_stopped, progress)
}

/// Prints the selected run, and lists the other stored runs.
fn list_runs(fleet: &Fleet, taken: &RunManifest, progress: &Progress) -> Result<(), Failure> {
    let describe = |run: &RunManifest| {
        let url = run.url.as_deref().unwrap_or("a list of URLs");
        format!("run {} of {}, {url}", run.run, run.made_at)
    };
    progress.line(&describe(taken));
    let runs = fleet.runs().map_err(fleet_failure)?;
    let others = || runs.iter().filter(|run| run.manifest.run != taken.run);
    for other in others().take(LISTED_RUNS_MAX) {
        let state = match (other.manifest.start, other.stored) {
            (None, _) => "; it never started",
            (Some(_), _) if other.busy > 0 => "; in progress",
            (Some(_), _) if other.sending > 0 => "; some results are still being sent",
            (Some(_), 0) => "; no results are stored",
            _ => "",
        };
        let other = describe(&other.manifest);
        progress.line(&format!("  other: {other}{state}"));
    }
    match others().count().saturating_sub(LISTED_RUNS_MAX) {
        0 => {}
        more => progress.line(&format!("  and {more} older runs")),
    }
    Ok(())
}
