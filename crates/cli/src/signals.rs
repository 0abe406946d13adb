//! Handles Ctrl-C, SIGTERM and SIGHUP.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ending::Failure;
use crate::live;

/// Time for an orderly exit after a second signal.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// Exit status after an interrupt.
const INTERRUPTED: libc::c_int = 130;

/// Signals that ask a program to exit.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Effect of the second signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondSignal {
    /// It asks again, like the first one.
    AsksAgain,
    /// It ends the process within a second, without waiting for its threads, because a script may
    /// never return.
    Exits,
}

/// Calls `stop` on a separate thread when a signal in [`ENDING`] arrives.
pub(crate) fn listen(
    second: SecondSignal,
    mut stop: impl FnMut() + Send + 'static,
) -> Result<(), Failure> {
    listen_for(move |_, count| match second {
        SecondSignal::Exits if count > 1 => exit_soon(),
        SecondSignal::Exits | SecondSignal::AsksAgain => stop(),
    })
}

/// Calls `on` on a separate thread for each signal in [`ENDING`]. Its arguments are the signal's
/// number and the number of signals so far.
///
/// A SIGHUP that was ignored when prony started stays ignored, so that `nohup` works.
pub(crate) fn listen_for(mut on: impl FnMut(i32, u32) + Send + 'static) -> Result<(), Failure> {
    let mut signals = watched()?;
    std::thread::spawn(move || {
        for (signal, count) in signals.forever().zip(1..) {
            on(signal, count);
        }
    });
    Ok(())
}

/// Exits with the status of an interrupt after a short grace period, unless the process exits
/// earlier.
fn exit_soon() -> ! {
    // Restoring the terminal may block if nothing reads from it, so it runs on a separate thread.
    std::thread::spawn(|| {
        std::thread::sleep(2 * EXIT_GRACE);
        exit_now();
    });
    std::thread::sleep(EXIT_GRACE);
    live::restore_terminal();
    exit_now();
}

fn exit_now() -> ! {
    // SAFETY: `_exit` doesn't return and runs no exit handlers, which could block on a thread in an
    // endless loop.
    unsafe { libc::_exit(INTERRUPTED) }
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail instead of ending the process. It
/// installs a handler rather than ignoring the signal, because child processes would inherit an
/// ignored signal.
pub(crate) fn survive_file_size_limit() {
    // If the handler can't be installed, the signal has its default action.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

/// Returns true if the signal came from Ctrl-C.
pub(crate) fn is_interrupt(signal: i32) -> bool {
    signal == SIGINT
}

/// Waits for the first signal in [`ENDING`].
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
    // SAFETY: sigaction is a plain C struct for which all zeros are a valid value. Because the new
    // action is null, the call only reads the current one.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut present) == 0
            && present.sa_sigaction == libc::SIG_IGN
    }
}
