//! wrk's arguments, scripts and lines; with `-R`, wrk2's.
//!
//! The load is closed, every answer is expected and none is given up: what wrk counts apart (statuses
//! over 399, answers later than `--timeout`) is counted out of what was recorded.

mod arguments;
mod director;
mod load;
mod lua;
mod report;
mod request;
mod run;
mod spectrum;
mod statistics;
mod units;
mod url;

use std::ffi::OsString;

use crate::output::{note, print};
use crate::session::{Ending, Session};

use arguments::{Arguments, USAGE, Wrong};

/// What wrk ends with when nothing was run, or the script failed.
const FAILED: Ending = Ending::Status(1);

/// See [`crate::Tool::run`].
pub(crate) fn run(arguments: &[OsString], session: &Session) -> Ending {
    let words: Vec<String> = arguments
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    match Arguments::read(&words) {
        Ok((version, arguments)) => {
            print(&version);
            match run::run(&arguments, session) {
                Ok(()) => Ending::Done,
                Err(text) => {
                    tell(&text);
                    FAILED
                }
            }
        }
        Err(Wrong { version, message }) => {
            print(&version);
            if let Some(message) = message {
                tell(&message);
            }
            print(USAGE);
            FAILED
        }
    }
}

/// A line on standard error, without the name in front: wrk's own messages have none, and scripts
/// look for them.
fn tell(text: &str) {
    note(&format!("{text}\n"));
}
