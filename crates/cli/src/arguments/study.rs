//! The arguments of `prony study`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use prony_record::quantity;

use super::RunArgs;

/// `prony study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    pub(crate) command: StudyCommand,
}

/// The subcommands of `prony study`.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// List the studies and their questions
    List,
    /// Print a study's README and its plan
    Show {
        /// The study
        name: String,
    },
    /// Run a study; its files are written to the results' folder first
    Run(Box<StudyRunArgs>),
    /// Copy a study's files to a folder, as the start of your own plan
    Copy {
        /// The study
        name: String,
        /// The folder, which must be empty or not exist
        dir: PathBuf,
    },
}

/// `prony study run`.
#[derive(Debug, Args)]
pub(crate) struct StudyRunArgs {
    /// The study
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Time that each trial measures, such as 5s [default: the study's]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) duration: Option<Duration>,
    /// Warm-up of each trial before it measures [default: the study's]
    #[arg(long, value_name = "TIME", value_parser = quantity::time, conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) warmup: Option<Duration>,
    /// Number of requests that each trial measures; with a duration, whichever ends first [default:
    /// the study's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) requests: Option<u64>,
    /// Add a level to one of the study's factors, written as in a plan; can be given several times
    #[arg(
        long,
        value_name = "FACTOR=LEVEL",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) level: Vec<String>,
    /// The seed that shuffles the order within blocks [default: drawn, and stored]
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) seed: Option<u64>,
}
