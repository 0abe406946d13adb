//! `prony fleet`: agents on many machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use prony_fleet::coordinator::{
    AgentChoice, CLOCK_BOUND_DEFAULT, Feed, FinishedRun, Fleet, FleetError, FleetEvent,
    LoadObserver, ProgressUpdate, StopRequest,
};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::names::RunId;
use prony_fleet::wire::RunManifest;
use prony_record::FindingId;
use prony_record::quantity;
use prony_report::number;

use crate::arguments::ProgressFlag;
use crate::ending::{Ending, Failure};
use crate::fleet_purge::{self, PurgeArgs};
use crate::fleet_tables;
use crate::fleet_token::{self, TokenArgs};
use crate::fleet_up::{self, UpArgs};
use crate::live;
use crate::live::follower::Follower;
use crate::load::{self, LoadOutputs};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::progress::{Progress, ProgressMode, rounded};
use crate::running_load::RunningLoad;
use crate::{signals, terminal};

/// `prony fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

/// The subcommands of `prony fleet`.
#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Start a NATS server, with credentials for a coordinator and for agents
    Up(UpArgs),
    /// Create a token that enrolls new agents until it expires or is used up
    Token(TokenArgs),
    /// List the registered agents
    List(ListArgs),
    /// Check agents: version, clock, limits, policy, and whether they reach a target
    Check(CheckArgs),
    /// Fetch the results of a run whose coordinator is gone
    Collect(StoredRunArgs),
    /// Take over or watch a run, and print its results at its end
    Attach(StoredRunArgs),
    /// Remove runs and their results from the NATS server
    Purge(PurgeArgs),
}

/// The NATS server, and the coordinator's credentials.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// NATS server, such as tls://10.0.0.1:4222 [default: named by the credentials]
    #[arg(long, value_name = "URL", env = "PRONY_NATS", hide_env_values = true)]
    pub(crate) nats: Option<String>,
    /// The coordinator's credentials, as written by `prony fleet up`
    #[arg(long, value_name = "FILE", env = "PRONY_CREDS", hide_env_values = true)]
    pub(crate) creds: PathBuf,
}

/// `prony fleet list`.
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Write the registrations as JSON; - prints them instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// `prony fleet check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prony fleet check --creds coordinator.creds
  prony fleet check --creds c.creds --agents site=west http://10.0.0.5:8080/

The exit status is 1 if an agent has another version or is busy, if its clock is not known well
enough, or if it gets no response from the target.")]
struct CheckArgs {
    /// Target to which each agent sends one request
    #[arg(value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// Agents to check: N, KEY=VALUE, N@KEY=VALUE, or names [default: all]
    #[arg(long, value_name = "AGENTS")]
    agents: Option<AgentChoice>,
    /// Largest accepted clock error
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = quantity::positive_time)]
    clock_bound: Duration,
    /// Write the results as JSON; - prints them instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// `prony fleet collect` and `prony fleet attach`.
#[derive(Debug, Args)]
struct StoredRunArgs {
    /// The run, as printed by `prony load --agents` [default: the newest with results or in flight]
    #[arg(value_name = "RUN")]
    run: Option<RunId>,
    #[command(flatten)]
    server: ServerArgs,
    /// Write the record as JSON; - prints it instead of the summary
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write each half second as CSV; - prints it instead of the summary
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Form of the progress on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true
    )]
    progress: ProgressFlag,
}

/// The options of `prony load` for agents.
#[derive(Debug, Clone, Args)]
pub(crate) struct ByAgentsArgs {
    /// Make the load with agents: N, KEY=VALUE (a label), N@KEY=VALUE, or names
    #[arg(
        long,
        value_name = "AGENTS",
        requires = "creds",
        help_heading = "Agents"
    )]
    pub(crate) agents: Option<AgentChoice>,
    /// NATS server, such as tls://10.0.0.1:4222 [default: named by the credentials]
    #[arg(
        long,
        value_name = "URL",
        env = "PRONY_NATS",
        hide_env_values = true,
        help_heading = "Agents"
    )]
    pub(crate) nats: Option<String>,
    /// The coordinator's credentials, as written by `prony fleet up`
    #[arg(
        long,
        value_name = "FILE",
        env = "PRONY_CREDS",
        hide_env_values = true,
        help_heading = "Agents"
    )]
    pub(crate) creds: Option<PathBuf>,
    /// Largest accepted error of an agent's clock [default: 5ms]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) clock_bound: Option<Duration>,
    /// Agents stop when they lose contact with this command for TIME, 1s to 2m [default: 10s]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = lease,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) lease: Option<Duration>,
    /// Wait up to TIME for missing or busy agents, such as 2m [default: don't wait]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) wait: Option<Duration>,
}

