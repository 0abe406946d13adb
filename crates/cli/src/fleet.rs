//! `prony fleet`: many machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use prony_fleet::coordinator::{
    CLOCK_BOUND, Choice, Feed, Finished, Fleet, FleetError, Going, Stop, Told, Watcher,
};
use prony_fleet::credentials::Credentials;
use prony_fleet::messages::Manifest;
use prony_fleet::names::RunId;
use prony_load::quantity;
use prony_record::FindingId;
use prony_report::number;

use crate::arguments::ProgressFlag;
use crate::ending::{Ending, Failure};
use crate::fleet_purge::{self, PurgeArgs};
use crate::fleet_tables;
use crate::fleet_token::{self, TokenArgs};
use crate::fleet_up::{self, UpArgs};
use crate::live;
use crate::live::follower::Follower;
use crate::load::{self, Outputs};
use crate::metrics::Metrics;
use crate::output::Output;
use crate::progress::{Progress, Show, rounded};
use crate::under_way::UnderWay;
use crate::{signals, terminal};

/// `prony fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

/// What to do with the fleet.
#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Start a NATS server, with credentials for a coordinator and for agents
    Up(UpArgs),
    /// Make a token with which new agents get credentials until it expires or is used up
    Token(TokenArgs),
    /// List the agents that are registered
    List(ListArgs),
    /// Look at agents: versions, clocks, limits, policies, and whether a target answers each of them
    Check(CheckArgs),
    /// Bring in the results of a run whose coordinator is gone
    Collect(RunArgs),
    /// Go on with a run whose coordinator is gone, or watch one, and print its results at its end
    Attach(RunArgs),
    /// Remove runs and their results from the NATS server
    Purge(PurgeArgs),
}

/// Where the agents are registered.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The NATS server, such as tls://10.0.0.1:4222 [default: those that the credentials name]
    #[arg(long, value_name = "URL", env = "PRONY_NATS", hide_env_values = true)]
    pub(crate) nats: Option<String>,
    /// The coordinator's credentials, which `prony fleet up` wrote
    #[arg(long, value_name = "FILE", env = "PRONY_CREDS", hide_env_values = true)]
    pub(crate) creds: PathBuf,
}

/// `prony fleet list`.
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Write what each agent says about itself as JSON; - for standard output, in the table's place
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// `prony fleet check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prony fleet check --creds coordinator.creds
  prony fleet check --creds c.creds --agents site=west http://10.0.0.5:8080/

Status 1 says that something is wrong: an agent of another version, one that is busy, a clock that
is not known well enough, a target that doesn't answer.")]
struct CheckArgs {
    /// A target that each agent asks once
    #[arg(value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
    /// The agents to look at: N of them, N@KEY=VALUE, all with KEY=VALUE, or names [default: all]
    #[arg(long, value_name = "AGENTS")]
    agents: Option<Choice>,
    /// Largest clock error to accept
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = quantity::positive_time)]
    clock_bound: Duration,
    /// Write everything as JSON; - for standard output, in the table's place
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// `prony fleet collect` and `prony fleet attach`.
#[derive(Debug, Args)]
struct RunArgs {
    /// The run, as `prony load --agents` named it [default: the newest that has results or is under way]
    #[arg(value_name = "RUN")]
    run: Option<RunId>,
    #[command(flatten)]
    server: ServerArgs,
    /// Write the record as JSON; - for standard output, in the summary's place
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write each half second as CSV; - for standard output, in the summary's place
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to show progress, on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true
    )]
    progress: ProgressFlag,
}

/// What of `prony load` is about agents.
#[derive(Debug, Clone, Args)]
pub(crate) struct ByAgentsArgs {
    /// Let agents make the load: N of them, N@KEY=VALUE with a label, all with KEY=VALUE, or names
    #[arg(
        long,
        value_name = "AGENTS",
        requires = "creds",
        help_heading = "Agents"
    )]
    pub(crate) agents: Option<Choice>,
    /// The NATS server, such as tls://10.0.0.1:4222 [default: those that the credentials name]
    #[arg(
        long,
        value_name = "URL",
        env = "PRONY_NATS",
        hide_env_values = true,
        help_heading = "Agents"
    )]
    pub(crate) nats: Option<String>,
    /// The coordinator's credentials, which `prony fleet up` wrote
    #[arg(
        long,
        value_name = "FILE",
        env = "PRONY_CREDS",
        hide_env_values = true,
        help_heading = "Agents"
    )]
    pub(crate) creds: Option<PathBuf>,
    /// Largest error of an agent's clock to accept [default: 5ms]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) clock_bound: Option<Duration>,
    /// Stop agents that have heard nothing from this command for TIME, 1s to 2m [default: 10s]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = lease,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) lease: Option<Duration>,
    /// Wait up to TIME for agents that are missing or busy, such as 2m [default: don't wait]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) wait: Option<Duration>,
}

