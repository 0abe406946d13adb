//! Endings of a command, and their exit statuses.

use std::fmt;
use std::process::ExitCode;

/// Exit statuses and their meaning, as the manual has them.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "Done. An undecided verdict is a result, too."),
    (
        "1",
        "Done, but a --fail-if held, a --require did not, no request succeeded, a verdict was \
         withheld, or a variant is surely worse than in the run that --against names.",
    ),
    ("2", "The arguments or the plan are wrong; nothing was run."),
    ("3", "The environment refused."),
    (
        "130",
        "Interrupted; the results so far are printed and stored.",
    ),
];

/// A command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Status 0.
    Done,
    /// Status 1: there is a result, and it is not a good one.
    Doubtful,
    /// Status 3: results so far were printed, and the reason why there are no more.
    CutShort,
    /// Status 130.
    Interrupted,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(match ending {
            Ending::Done => 0,
            Ending::Doubtful => 1,
            Ending::CutShort => 3,
            Ending::Interrupted => 130,
        })
    }
}

/// A command that gave nothing, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Status 2: what was typed, or the plan, is wrong.
    Wrong(String),
    /// Status 3: the machine refused.
    Refused(String),
}

impl Failure {
    /// What was typed is wrong.
    pub(crate) fn wrong(what: impl fmt::Display) -> Failure {
        Failure::Wrong(what.to_string())
    }

    /// The machine refused.
    pub(crate) fn refused(what: impl fmt::Display) -> Failure {
        Failure::Refused(what.to_string())
    }

    /// A file or folder that was named can't be had: without permission it is the machine that
    /// refuses, otherwise the name is wrong.
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