/// Parses `--lease`. A shorter lease would end during a network hiccup, and agents refuse a longer one.
pub(crate) fn lease(typed: &str) -> Result<Duration, String> {
    let lease = quantity::time(typed)?;
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        Ok(lease)
    } else {
        Err(format!(
            "a lease is {} s to {} s; {typed} is out of range",
            LEASE_MIN.as_secs(),
            LEASE_MAX.as_secs()
        ))
    }
}

/// Shortest `--lease`.
const LEASE_MIN: Duration = Duration::from_secs(1);
/// Longest `--lease`.
const LEASE_MAX: Duration = Duration::from_secs(120);

impl ByAgentsArgs {
    /// Largest accepted clock error.
    pub(crate) fn clock_bound(&self) -> Duration {
        self.clock_bound.unwrap_or(CLOCK_BOUND_DEFAULT)
    }
}

/// Runs a subcommand.
pub(crate) fn run(typed: &FleetArgs) -> Result<Ending, Failure> {
    match &typed.command {
        FleetCommand::Up(typed) => fleet_up::run(typed),
        FleetCommand::Token(typed) => fleet_token::run(typed),
        FleetCommand::List(typed) => list(typed),
        FleetCommand::Check(typed) => check(typed),
        FleetCommand::Collect(typed) => finish_run(typed, Fleet::collect, false),
        FleetCommand::Attach(typed) => finish_run(typed, Fleet::attach, true),
        FleetCommand::Purge(typed) => fleet_purge::run(typed),
    }
}

/// Connects to the NATS server as the coordinator.
pub(crate) fn connect(nats: Option<&str>, creds: &Path) -> Result<Fleet, Failure> {
    let credentials = FleetCredentials::read(creds).map_err(Failure::wrong)?;
    Fleet::connect(nats, &credentials).map_err(failure)
}

/// The exit status and message of an error.
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

fn list(typed: &ListArgs) -> Result<Ending, Failure> {
    let output = Output::open("--json", typed.json.as_deref())?;
    let listed = typed.server.connect()?.agents().map_err(failure)?;
    if listed.is_empty() {
        terminal::print_message("prony: no agent is registered; start some with `prony agent`");
    }
    show(
        output,
        || fleet_tables::list(&listed),
        || fleet_tables::list_json(&listed),
    )?;
    Ok(Ending::Done)
}

fn check(typed: &CheckArgs) -> Result<Ending, Failure> {
    let output = Output::open("--json", typed.json.as_deref())?;
    let fleet = typed.server.connect()?;
    let choice = typed.agents.clone().unwrap_or(AgentChoice::All);
    let checked = fleet
        .check(&choice, typed.url.as_deref(), typed.clock_bound)
        .map_err(failure)?;
    show(
        output,
        || fleet_tables::check(&checked),
        || fleet_tables::check_json(&checked),
    )?;
    Ok(if checked.iter().any(|one| one.is_wrong()) {
        Ending::Doubtful
    } else {
        Ending::Done
    })
}

/// Writes the JSON if it was requested, and prints the text unless standard output has the JSON.
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

/// Number of other runs that are listed.
const LISTED_RUNS_MAX: usize = 8;