/// Parses `--lease`: a shorter one would end by a hiccup of the network, and agents refuse a longer one.
pub(crate) fn lease(typed: &str) -> Result<Duration, String> {
    let lease = quantity::time(typed)?;
    match (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        true => Ok(lease),
        false => Err(format!(
            "a lease is {} s to {} s; {typed} is outside of that",
            LEASE_MIN.as_secs(),
            LEASE_MAX.as_secs()
        )),
    }
}

/// The shortest and the longest `--lease`.
const LEASE_MIN: Duration = Duration::from_secs(1);
const LEASE_MAX: Duration = Duration::from_secs(120);

impl ByAgentsArgs {
    /// Largest clock error to accept.
    pub(crate) fn clock_bound(&self) -> Duration {
        self.clock_bound.unwrap_or(CLOCK_BOUND)
    }
}

/// Does it.
pub(crate) fn run(typed: &FleetArgs) -> Result<Ending, Failure> {
    match &typed.command {
        FleetCommand::Up(typed) => fleet_up::run(typed),
        FleetCommand::Token(typed) => fleet_token::run(typed),
        FleetCommand::List(typed) => list(typed),
        FleetCommand::Check(typed) => check(typed),
        FleetCommand::Collect(typed) => later(typed, Fleet::collect, false),
        FleetCommand::Attach(typed) => later(typed, Fleet::attach, true),
        FleetCommand::Purge(typed) => fleet_purge::run(typed),
    }
}

/// Connects as the coordinator.
pub(crate) fn connect(nats: Option<&str>, creds: &Path) -> Result<Fleet, Failure> {
    let credentials = Credentials::read(creds).map_err(Failure::wrong)?;
    Fleet::connect(nats, &credentials).map_err(failure)
}

