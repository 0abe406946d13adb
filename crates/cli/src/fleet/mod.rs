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
use prony_plan::abort_rules::AbortRules;
use prony_record::{FindingId, LoadAbort};
use prony_report::number;

use crate::arguments::{CheckArgs, FleetArgs, FleetCommand, ListArgs, ServerArgs, StoredRunArgs};
use crate::ending::{Ending, Failure};
use crate::live;
use crate::live::follower::Follower;
use crate::load_results::{self, LoadOutputs};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::progress::{Progress, ProgressMode, rounded};
use crate::running_load::RunningLoad;
use crate::{signals, terminal};

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
    let output = Output::open("--json", arguments.json.as_deref())?;
    let listed = arguments.server.connect()?.agents().map_err(failure)?;
    if listed.is_empty() {
        terminal::print_message("prony: no agents are registered; start some with `prony agent`");
    }
    show(
        output,
        || tables::list(&listed),
        || tables::list_json(&listed),
    )?;
    Ok(Ending::Done)
}

fn check(arguments: &CheckArgs) -> Result<Ending, Failure> {
    let output = Output::open("--json", arguments.json.as_deref())?;
    let fleet = arguments.server.connect()?;
    let choice = arguments.agents.clone().unwrap_or(AgentChoice::All);
    let checked = fleet
        .check(&choice, arguments.url.as_deref(), arguments.clock_bound)
        .map_err(failure)?;
    show(
        output,
        || tables::check(&checked),
        || tables::check_json(&checked),
    )?;
    Ok(if checked.iter().any(|one| one.is_wrong()) {
        Ending::Doubtful
    } else {
        Ending::Done
    })
}

/// Writes the JSON if it was requested, and prints the text unless the JSON goes to standard
/// output.
fn show(
    output: Option<Output>,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> serde_json::Value,
) -> Result<(), Failure> {
    if !output.as_ref().is_some_and(Output::is_standard) {
        terminal::print(&text());
    }
    let Some(output) = output else {
        return Ok(());
    };
    let json = serde_json::to_string_pretty(&json()).map_err(Failure::refused)?;
    output.write(&(json + "\n"))
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
    let outputs = LoadOutputs::open([
        ("--json", arguments.json.as_deref()),
        ("--csv", arguments.csv.as_deref()),
        ("--html", arguments.html.as_deref()),
        ("--timeline", None),
    ])?;
    let progress = Progress::new(arguments.progress);
    let fleet = arguments.server.connect()?;
    let run = fleet.run(arguments.run.as_ref()).map_err(failure)?;
    if arguments.run.is_none() {
        list_runs(&fleet, &run, &progress)?;
    }
    let stop = stop_by_signals()?;
    let work = |observer: LoadObserver<'_>| how(&fleet, &run, observer);
    let finished = if is_shown {
        let view = RunView {
            progress: &progress,
            metrics: None,
            abort_rules: None,
        };
        watched(&view, &stop, work)
    } else {
        work(LoadObserver {
            on_event: &|event| report(&progress, event),
            stop: &stop,
            feed: None,
        })
    };
    let mut finished = match finished {
        Err(FleetError::Detached(run)) => {
            progress.warn(&format!(
                "prony: {}; to watch it again, run prony fleet attach {run}",
                FleetError::Detached(run.clone())
            ));
            return Ok(Ending::Interrupted);
        }
        finished => finished.map_err(failure)?,
    };
    let is_stopped = stop.is_wanted();
    if stop.is_wanted_at_once() {
        print_collect_hint(&finished, &arguments.server, &progress);
    }
    let ending = load_results::end(&mut finished.record, &[], is_stopped, &progress);
    outputs.write(&finished.record, &[])?;
    Ok(ending)
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

/// Requests the end of a load. A second request ends it without waiting for results.
fn request_stop(stop: &StopRequest) {
    if stop.is_wanted() {
        stop.at_once()
    } else {
        stop.soon()
    }
}

/// Creates a stop request that signals trigger. The first signal requests an orderly stop, and the
/// second an immediate stop.
pub(crate) fn stop_by_signals() -> Result<Arc<StopRequest>, Failure> {
    let stop = Arc::new(StopRequest::new());
    let asked = stop.clone();
    signals::listen(move |_| request_stop(&asked))?;
    Ok(stop)
}

/// Prints the command with which the user can fetch missing results later.
pub(crate) fn print_collect_hint(finished: &FinishedRun, server: &ServerArgs, progress: &Progress) {
    let findings = &finished.record.findings;
    if findings
        .iter()
        .any(|finding| finding.id == FindingId::Partial)
    {
        let nats = server.nats.as_ref();
        let nats = nats.map_or(String::new(), |url| format!(" --nats {url}"));
        progress.warn(&format!(
            "prony: some results are missing; fetch them with: prony fleet collect {} --creds {}{nats}",
            finished.run,
            server.creds.display(),
        ));
    }
}

/// Options for showing a run while it is in progress.
#[derive(Clone, Copy)]
pub(crate) struct RunView<'a> {
    pub(crate) progress: &'a Progress,
    pub(crate) metrics: Option<&'a Metrics>,
    /// The conditions that end the load.
    pub(crate) abort_rules: Option<&'a AbortRules>,
}

/// Runs `work` while showing its progress on the terminal and in the metrics. Stops the load when
/// one of its abort conditions holds.
pub(crate) fn watched<T>(
    view: &RunView<'_>,
    stop: &StopRequest,
    work: impl FnOnce(LoadObserver<'_>) -> T,
) -> T {
    let progress = view.progress;
    let on_event = |event: FleetEvent<'_>| report(progress, event);
    let feed = Arc::<Feed>::default();
    // Interim results are merged only if the live view, the metrics or abort conditions use them.
    let is_drawn = progress.mode() == ProgressMode::View;
    let is_viewed = is_drawn || view.metrics.is_some() || view.abort_rules.is_some();
    let observer = LoadObserver {
        on_event: &on_event,
        stop,
        feed: is_viewed.then_some(&feed),
    };
    let running_load = RunningLoad::ByAgents(feed.clone());
    if let Some(metrics) = view.metrics {
        metrics.running(running_load.clone());
    }
    let watched_load = running_load.clone();
    let work = || {
        if !is_drawn {
            return work(observer);
        }
        let mut follower = Follower::new(running_load, None, &[]);
        // The stop key of the view has the same effect as a signal.
        live::with_view(progress, &mut follower, &|| request_stop(stop), || {
            work(observer)
        })
    };
    match view.abort_rules {
        None => work(),
        Some(rules) => {
            let stop = |abort: &LoadAbort| stop.abort(abort.clone());
            abort::watch(rules, &watched_load, &stop, work).0
        }
    }
}

/// Prints an event of the fleet.
fn report(progress: &Progress, event: FleetEvent<'_>) {
    match event {
        FleetEvent::Step(text) => progress.line(text),
        FleetEvent::Warning(text) => progress.warn(&format!("prony: {text}")),
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
