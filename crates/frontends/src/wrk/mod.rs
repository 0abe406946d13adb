//! Emulates wrk's arguments, scripts and output and, with `-R`, wrk2's.
//!
//! The load is a closed loop that accepts every response and has no request timeout. What wrk
//! counts separately (status codes over 399, responses later than `--timeout`) is computed from the
//! record.

mod arguments;
mod load;
mod report;
mod request;
mod run;
mod spectrum;
mod units;
mod url;

use std::ffi::OsString;

use crate::output::{note, print};
use crate::session::{Ending, Session};

use arguments::{USAGE, WrkArguments, WrkError};

/// Exit status if no load ran or the script failed.
const FAILED: Ending = Ending::Status(1);

/// See [`crate::Tool::run`].
pub(crate) fn run(arguments: &[OsString], session: &Session) -> Ending {
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match WrkArguments::read(&words) {
        Ok((version, arguments)) => {
            print(&version);
            match run::run(&arguments, session) {
                Ok(()) => Ending::Done,
                Err(text) => {
                    print_error(&text);
                    FAILED
                }
            }
        }
        Err(WrkError { version, message }) => {
            print(&version);
            if let Some(message) = message {
                print_error(&message);
            }
            print(USAGE);
            FAILED
        }
    }
}

/// Prints a line on standard error. Like wrk, it adds no prefix, because scripts look for these
/// lines.
fn print_error(text: &str) {
    note(&format!("{text}\n"));
}