/// Makes the record of a stored run.
type FinishRun = fn(&Fleet, &RunManifest, LoadObserver<'_>) -> Result<FinishedRun, FleetError>;

/// Collects a run or takes it over. `is_shown` allows a live view.
fn finish_run(typed: &StoredRunArgs, how: FinishRun, is_shown: bool) -> Result<Ending, Failure> {
    let outputs = LoadOutputs::open([
        ("--json", typed.json.as_deref()),
        ("--csv", typed.csv.as_deref()),
        ("--html", typed.html.as_deref()),
        ("--timeline", None),
    ])?;
    let progress = Progress::new(typed.progress);
    let fleet = typed.server.connect()?;
    let run = fleet.run(typed.run.as_ref()).map_err(failure)?;
    if typed.run.is_none() {
        list_runs(&fleet, &run, &progress)?;
    }
    let stop = stop_by_signals()?;
    let work = |observer: LoadObserver<'_>| how(&fleet, &run, observer);
    let finished = if is_shown {
        watched(&progress, None, &stop, work)
    } else {
        work(LoadObserver {
            on_event: &|event| report(&progress, event),
            stop: &stop,
            feed: None,
        })
    };
    let finished = match finished {
        Err(FleetError::Detached(run)) => {
            progress.warn(&format!(
                "prony: {}; prony fleet attach {run} watches it again",
                FleetError::Detached(run.clone())
            ));
            return Ok(Ending::Interrupted);
        }
        finished => finished.map_err(failure)?,
    };
    let is_stopped = stop.is_wanted();
    if stop.is_wanted_at_once() {
        print_collect_hint(&finished, &typed.server, &progress);
    }
    let ending = load::ending(&finished.record, &[], is_stopped, &progress);
    outputs.write(&finished.record, &[], &[])?;
    Ok(ending)
}

/// Prints the selected run, and which other runs there are.
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
            (Some(_), _) if other.busy > 0 => "; in flight",
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

/// Requests the end of a load; a second request doesn't wait for results.
fn request_stop(stop: &StopRequest) {
    if stop.is_wanted() {
        stop.at_once()
    } else {
        stop.soon()
    }
}

/// A stop request that the first signal sets to soon, and the second to at once.
pub(crate) fn stop_by_signals() -> Result<Arc<StopRequest>, Failure> {
    let stop = Arc::new(StopRequest::new());
    let asked = stop.clone();
    signals::listen(move |_| request_stop(&asked))?;
    Ok(stop)
}

/// Prints the command that fetches the results that were not waited for.
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

/// Works on a run while its progress is shown on the terminal and in `metrics`.
pub(crate) fn watched<T>(
    progress: &Progress,
    metrics: Option<&Metrics>,
    stop: &StopRequest,
    work: impl FnOnce(LoadObserver<'_>) -> T,
) -> T {
    let on_event = |event: FleetEvent<'_>| report(progress, event);
    let feed = Arc::<Feed>::default();
    // Without a viewer, results need not be merged.
    let is_drawn = progress.mode() == ProgressMode::View;
    let observer = LoadObserver {
        on_event: &on_event,
        stop,
        feed: (is_drawn || metrics.is_some()).then_some(&feed),
    };
    let running_load = RunningLoad::ByAgents(feed.clone());
    if let Some(metrics) = metrics {
        metrics.running(running_load.clone());
    }
    if !is_drawn {
        return work(observer);
    }
    let mut follower = Follower::new(running_load, None, &[]);
    // The view's key has the same effect as the signal.
    live::with_view(progress, &mut follower, &|| request_stop(stop), || {
        work(observer)
    })
}

/// Prints an event.
fn report(progress: &Progress, event: FleetEvent<'_>) {
    match event {
        FleetEvent::Step(text) => progress.line(text),
        FleetEvent::Warning(text) => progress.warn(&format!("prony: {text}")),
        // The view shows the progress.
        FleetEvent::Progress(_) if progress.mode() == ProgressMode::View => {}
        FleetEvent::Progress(update) => progress.line(&progress_line(&update)),
    }
}

/// A load's progress: rates, failures, and agents that have sent nothing for a while.
fn progress_line(update: &ProgressUpdate) -> String {
    let mut line = format!(
        "{}: {}, {} failed, {} loading",
        rounded(update.elapsed),
        number::rate(update.ended_per_s),
        number::count(update.failed),
        number::plural(update.agents as u64, "agent", "agents"),
    );
    let quiet: Vec<&str> = update.quiet.iter().map(|name| name.as_str()).collect();
    match quiet.len() {
        0 => {}
        all if all == update.agents && all > 1 => line += ", all of them quiet",
        1..=4 => line += &format!(", quiet: {}", quiet.join(", ")),
        many => line += &format!(", {many} of them quiet"),
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lease_has_limits() {
        for (typed, parsed) in [("1s", 1), ("90s", 90), ("2m", 120)] {
            assert_eq!(lease(typed), Ok(Duration::from_secs(parsed)));
        }
        for wrong in ["0", "999ms", "121s", "1h", "soon", ""] {
            assert!(lease(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_progress_line_names_quiet_agents() {
        let line = |agents, quiet: &[&str]| {
            progress_line(&ProgressUpdate {
                elapsed: Duration::from_secs(5),
                ended_per_s: 100.0,
                ended: 500,
                failed: 0,
                agents,
                quiet: quiet.iter().map(|name| name.parse().unwrap()).collect(),
            })
        };
        assert!(line(4, &[]).ends_with(", 4 agents loading"));
        assert!(line(4, &["a", "b"]).ends_with(", 4 agents loading, quiet: a, b"));
        assert!(line(1, &["a"]).ends_with(", 1 agent loading, quiet: a"));
        assert!(line(2, &["a", "b"]).ends_with(", all of them quiet"));
        let many = ["a", "b", "c", "d", "e"];
        assert!(line(9, &many).ends_with(", 5 of them quiet"));
    }
}
