//! Ctrl-C, SIGTERM and SIGHUP.

use std::ptr;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::ending::Failure;

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
