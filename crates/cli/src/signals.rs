//! Ctrl-C, SIGTERM and SIGHUP.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ending::Failure;
use crate::live;

/// The grace period for an orderly exit after a second signal.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// The exit status after an interrupt.
const INTERRUPTED: libc::c_int = 130;

/// The signals that ask a program to end.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Calls `on` for each of these signals on a separate thread, with the number of signals so far.
///
/// A SIGHUP that was ignored when prony started stays ignored, so that `nohup` works.
pub(crate) fn listen(mut on: impl FnMut(u32) + Send + 'static) -> Result<(), Failure> {
    listen_for(move |_, count| on(count))
}

/// Like [`listen`], with the signal's number.
pub(crate) fn listen_for(mut on: impl FnMut(i32, u32) + Send + 'static) -> Result<(), Failure> {
    let mut signals = watched()?;
    std::thread::spawn(move || {
        for (signal, count) in signals.forever().zip(1..) {
            on(signal, count);
        }
    });
    Ok(())
}

/// Calls `stop` at the first of these signals. A second one ends the process within a second
/// regardless of its threads, because a script may never return.
pub(crate) fn stop_then_exit(stop: impl Fn() + Send + 'static) -> Result<(), Failure> {
    listen(move |count| match count {
        1 => stop(),
        _ => exit_soon(),
    })
}

/// Ends the process with the status of an interrupt, after a grace period in which it may end by
/// itself.
fn exit_soon() -> ! {
    // Restoring the terminal may block if nothing reads from it.
    std::thread::spawn(|| {
        std::thread::sleep(2 * EXIT_GRACE);
        exit_now();
    });
    std::thread::sleep(EXIT_GRACE);
    live::restore_terminal();
    exit_now();
}

fn exit_now() -> ! {
    // SAFETY: `_exit` doesn't return, and runs no code that a thread in an endless loop could
    // block.
    unsafe { libc::_exit(INTERRUPTED) }
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail instead of ending the process. Child
/// processes don't inherit a handler, but would inherit an ignored signal.
pub(crate) fn survive_file_size_limit() {
    // Without the handler, the process ends as it would by default.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

/// True if the signal came from the keyboard.
pub(crate) fn is_interrupt(signal: i32) -> bool {
    signal == SIGINT
}

/// Waits for the first of these signals.
pub(crate) fn wait() -> Result<(), Failure> {
    watched()?.forever().next();
    Ok(())
}

fn watched() -> Result<Signals, Failure> {
    let heeded = ENDING
        .into_iter()
        .filter(|&signal| signal != SIGHUP || !is_ignored(signal));
    Signals::new(heeded).map_err(|error| Failure::refused(format!("handling signals: {error}")))
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: sigaction is a plain C struct for which zeroes are a valid value. With no new action,
    // the call only writes the current one to it.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut present) == 0
            && present.sa_sigaction == libc::SIG_IGN
    }
}
