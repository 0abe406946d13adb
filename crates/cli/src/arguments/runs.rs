//! The arguments of `prony runs`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use prony_record::quantity;

use crate::runs_folder::RUNS_DIR;

/// Arguments of `prony runs`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
A RUN is a folder, or the name of one in prony-runs: its own name or one given
with `prony runs name`.

Examples:
  prony runs                                list the runs in prony-runs
  prony runs --json - | jq '.runs[].path'   the same for a script
  prony runs open                           show the newest report in a browser
  prony runs name prony-runs/X main         name a run, such as a baseline...
  prony compare plan.toml --against main    ...and compare with it
  prony runs prune --keep 20                keep the newest 20 and named ones"
)]
pub(crate) struct RunsArgs {
    /// The folder that holds the runs
    #[arg(value_name = "DIR", default_value = RUNS_DIR)]
    pub(crate) dir: PathBuf,
    /// Write the list as JSON to FILE (`-` for standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
}

/// Commands for stored runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Open a run's report in a browser
    Open {
        /// The run [default: the newest]
        run: Option<PathBuf>,
    },
    /// Give a run a name, such as main, that --against and prony report accept
    Name {
        /// The run; with --delete, the name
        run: PathBuf,
        /// New name; if another run has it, the name moves to this run
        #[arg(required_unless_present = "delete")]
        name: Option<String>,
        /// Delete a name but keep the run
        #[arg(long, conflicts_with = "name")]
        delete: bool,
    },
    /// Remove runs
    Rm {
        /// The runs
        #[arg(value_name = "RUN", required = true)]
        runs: Vec<PathBuf>,
        /// Remove without asking
        #[arg(short = 'y', long)]
        yes: bool,
    },
    /// Remove old runs, except those with a name, and cached builds of revisions by their last use
    Prune {
        /// The folder that holds the runs
        #[arg(value_name = "DIR", default_value = RUNS_DIR)]
        dir: PathBuf,
        /// Keep the newest N runs, and the N builds used last
        #[arg(long, value_name = "N")]
        keep: Option<usize>,
        /// Keep runs younger than this, and builds used since, such as 12h or 30d
        #[arg(long, value_name = "TIME", value_parser = quantity::age)]
        older_than: Option<Duration>,
        /// List what would be removed, and remove nothing
        #[arg(long)]
        dry_run: bool,
        /// Remove without asking
        #[arg(short = 'y', long)]
        yes: bool,
    },
}
