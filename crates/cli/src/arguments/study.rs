//! The arguments of `prony study`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use prony_record::quantity;

use super::RunArgs;

/// Arguments of `prony study`.
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
    /// Run a study; its files are first copied to the results folder
    Run(Box<StudyRunArgs>),
    /// Copy a study's files to a folder, as a starting point for your own plan
    Copy {
        /// The study
        name: String,
        /// The folder, which must be empty or not exist
        dir: PathBuf,
    },
}

/// Arguments of `prony study run`.
#[derive(Debug, Args)]
pub(crate) struct StudyRunArgs {
    /// The study
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Length of each trial's measurement, such as 5s [default: the study's]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) duration: Option<Duration>,
    /// Length of each trial's warm-up [default: the study's]
    #[arg(long, value_name = "TIME", value_parser = quantity::time, conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) warmup: Option<Duration>,
    /// Number of requests that each trial measures; with --duration, the trial ends at the first of
    /// the two limits [default: the study's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) requests: Option<u64>,
    /// Add a level to one of the study's factors, written as in a plan; repeatable
    #[arg(
        long,
        value_name = "FACTOR=LEVEL",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) level: Vec<String>,
    /// Seed of the order within blocks [default: random, and stored]
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) seed: Option<u64>,
}
