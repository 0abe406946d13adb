//! Command outcomes and their exit statuses.

use std::fmt;
use std::process::ExitCode;

use prony_plan::abort_rules::AbortRulesError;

/// Exit statuses and their meanings, as printed in the manual.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "Done. An undecided verdict also counts as a result."),
    (
        "1",
        "Done, but a --fail-if condition held, a --require condition did not hold, an --abort-if \
         condition ended the load, no request succeeded, a verdict was withheld, or a variant is \
         certainly worse than in the run that --against names.",
    ),
    ("2", "The arguments or the plan are wrong; nothing was run."),
    (
        "3",
        "The environment refused an operation, such as starting a service or opening a port.",
    ),
    (
        "130",
        "Interrupted; the results so far are printed and stored.",
    ),
];

/// Outcome of a command that produced a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Status 0.
    Done,
    /// Status 1: there is a result, but a condition failed or the result is incomplete.
    Doubtful,
    /// Status 1: an `--abort-if` condition ended the experiment; the results so far were printed.
    Aborted,
    /// Status 3: the run stopped early; the results so far and the reason were printed.
    CutShort,
    /// Status 130: a signal interrupted the command.
    Interrupted,
}

impl Ending {
    /// Returns the exit status.
    pub(crate) fn status(self) -> u8 {
        match self {
            Ending::Done => 0,
            Ending::Doubtful | Ending::Aborted => 1,
            Ending::CutShort => 3,
            Ending::Interrupted => 130,
        }
    }

    /// Returns the ending of a stored run with this exit status.
    pub(crate) fn of_stored(status: u8) -> Ending {
        match status {
            0 => Ending::Done,
            3 => Ending::CutShort,
            130 => Ending::Interrupted,
            _ => Ending::Doubtful,
        }
    }
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(ending.status())
    }
}

/// An error that prevented any result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Status 2: the arguments or the plan are wrong.
    Wrong(String),
    /// Status 3: the machine or another system refused an operation.
    Refused(String),
}

impl Failure {
    /// Creates an error in the arguments or the plan.
    pub(crate) fn wrong(what: impl fmt::Display) -> Failure {
        Failure::Wrong(what.to_string())
    }

    /// Creates an error for an operation that was refused.
    pub(crate) fn refused(what: impl fmt::Display) -> Failure {
        Failure::Refused(what.to_string())
    }

    /// Creates an error for `--abort-if` or `--abort-window`.
    pub(crate) fn wrong_abort_rules(error: &AbortRulesError) -> Failure {
        let flag = match error {
            AbortRulesError::Condition(_) => "--abort-if",
            AbortRulesError::ShortWindow => "--abort-window",
        };
        Failure::wrong(format!("{flag}: {error}"))
    }

    /// Creates an error for a file or folder that the user named. Missing permissions, a full disk
    /// and similar refusals result in status 3. Any other error means that the name is wrong, and
    /// results in status 2.
    pub(crate) fn file(name: impl fmt::Display, error: &std::io::Error) -> Failure {
        let text = format!("{name}: {error}");
        match error.kind() {
            std::io::ErrorKind::PermissionDenied
            | std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::FileTooLarge
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::ReadOnlyFilesystem => Failure::Refused(text),
            _ => Failure::Wrong(text),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Wrong(text) | Failure::Refused(text) => f.write_str(text),
        }
    }
}

impl From<Failure> for ExitCode {
    fn from(failure: Failure) -> ExitCode {
        ExitCode::from(match failure {
            Failure::Wrong(_) => 2,
            Failure::Refused(_) => 3,
        })
    }
}
