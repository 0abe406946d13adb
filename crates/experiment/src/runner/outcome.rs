//! The result of a run.

use prony_stats::VerdictDocument;

use super::folder_error::ExperimentFolderError;
use super::trial_error::FailedTrial;

/// Result of a run.
#[derive(Debug)]
pub struct ExperimentOutcome {
    /// The verdicts so far.
    pub document: VerdictDocument,
    /// True if the user interrupted the run.
    pub interrupted: bool,
    /// Trial whose failure ended the run, if there was one.
    pub failed: Option<FailedTrial>,
    /// Reason why the verdicts could not be stored, unless a failed trial has the same cause.
    pub unstored: Option<ExperimentFolderError>,
}
