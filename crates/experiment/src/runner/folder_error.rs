//! Errors that concern an experiment's folder.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Reason why an experiment's folder can't be used.
#[derive(Debug)]
pub enum ExperimentFolderError {
    /// The folder is not empty.
    NotEmpty(PathBuf),
    /// The folder contains an experiment that ended before it was set up, so it can be neither used
    /// nor resumed.
    HalfMade(PathBuf),
    /// The folder contains no experiment to resume.
    NoExperiment(PathBuf),
    /// The variants of the experiment in the folder differ from the plan's variants.
    OtherPlan(PathBuf),
    /// Another run is using the folder.
    InUse {
        /// Path of the folder.
        dir: PathBuf,
        /// Process ID of the other run, if known.
        pid: Option<u32>,
    },
    /// The plan was edited after the experiment began.
    PlanChanged {
        /// Path of the folder.
        dir: PathBuf,
        /// Differences between the plans, each as one phrase.
        changes: Vec<String>,
    },
    /// A revision that the plan builds has changed since the experiment began.
    RevisionMoved {
        /// Path of the folder.
        dir: PathBuf,
        /// Description of the change.
        change: String,
    },
    /// A condition ended the experiment. Repeating the block until it passes would bias the result.
    Aborted {
        /// Path of the folder.
        dir: PathBuf,
        /// Number of the block in which the condition held, from 1.
        block: u32,
        /// The `--abort-if` condition that held.
        condition: String,
    },
    /// A file can't be read or written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error message from the operating system or the parser.
        error: String,
    },
}

impl ExperimentFolderError {
    /// Creates the error for a folder that can't be used because it isn't empty.
    pub fn not_empty(dir: PathBuf) -> Self {
        if is_half_made(&dir) {
            Self::HalfMade(dir)
        } else {
            Self::NotEmpty(dir)
        }
    }

    /// Creates the error for a folder without an experiment that can be resumed.
    pub fn nothing_to_resume(dir: PathBuf) -> Self {
        if is_half_made(&dir) {
            Self::HalfMade(dir)
        } else {
            Self::NoExperiment(dir)
        }
    }
}

/// Returns true if a run was killed after it had created the folder of trials, and before it had
/// stored the state of its experiment.
fn is_half_made(dir: &Path) -> bool {
    let is_empty = |trials: &Path| fs::read_dir(trials).is_ok_and(|mut it| it.next().is_none());
    is_empty(&dir.join("trials")) && !dir.join("state.json").exists()
}

impl fmt::Display for ExperimentFolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentFolderError::NotEmpty(dir) => write!(
                f,
                "{}: the folder is not empty (choose another one with --out, or continue its \
                 experiment with --resume)",
                dir.display()
            ),
            ExperimentFolderError::HalfMade(dir) => write!(
                f,
                "{}: an earlier run was killed before it had set up its experiment in this folder \
                 (remove the folder, or choose another one with --out)",
                dir.display()
            ),
            ExperimentFolderError::NoExperiment(dir) => {
                write!(f, "{}: there is no experiment to resume", dir.display())
            }
            ExperimentFolderError::OtherPlan(dir) => {
                write!(
                    f,
                    "{}: the variants of the experiment in this folder differ from the plan's",
                    dir.display()
                )
            }
            ExperimentFolderError::InUse { dir, pid } => {
                let who = match pid {
                    Some(pid) => format!("another prony (process {pid})"),
                    None => "another prony".to_owned(),
                };
                write!(
                    f,
                    "{}: {who} is running an experiment in this folder (wait until it ends, or \
                     choose another folder with --out)",
                    dir.display()
                )
            }
            ExperimentFolderError::PlanChanged { dir, changes } => write!(
                f,
                "{}: the plan was edited after the experiment began: {} (undo the change, use a new \
                 folder, or combine both in one result with --accept-plan-changes)",
                dir.join("plan.toml").display(),
                changes.join("; ")
            ),
            ExperimentFolderError::RevisionMoved { dir, change } => write!(
                f,
                "{}: {change}, so more blocks would measure something else (start a new run, or \
                 name commits instead of branches)",
                dir.display()
            ),
            ExperimentFolderError::Aborted {
                dir,
                block,
                condition,
            } => write!(
                f,
                "{}: --abort-if {condition} ended this experiment in block {block}; repeating that block \
                 until it passes would bias the result (start a new experiment; `prony report` prints \
                 the stored result)",
                dir.display()
            ),
            ExperimentFolderError::File { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ExperimentFolderError {}
