//! Writes to standard output and standard error. If a write to standard output fails, results are
//! lost, and the exit status reports that. It is not a failure if the reader closes the pipe early.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// True after a write to standard output has failed for a reason other than a closed pipe.
static OUTPUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Returns true if standard output failed for a reason other than a closed pipe.
pub(crate) fn output_failed() -> bool {
    OUTPUT_FAILED.load(Ordering::Relaxed)
}

/// Prints text to standard output and flushes it.
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
        print_error(&format!("standard output: {error}\n"));
    }
}

/// Prints text to standard error without changes. Ignores failures, because there is no way to
/// report them.
pub(crate) fn print_error(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Returns the system's message for an error code, without the code.
pub(crate) fn system_message(code: i32) -> String {
    let mut text = io::Error::from_raw_os_error(code).to_string();
    let number = format!(" (os error {code})");
    if text.ends_with(&number) {
        text.truncate(text.len() - number.len());
    }
    text
}

/// Prints a line to standard error, with the tool's name as its prefix.
pub(crate) fn complain(tool: &str, text: &str) {
    print_error(&format!("{tool}: {text}\n"));
}
