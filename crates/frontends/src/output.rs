//! Writes to standard output and standard error. If a write to standard output fails, results are
//! lost, and the exit status reports that. A reader that closes the pipe early is not a failure.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// True after a write to standard output has failed.
static OUTPUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Returns true if standard output failed for a reason other than a closed pipe.
pub(crate) fn output_failed() -> bool {
    OUTPUT_FAILED.load(Ordering::Relaxed)
}

/// Prints to standard output and flushes.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    record_write(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Records the result of a write to standard output, and reports the first failure.
pub(crate) fn record_write(written: io::Result<()>) {
    let Err(error) = written else {
        return;
    };
    if error.kind() != ErrorKind::BrokenPipe && !OUTPUT_FAILED.swap(true, Ordering::Relaxed) {
        note(&format!("standard output: {error}\n"));
    }
}

/// Prints text to standard error without changes. Ignores failures, because they can't be reported
/// anywhere.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Prints a line to standard error, with the tool's name as its prefix.
pub(crate) fn complain(tool: &str, text: &str) {
    note(&format!("{tool}: {text}\n"));
}
