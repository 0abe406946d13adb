//! Emulates wrk's arguments, scripts and output and, with `-R`, wrk2's.
//!
//! The load accepts every response and has no request timeout. It is a closed loop or, with `-R`,
//! an open loop. The counts that wrk prints separately (status codes over 399, and responses later
//! than `--timeout`) are computed from the record.

mod arguments;
mod failure;
mod load;
mod notation;
mod report;
mod request;
mod run;
mod spectrum;
mod units;
mod url;

pub(crate) use notation::NOTATION;

use std::ffi::OsString;

use crate::output::{print, print_error};
use crate::session::{ToolEnding, ToolSession};

use arguments::{USAGE, WrkArguments, WrkError};
use failure::WrkFailure;

/// Exit status if no load ran or the script failed.
const FAILED: ToolEnding = ToolEnding::Status(1);

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
