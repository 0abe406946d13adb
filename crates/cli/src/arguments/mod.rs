//! Command-line arguments: all types that use clap, with one file per command. The commands use
//! this module, but the module does not use the commands.

mod agent;
mod agents;
mod bisect;
mod capacity;
mod compare;
mod doctor;
mod fleet;
mod fleet_server;
mod history;
mod load;
mod load_flags;
mod monitoring;
mod origin;
mod report;
mod revisions;
mod runs;
mod study;
mod values;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use prony_plan::Interleave;

pub(crate) use agent::AgentArgs;
pub(crate) use agents::{ByAgentsArgs, HostsArgs};
pub(crate) use bisect::BisectArgs;
pub(crate) use capacity::CapacityArgs;
pub(crate) use compare::{CompareArgs, GateArgs, RunArgs};
pub(crate) use doctor::DoctorArgs;
pub(crate) use fleet::{
    CheckArgs, FleetArgs, FleetCommand, ListArgs, PurgeArgs, ServerArgs, StoredRunArgs,
};
pub(crate) use fleet_server::{DEFAULT_PORT, TokenArgs, UpArgs};
pub(crate) use history::HistoryArgs;
pub(crate) use load::LoadArgs;
pub(crate) use load_flags::LoadArguments;
pub(crate) use monitoring::MonitoringArgs;
pub(crate) use origin::{ListenAddress, OriginArgs, QuicListen};
pub(crate) use report::ReportArgs;
pub(crate) use revisions::RevisionArgs;
pub(crate) use runs::{RunsArgs, RunsCommand};
pub(crate) use study::{StudyArgs, StudyCommand, StudyRunArgs};
pub(crate) use values::ProgressFlag;

/// A load generator and an experiment lab: finds out which server setup is faster, by how much,
/// and whether you can trust the result
#[derive(Debug, Parser)]
#[command(
    name = "prony",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  prony demo                                a whole experiment in under a minute
  prony load -c 64 -d 10s http://[::1]/     one load, closed loop
  prony load -r 2000 -d 30s http://[::1]/   one load, 2,000 requests per second
  prony compare http://[::1]:81/ http://[::1]:82/     compare 82 with 81
  prony init plan.toml && prony compare plan.toml     an experiment of your own

Exit status: 0 done; 1 done, but a --fail-if condition held, a --require
condition did not hold, a condition was inconclusive (--strict), an --abort-if
condition ended the load, no request succeeded, a verdict was withheld, or a
variant is certainly worse than in the --against run; 2 the arguments or the
plan are wrong, nothing was run; 3 the environment refused an operation; 130
interrupted, results so far are printed and stored."
)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// prony's commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare TCP with a UNIX socket on the built-in server
    Demo(DemoArgs),
    /// Load a server once and print a summary
    Load(Box<LoadArgs>),
    /// Find the highest request rate at which a server meets goals
    Capacity(Box<CapacityArgs>),
    /// Run an experiment: from a plan, or between running servers
    Compare(Box<CompareArgs>),
    /// Find the commit that made a server slower
    Bisect(Box<BisectArgs>),
    /// Write a commented plan to start from
    Init(InitArgs),
    /// Turn requests that a browser recorded into the steps of a journey
    Steps(StepsArgs),
    /// List, copy and run the ready-made experiments
    Study(StudyArgs),
    /// Render a stored run again, or compare two stored runs
    Report(Box<ReportArgs>),
    /// Show the results of plans over time, with change points
    History(HistoryArgs),
    /// List, open, name and remove stored runs
    Runs(RunsArgs),
    /// Run the built-in server, with known bodies, delays, freezes and faults
    Origin(OriginArgs),
    /// Use many machines as one load generator, connected by NATS
    Fleet(FleetArgs),
    /// Run this machine as an agent of a fleet
    Agent(Box<AgentArgs>),
    /// Find reasons why a running server, or this machine as a load generator, may be slow
    Doctor(DoctorArgs),
    /// Run a load with hey's arguments, and print what hey prints
    #[command(disable_help_flag = true)]
    Hey(ToolArgs),
    /// Run a load with wrk's arguments and Lua scripts, and print what wrk prints
    #[command(disable_help_flag = true)]
    Wrk(ToolArgs),
    /// Run a load with ab's arguments, and print what ab prints
    #[command(disable_help_flag = true)]
    Ab(ToolArgs),
    /// Run a load with siege's arguments, and print what siege prints
    #[command(disable_help_flag = true)]
    Siege(ToolArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of prony, or of one of its commands
    Man(ManArgs),
}

/// Arguments of `prony demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Two variants of the built-in server, one behind TCP and one behind a UNIX socket, are loaded in
randomized blocks. DIR then holds what `prony compare` writes: the plan, every trial, verdict.json,
report.html and report.md. The demo needs neither root nor other programs.")]
pub(crate) struct DemoArgs {
    /// The folder for the results [default: prony-runs/<time>-demo]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run both variants at the same time and alternate between them in short slices: auto (if
    /// possible), off, or the length of a slice, such as 250ms [default: auto]
    #[arg(long, value_name = "MODE", value_parser = Interleave::from_str)]
    pub(crate) interleave: Option<Interleave>,
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

/// Arguments of `prony steps`.
#[derive(Debug, Args)]
#[command(after_help = "\
RECORDED is an HTTP archive (HAR), which the Network tab of a browser's developer tools exports, or
a file with curl commands, as copied there (\"Copy all as cURL\", bash). Images, scripts and
requests to other servers are left out. Values that an earlier response contained, such as tokens,
become captures. Edit the file, then run it with prony load --steps FILE URL.")]
pub(crate) struct StepsArgs {
    /// The recorded requests (`-` for standard input)
    #[arg(value_name = "RECORDED")]
    pub(crate) recorded: PathBuf,
    /// File to write, which must not exist (`-` for standard output)
    #[arg(value_name = "FILE", default_value = "journey.toml")]
    pub(crate) file: PathBuf,
}

/// Arguments of `prony init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Plan file to write, which must not exist (`-` for standard output)
    #[arg(default_value = "plan.toml")]
    pub(crate) file: PathBuf,
    /// Don't write plan.schema.json, with which editors complete and check keys, next to the plan
    #[arg(long)]
    pub(crate) no_schema: bool,
    /// Print the JSON schema of plans instead
    #[arg(long, conflicts_with_all = ["file", "no_schema"])]
    pub(crate) schema: bool,
    /// Print the tables of docs/plan.md instead.
    #[arg(long, hide = true, conflicts_with_all = ["file", "no_schema", "schema"])]
    pub(crate) reference: bool,
}

/// Arguments of another tool, which that tool's front end parses.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// Arguments of the other tool
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// Arguments of `prony completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `prony man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony man load | man -l -
  prony man plan | man -l -
  prony man --install    `man prony-load` then shows the page")]
pub(crate) struct ManArgs {
    /// A command, such as load or runs prune; "plan" for the keys of a plan, or "findings" for the
    /// meaning of each finding [default: prony itself]
    pub(crate) command: Vec<String>,
    /// Write all manual pages to DIR instead of printing one [default DIR: share/man next to the
    /// program's bin folder, where man looks, otherwise ~/.local/share/man]
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with = "command")]
    pub(crate) install: Option<Option<PathBuf>>,
    /// Print "plan" or "findings" as Markdown
    #[arg(long, hide = true, requires = "command")]
    pub(crate) markdown: bool,
}
