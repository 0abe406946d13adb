//! How a task ends, and its exit status.

use std::process::ExitCode;

/// Result of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything succeeded.
    Success,
    /// A check or a test failed; the failure has been printed.
    Failed,
    /// The arguments are invalid.
    Usage,
    /// A requirement is missing on this machine; the remedy has been printed.
    Missing,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(match ending {
            Ending::Success => 0,
            Ending::Failed => 1,
            Ending::Usage => 2,
            Ending::Missing => 3,
        })
    }
}
