//! wrk's arguments, scripts and output; with `-R`, wrk2's.
//!
//! The load is a closed loop in which every response is expected and no request times out. Whatever
//! wrk counts separately (statuses over 399, responses later than `--timeout`) is computed from the
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

/// Exit status if nothing ran or the script failed.
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

/// Prints a line on standard error without a prefix, as wrk does; scripts look for these lines.
fn print_error(text: &str) {
    note(&format!("{text}\n"));
}
