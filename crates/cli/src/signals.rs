//! Ctrl-C, SIGTERM and SIGHUP.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ending::Failure;
use crate::live;

/// The time that a second signal leaves the process to end by itself.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// The exit status after an interrupt.
const INTERRUPTED: libc::c_int = 130;

/// What ends a program politely.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Calls `on` for each of those signals, on a thread of its own, with the number of signals so far.
///
/// A SIGHUP that was ignored when prony began stays ignored: `nohup` means it.
pub(crate) fn listen(mut on: impl FnMut(u32) + Send + 'static) -> Result<(), Failure> {
    listen_for(move |_, count| on(count))
}

/// The same, with the signal itself.
pub(crate) fn listen_for(mut on: impl FnMut(i32, u32) + Send + 'static) -> Result<(), Failure> {
    let mut signals = watched()?;
    std::thread::spawn(move || {
        for (signal, count) in signals.forever().zip(1..) {
            on(signal, count);
        }
    });
    Ok(())
}

/// Calls `stop` for the first of those signals. A second one ends the process within a second, whatever
/// its threads are doing: a script may never return.
pub(crate) fn stop_then_exit(stop: impl Fn() + Send + 'static) -> Result<(), Failure> {
    listen(move |count| match count {
        1 => stop(),
        _ => exit_soon(),
    })
}

/// Ends the process with the status of an interrupt, after a moment in which it may end by itself.
fn exit_soon() -> ! {
    // Restoring a terminal may block, if it is not read.
    std::thread::spawn(|| {
        std::thread::sleep(2 * EXIT_GRACE);
        exit_now();
    });
    std::thread::sleep(EXIT_GRACE);
    live::restore_terminal();
    exit_now();
}

fn exit_now() -> ! {
    // SAFETY: it does not return, and runs nothing that a thread in an endless loop could hold up.
    unsafe { libc::_exit(INTERRUPTED) }
}

/// Has writes beyond the limit of a file's size fail (`ulimit -f`), where they would end the process. A
/// handler is not inherited by programs that are started, as ignoring the signal would be.
pub(crate) fn survive_file_size_limit() {
    // Without it the process ends as it would anyhow.
    let _ = signal_hook::flag::register(libc::SIGXFSZ, Arc::default());
}

/// Whether it is somebody at the keyboard.
pub(crate) fn is_interrupt(signal: i32) -> bool {
    signal == SIGINT
}

/// Waits for the first of those signals.
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
    // SAFETY: sigaction is a plain C struct for which zeroes are a valid value; with no new action
    // the call only writes the present one into it.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut present) == 0
            && present.sa_sigaction == libc::SIG_IGN
    }
}
