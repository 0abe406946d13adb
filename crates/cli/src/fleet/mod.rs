//! `prony fleet`: manages agents on many machines.

pub(crate) mod load;
mod purge;
mod tables;
mod token;
mod up;

use std::path::Path;
use std::sync::Arc;

use prony_experiment::abort;
use prony_fleet::coordinator::{
    AgentChoice, Feed, FinishedRun, Fleet, FleetError, FleetEvent, LoadObserver, ProgressUpdate,
    StopRequest,
};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::wire::RunManifest;
use prony_record::FindingId;
use prony_report::number;

use crate::arguments::{CheckArgs, FleetArgs, FleetCommand, ListArgs, ServerArgs, StoredRunArgs};
use crate::ending::{Ending, Failure};
use crate::load_results::LoadResults;
use crate::output::JsonOutput;
use crate::progress::{Progress, ProgressMode, rounded};
use crate::running_load::RunningLoad;
use crate::session::{ObservedLoad, Session};
use crate::signals::SecondSignal;
use crate::terminal;

/// Runs a subcommand of `prony fleet`.
pub(crate) fn run(arguments: &FleetArgs) -> Result<Ending, Failure> {
    match &arguments.command {
        FleetCommand::Up(arguments) => up::run(arguments),
        FleetCommand::Token(arguments) => token::run(arguments),
        FleetCommand::List(arguments) => list(arguments),
        FleetCommand::Check(arguments) => check(arguments),
        FleetCommand::Collect(arguments) => finish_run(arguments, Fleet::collect, false),
        FleetCommand::Attach(arguments) => finish_run(arguments, Fleet::attach, true),
        FleetCommand::Purge(arguments) => purge::run(arguments),
    }
}

/// Connects to the NATS server as the coordinator.
pub(crate) fn connect(nats: Option<&str>, creds: &Path) -> Result<Fleet, Failure> {
    let credentials = FleetCredentials::read(creds).map_err(Failure::wrong)?;
    Fleet::connect(nats, &credentials).map_err(failure)
}

/// Converts an error of the fleet into an exit status and a message.
pub(crate) fn failure(error: FleetError) -> Failure {
    if error.is_wrong() {
        Failure::wrong(error)
    } else {
        Failure::refused(error)
    }
}

impl ServerArgs {
    pub(crate) fn connect(&self) -> Result<Fleet, Failure> {
        connect(self.nats.as_deref(), &self.creds)
    }
}

fn list(arguments: &ListArgs) -> Result<Ending, Failure> {
    let json = JsonOutput::open(arguments.json.as_deref())?;
    let listed = arguments.server.connect()?.agents().map_err(failure)?;
    if listed.is_empty() {
        terminal::print_message("no agents are registered; start some with `prony agent`");
    }
    let print = || terminal::print(&tables::list(&listed));
    json.show(print, &tables::list_json(&listed))?;
    Ok(Ending::Done)
}

