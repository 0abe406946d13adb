//! Threads of prony's own in a network namespace.
//!
//! A thread's network is its own affair on Linux, and the threads that it starts inherit it. So a
//! load that is run by a thread in a place is wholly in that place, and shares its memory, its
//! signals and its results with the rest of the process.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Runs `work` on a thread of its own within the namespace and waits for it.
///
/// # Errors
/// The namespace can't be entered, or no thread be started; `work` has then not begun.
pub(crate) fn visit<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    elsewhere(
        || {
            Ok(move_into_link_name_space(
                namespace.as_fd(),
                Some(LinkNameSpaceType::Network),
            )?)
        },
        work,
    )
}

/// Runs `work` within a new network namespace that ends with it and has nothing but a loopback that
/// is down.
///
/// # Errors
/// The kernel refuses one.
pub(super) fn visit_new<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let unshare = || {
        // SAFETY: takes no pointers; a network belongs to the calling thread alone, which ends here.
        match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    elsewhere(unshare, work)
}

fn elsewhere<T: Send>(
    go: impl FnOnce() -> io::Result<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let visitor = std::thread::Builder::new().name("in-place".to_owned());
        let visitor = visitor.spawn_scoped(scope, || go().map(|()| work()))?;
        // A panic of the work's goes on here.
        visitor
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
