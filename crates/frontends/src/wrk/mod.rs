//! wrk's arguments and lines.

use std::ffi::OsString;

use crate::session::{Ending, Session, complain};

/// See [`crate::Tool::run`].
pub(crate) fn run(_arguments: &[OsString], _session: &Session) -> Ending {
    complain("wrk", "not built yet");
    Ending::Wrong
}
