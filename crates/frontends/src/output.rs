//! Standard output and standard error of a front end. A reader that left early is no failure; any
//! other refusal of standard output loses results, and the exit status says so.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether standard output has refused something.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether results were lost: standard output refused them, and not because nobody reads on.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints to standard output, at once.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    heed(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// What became of something written to standard output. The first refusal is told.
pub(crate) fn heed(written: io::Result<()>) {
    let Err(error) = written else {
        return;
    };
    if error.kind() != ErrorKind::BrokenPipe && !LOST.swap(true, Ordering::Relaxed) {
        note(&format!("standard output: {error}\n"));
    }
}

/// Prints to standard error as it is. Where this can't be said, nothing can.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a line to standard error, with the tool's name in front.
pub(crate) fn complain(tool: &str, text: &str) {
    note(&format!("{tool}: {text}\n"));
}