/// Whose fault it is that there is nothing.
pub(crate) fn failure(error: FleetError) -> Failure {
    match error.is_wrong() {
        true => Failure::wrong(error),
        false => Failure::refused(error),
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
        terminal::say("prony: no agent is registered; start some with `prony agent`");
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
    let choice = typed.agents.clone().unwrap_or(Choice::All);
    let checked = fleet
        .check(&choice, typed.url.as_deref(), typed.clock_bound)
        .map_err(failure)?;
    show(
        output,
        || fleet_tables::check(&checked),
        || fleet_tables::check_json(&checked),
    )?;
    Ok(match checked.iter().any(|one| one.is_wrong()) {
        true => Ending::Doubtful,
        false => Ending::Done,
    })
}

/// Prints the text unless standard output carries the JSON, which goes where it was asked for.
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

/// So many other runs are told.
const MOST_RUNS: usize = 8;

/// How a run that is there already comes to its record.
type Later = fn(&Fleet, &Manifest, Watcher<'_>) -> Result<Finished, FleetError>;

/// Brings a run in, or goes on with it; `is_shown` where there may be something to see meanwhile.
fn later(typed: &RunArgs, how: Later, is_shown: bool) -> Result<Ending, Failure> {
    let outputs = Outputs::open([
        ("--json", typed.json.as_deref()),
        ("--csv", typed.csv.as_deref()),
        ("--html", typed.html.as_deref()),
        ("--timeline", None),
    ])?;
    let progress = Progress::new(typed.progress);
    let fleet = typed.server.connect()?;
    let run = fleet.run(typed.run.as_ref()).map_err(failure)?;
    if typed.run.is_none() {
        others(&fleet, &run, &progress)?;
    }
    let stop = stop_by_signals()?;
    let work = |watcher: Watcher<'_>| how(&fleet, &run, watcher);
    let finished = match is_shown {
        true => watched(&progress, None, &stop, work),
        false => work(Watcher {
            told: &|told| tell(&progress, told),
            stop: &stop,
            feed: None,
        }),
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
        tell_rest(&finished, &typed.server, &progress);
    }
    let ending = load::ending(&finished.record, &[], is_stopped, &progress);
    outputs.write(&finished.record, &[], &[])?;
    Ok(ending)
}

/// Says which run it is, and which others there are.
fn others(fleet: &Fleet, taken: &Manifest, progress: &Progress) -> Result<(), Failure> {
    let told = |run: &Manifest| {
        let url = run.url.as_deref().unwrap_or("a list of URLs");
        format!("run {} of {}, {url}", run.run, run.made_at)
    };
    progress.line(&told(taken));
    let runs = fleet.runs().map_err(failure)?;
    let others = || runs.iter().filter(|run| run.manifest.run != taken.run);
    for other in others().take(MOST_RUNS) {
        let state = match (other.manifest.start, other.stored) {
            (None, _) => "; it never began",
            (Some(_), _) if other.busy > 0 => "; it is under way",
            (Some(_), _) if other.sending > 0 => "; not all of it is sent yet",
            (Some(_), 0) => "; nothing of it is stored",
            _ => "",
        };
        let other = told(&other.manifest);
        progress.line(&format!("  there is also {other}{state}"));
    }
    match others().count().saturating_sub(MOST_RUNS) {
        0 => {}
        more => progress.line(&format!("  and {more} older")),
    }
    Ok(())
}

/// Somebody wants it to end; who says so again waits for nobody.
fn ask_to_end(stop: &Stop) {
    match stop.is_wanted() {
        false => stop.soon(),
        true => stop.at_once(),
    }
}

/// Wanted from the first signal to end, and at once from the second.
pub(crate) fn stop_by_signals() -> Result<Arc<Stop>, Failure> {
    let stop = Arc::new(Stop::new());
    let asked = stop.clone();
    signals::listen(move |_| ask_to_end(&asked))?;
    Ok(stop)
}

/// Says how what a hurried end left behind is brought in.
pub(crate) fn tell_rest(finished: &Finished, server: &ServerArgs, progress: &Progress) {
    let findings = &finished.record.findings;
    if findings
        .iter()
        .any(|finding| finding.id == FindingId::Partial)
    {
        let nats = server.nats.as_ref();
        let nats = nats.map_or(String::new(), |url| format!(" --nats {url}"));
        progress.warn(&format!(
            "prony: not all of it is here; prony fleet collect {} --creds {}{nats}",
            finished.run,
            server.creds.display(),
        ));
    }
}

/// Does something with a run, with what is seen of it meanwhile on the terminal and in `metrics`.
pub(crate) fn watched<T>(
    progress: &Progress,
    metrics: Option<&Metrics>,
    stop: &Stop,
    work: impl FnOnce(Watcher<'_>) -> T,
) -> T {
    let told = |told: Told<'_>| tell(progress, told);
    let feed = Arc::<Feed>::default();
    // Nothing is added up for nobody.
    let is_drawn = progress.show() == Show::View;
    let watcher = Watcher {
        told: &told,
        stop,
        feed: (is_drawn || metrics.is_some()).then_some(&feed),
    };
    let under_way = UnderWay::ByAgents(feed.clone());
    if let Some(metrics) = metrics {
        metrics.running(under_way.clone());
    }
    if !is_drawn {
        return work(watcher);
    }
    let mut follower = Follower::new(under_way, None, &[]);
    // The key does what the signal does.
    live::with_view(progress, &mut follower, &|| ask_to_end(stop), || {
        work(watcher)
    })
}

/// Says what goes on.
fn tell(progress: &Progress, told: Told<'_>) {
    match told {
        Told::Step(text) => progress.line(text),
        Told::Warning(text) => progress.warn(&format!("prony: {text}")),
        // The view shows it.
        Told::Going(_) if progress.show() == Show::View => {}
        Told::Going(going) => progress.line(&line_of(&going)),
    }
}

/// A load's progress: what was counted, and of whom nothing is heard.
fn line_of(going: &Going) -> String {
    let mut line = format!(
        "{}: {}, {} failed, {} loading",
        rounded(going.elapsed),
        number::rate(going.ended_per_s),
        number::count(going.failed),
        number::plural(going.agents as u64, "agent", "agents"),
    );
    let quiet: Vec<&str> = going.quiet.iter().map(|name| name.as_str()).collect();
    match quiet.len() {
        0 => {}
        all if all == going.agents && all > 1 => line += ", all of them quiet",
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
    fn a_progress_line_names_who_is_quiet() {
        let line = |agents, quiet: &[&str]| {
            line_of(&Going {
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
