//! Emulates wrk's arguments, scripts and output and, with `-R`, wrk2's.
//!
//! The load accepts every response and has no request timeout. It is a closed loop or, with `-R`,
//! an open loop. The counts that wrk prints separately (status codes over 399, and responses later
//! than `--timeout`) are computed from the record.

mod arguments;
mod load;
mod report;
mod request;
mod run;
mod spectrum;
mod units;
mod url;

use std::ffi::OsString;

use prony_load::{Notation, SpecError};
use prony_lua::ScriptFault;

use crate::output::{print, print_error};
use crate::session::{PUBLIC, ToolEnding, ToolSession};

use arguments::{USAGE, WrkArguments, WrkError};

/// Exit status if no load ran or the script failed.
const FAILED: ToolEnding = ToolEnding::Status(1);

/// The engine's settings and wrk's options.
pub(crate) const NOTATION: Notation = Notation::Options(&[
    PUBLIC,
    ("connections", "--connections"),
    ("duration", "--duration"),
    ("threads", "--threads"),
    ("rate", "--rate"),
    ("header", "--header"),
    ("script", "--script"),
]);

/// Reason why a load can't run or has failed.
enum WrkFailure {
    Load(SpecError),
    Script(ScriptFault),
}

impl From<SpecError> for WrkFailure {
    fn from(error: SpecError) -> WrkFailure {
        WrkFailure::Load(error)
    }
}

impl From<ScriptFault> for WrkFailure {
    fn from(fault: ScriptFault) -> WrkFailure {
        WrkFailure::Script(fault)
    }
}

/// Runs wrk's front end; see [`crate::Tool::run`].
pub(crate) fn run(arguments: &[OsString], session: &ToolSession) -> ToolEnding {
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match WrkArguments::read(&words) {
        Ok((version, arguments)) => {
            print(&version);
            match run::run_wrk(&arguments, session) {
                Ok(()) => ToolEnding::Done,
                Err(failure) => {
                    print_error_line(&match failure {
                        WrkFailure::Load(error) => error.in_notation(NOTATION),
                        WrkFailure::Script(fault) => fault.to_string(),
                    });
                    FAILED
                }
            }
        }
        Err(WrkError { version, message }) => {
            print(&version);
            if let Some(message) = message {
                print_error_line(&message.to_string());
            }
            print(USAGE);
            FAILED
        }
    }
}

/// Prints a line to standard error. As in wrk, the line has no prefix, because scripts look for it.
fn print_error_line(text: &str) {
    print_error(&format!("{text}\n"));
}