fn check(arguments: &CheckArgs) -> Result<Ending, Failure> {
    let json = JsonOutput::open(arguments.json.as_deref())?;
    let fleet = arguments.server.connect()?;
    let choice = arguments.agents.clone().unwrap_or(AgentChoice::All);
    let checked = fleet
        .check(&choice, arguments.url.as_deref(), arguments.clock_bound)
        .map_err(failure)?;
    let print = || terminal::print(&tables::check(&checked));
    json.show(print, &tables::check_json(&checked))?;
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
    ])?;
    let session = Session::open(arguments.progress, None)?;
    let progress = session.progress();
    let fleet = arguments.server.connect()?;
    let run = fleet.run(arguments.run.as_ref()).map_err(failure)?;
    if arguments.run.is_none() {
        list_runs(&fleet, &run, progress)?;
    }
    let stop = stop_request(&session)?;
    let work = |observer: LoadObserver<'_>| how(&fleet, &run, observer);
    let finished = if is_shown {
        observe(&session, &stop, None, work)
    } else {
        work(LoadObserver {
            on_event: &|event| report(progress, event),
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
        finished => finished.map_err(failure)?,
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
    let runs = fleet.runs().map_err(failure)?;
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

/// Creates a stop request that signals and the live view trigger. The first signal requests an
/// orderly stop, and the second an immediate stop.
fn stop_request(session: &Session) -> Result<Arc<StopRequest>, Failure> {
    let stop = Arc::new(StopRequest::new());
    let stopping = stop.clone();
    session.on_stop(SecondSignal::AsksAgain, move || {
        if stopping.is_wanted() {
            stopping.at_once()
        } else {
            stopping.soon()
        }
    })?;
    Ok(stop)
}

/// Prints the command with which the user can fetch missing results later.
fn print_collect_hint(finished: &FinishedRun, server: &ServerArgs, progress: &Progress) {
    let findings = &finished.record.findings;
    if findings
        .iter()
        .any(|finding| finding.id == FindingId::Partial)
    {
        let nats = server.nats.as_ref();
        let nats = nats.map_or(String::new(), |url| format!(" --nats {url}"));
        progress.warn(format_args!(
            "some results are missing; fetch them with: prony fleet collect {} --creds {}{nats}",
            finished.run,
            server.creds.display(),
        ));
    }
}

/// Runs a load on agents by calling `work`, and shows its progress. Stops the load when one of its
/// abort conditions holds.
fn observe<T>(
    session: &Session,
    stop: &StopRequest,
    abort_rules: Option<&AbortRules>,
    work: impl FnOnce(LoadObserver<'_>) -> T,
) -> T {
    let feed = Arc::<Feed>::default();
    let is_fed = session.shows_loads() || abort_rules.is_some();
    let observer = LoadObserver {
        on_event: &|event| report(session.progress(), event),
        stop,
        feed: is_fed.then_some(&feed),
    };
    let load = ObservedLoad {
        running: RunningLoad::ByAgents(feed.clone()),
        planned: None,
        forecast: &[],
        abort_rules,
        abort: &|abort| stop.abort(abort.clone()),
    };
    session.observe_load(load, || work(observer)).0
}

/// Prints an event of the fleet.
pub(crate) fn report(progress: &Progress, event: FleetEvent<'_>) {
    match event {
        FleetEvent::Step(text) => progress.line(text),
        FleetEvent::Warning(text) => progress.warn(text),
        // The live view shows the progress itself.
        FleetEvent::Progress(_) if progress.mode() == ProgressMode::View => {}
        FleetEvent::Progress(update) => progress.line(&progress_line(&update)),
    }
}

/// Formats a load's progress: rates, failures, and agents that have been silent for a while.
fn progress_line(update: &ProgressUpdate) -> String {
    let mut line = format!(
        "{}: {} ok in the last {}, {} failed so far, {} loading",
        rounded(update.elapsed),
        number::rate(update.ok_per_s),
        rounded(update.span),
        number::count(update.failed),
        number::plural(update.agents as u64, "agent", "agents"),
    );
    let quiet: Vec<&str> = update.quiet.iter().map(|name| name.as_str()).collect();
    match quiet.len() {
        0 => {}
        all if all == update.agents && all > 1 => line += ", all of them silent",
        1..=4 => line += &format!(", quiet: {}", quiet.join(", ")),
        many => line += &format!(", {many} of them silent"),
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_progress_line_names_quiet_agents() {
        let line = |agents, quiet: &[&str]| {
            progress_line(&ProgressUpdate {
                elapsed: Duration::from_secs(5),
                span: Duration::from_secs(5),
                ok_per_s: 100.0,
                failed: 0,
                agents,
                quiet: quiet.iter().map(|name| name.parse().unwrap()).collect(),
            })
        };
        assert!(line(4, &[]).ends_with(", 4 agents loading"));
        assert!(line(4, &["a", "b"]).ends_with(", 4 agents loading, quiet: a, b"));
        assert!(line(1, &["a"]).ends_with(", 1 agent loading, quiet: a"));
        assert!(line(2, &["a", "b"]).ends_with(", all of them silent"));
        let many = ["a", "b", "c", "d", "e"];
        assert!(line(9, &many).ends_with(", 5 of them silent"));
    }
}
