//! Reasons why a run produces no result.

use std::fmt;
use std::path::PathBuf;

use prony_plan::{Interleave, PlanError};
use prony_stats::TrialMode;

use super::folder_error::ExperimentFolderError;

/// Reason why a run produced no result.
#[derive(Debug)]
pub enum RunnerError {
    /// The design in the plan is contradictory.
    Design(prony_stats::DesignError),
    /// The folder of the experiment can't be used.
    Folder(ExperimentFolderError),
    /// The requested mode of the trials is not possible.
    Mode(ModeError),
    /// The resumed experiment had used up its error rate after this number of blocks, so more
    /// blocks can't change a verdict.
    Spent(u32),
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunnerError::Design(error) => error.fmt(f),
            RunnerError::Folder(error) => error.fmt(f),
            RunnerError::Mode(error) => error.fmt(f),
            RunnerError::Spent(blocks) => write!(
                f,
                "this experiment reached its final verdicts after block {blocks}; judging it \
                    again after more blocks would make wrong verdicts more likely (start a new \
                    experiment with more --blocks; `prony report` prints the stored result)"
            ),
        }
    }
}

impl std::error::Error for RunnerError {}

impl From<ExperimentFolderError> for RunnerError {
    fn from(error: ExperimentFolderError) -> Self {
        RunnerError::Folder(error)
    }
}

/// Reason why a requested mode is rejected.
#[derive(Debug)]
pub enum ModeError {
    /// The plan requests slices of a certain length, but the trials can't be interleaved.
    Plan(PlanError),
    /// `--interleave` requests slices of a certain length, but the trials can't be interleaved.
    Requested {
        /// Value of `--interleave`.
        requested: Interleave,
        /// Reason why interleaving is not possible.
        reason: String,
    },
    /// The trials of the resumed experiment ran in a mode other than the requested one.
    Changed {
        /// Folder of the resumed experiment.
        dir: PathBuf,
        /// Value of `--interleave`.
        requested: Interleave,
        /// Mode in which the trials of the resumed experiment ran.
        stored: TrialMode,
    },
    /// The trials of the resumed experiment were interleaved, which is no longer possible.
    NotPossible {
        /// Folder of the resumed experiment.
        dir: PathBuf,
        /// Reason why interleaving is no longer possible.
        reason: String,
    },
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModeError::Plan(error) => error.fmt(f),
            ModeError::Requested { requested, reason } => write!(
                f,
                "--interleave {requested}: variants can't be interleaved: {reason} (remove the flag, or \
                 use --interleave off)"
            ),
            ModeError::Changed {
                dir,
                requested,
                stored,
            } => {
                let before = match stored {
                    TrialMode::Sliced { length: None } => "interleaved",
                    TrialMode::Sliced { length: Some(_) } => {
                        "interleaved with another slice length"
                    }
                    TrialMode::Sequential { .. } => "run sequentially",
                };
                write!(
                    f,
                    "--interleave {requested}: the trials of the experiment in {} were {before}, and \
                     the two modes can't be combined in one result (remove --interleave, or start \
                     a new experiment)",
                    dir.display()
                )
            }
            ModeError::NotPossible { dir, reason } => write!(
                f,
                "the experiment in {} can't be resumed: its trials were interleaved, which is no \
                 longer possible: {reason} (start a new experiment)",
                dir.display()
            ),
        }
    }
}

impl std::error::Error for ModeError {}
