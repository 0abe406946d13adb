//! Errors that concern an experiment's folder.

use std::fmt;
use std::path::PathBuf;

/// Reason why an experiment's folder can't be used.
#[derive(Debug)]
pub enum ExperimentFolderError {
    /// The folder is not empty.
    NotEmpty(PathBuf),
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

impl fmt::Display for ExperimentFolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentFolderError::NotEmpty(dir) => write!(
                f,
                "{}: the folder is not empty (choose another one with --out, or continue its \
                 experiment with --resume)",
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
