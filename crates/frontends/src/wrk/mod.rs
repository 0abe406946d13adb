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

use prony_load::Notation;

use crate::output::{note, print};
use crate::session::{Ending, PUBLIC, Session};

use arguments::{USAGE, WrkArguments, WrkError};

/// Exit status if no load ran or the script failed.
const FAILED: Ending = Ending::Status(1);

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

/// Runs wrk's front end; see [`crate::Tool::run`].
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

/// Prints a line to standard error. As in wrk, the line has no prefix, because scripts look for it.
fn print_error(text: &str) {
    note(&format!("{text}\n"));
}
