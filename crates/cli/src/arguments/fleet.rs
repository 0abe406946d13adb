//! Command-line arguments of `prony fleet`, except `up` and `token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use prony_fleet::coordinator::AgentChoice;
use prony_fleet::names::RunId;
use prony_record::quantity;

use super::ProgressFlag;
use super::fleet_server::{TokenArgs, UpArgs};

/// Arguments of `prony fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) command: FleetCommand,
}

/// The subcommands of `prony fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Start a NATS server, with credentials for a coordinator and for agents
    Up(UpArgs),
    /// Create a token that enrolls new agents until it expires or is used up
    Token(TokenArgs),
    /// List the registered agents
    List(ListArgs),
    /// Check agents: version, clock, limits, policy, and whether they reach a target
    Check(CheckArgs),
    /// Fetch the results of a run whose coordinator has exited
    Collect(StoredRunArgs),
    /// Take over or watch a run, and print its results when it ends
    Attach(StoredRunArgs),
    /// Remove runs and their results from the NATS server
    Purge(PurgeArgs),
}

/// Options that select the NATS server and the coordinator's credentials.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// NATS server, such as tls://10.0.0.1:4222 [default: the server in the credentials]
    #[arg(long, value_name = "URL", env = "PRONY_NATS", hide_env_values = true)]
    pub(crate) nats: Option<String>,
    /// The coordinator's credentials, as written by `prony fleet up`
    #[arg(long, value_name = "FILE", env = "PRONY_CREDS", hide_env_values = true)]
    pub(crate) creds: PathBuf,
}

/// Arguments of `prony fleet list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Write the registrations as JSON to FILE (`-` for standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Arguments of `prony fleet check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prony fleet check --creds coordinator.creds
  prony fleet check --creds c.creds --agents site=west http://10.0.0.5:8080/

The exit status is 1 if an agent is busy or has another version, if its clock error is too large
or unknown, or if it gets no response from the target.")]
pub(crate) struct CheckArgs {
    /// URL to which each agent sends one request
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Agents to check: N, KEY=VALUE, N@KEY=VALUE, or names [default: all]
    #[arg(long, value_name = "AGENTS")]
    pub(crate) agents: Option<AgentChoice>,
    /// Maximum accepted clock error
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = quantity::positive_time)]
    pub(crate) clock_bound: Duration,
    /// Write the results as JSON to FILE (`-` for standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Arguments of `prony fleet collect` and `prony fleet attach`.
#[derive(Debug, Args)]
pub(crate) struct StoredRunArgs {
    /// ID of the run, as printed by `prony load --agents` [default: the newest that has results or
    /// is in progress]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<RunId>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Write the record as JSON to FILE (`-` for standard output, in place of the summary)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write one CSV row per half second to FILE (`-` for standard output, in place of the summary)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Format of progress output on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true
    )]
    pub(crate) progress: ProgressFlag,
}

/// Arguments of `prony fleet purge`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  prony fleet purge --creds coordinator.creds 20260101120000-1f4a2b3c
  prony fleet purge --creds coordinator.creds --older-than 1d
  prony fleet purge --creds coordinator.creds --all

Connected agents also remove their copies of the results. If a run is in progress, nothing is
removed and the exit status is 3. The server removes every run one week after its start anyway.")]
pub(crate) struct PurgeArgs {
    /// The runs to remove
    #[arg(value_name = "RUN", required_unless_present_any = ["all", "older_than"])]
    pub(crate) runs: Vec<RunId>,
    /// Remove all runs that started longer ago than this, such as 90m or 2d
    #[arg(long, value_name = "TIME", value_parser = quantity::age, conflicts_with_all = ["runs", "all"])]
    pub(crate) older_than: Option<Duration>,
    /// Remove all runs
    #[arg(long, conflicts_with = "runs")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
