//! Runs threads of this process in another network namespace.
//!
//! On Linux, each thread has a network namespace, which the threads that it starts inherit. The
//! load of a named place can therefore run in this process, with its memory and signals.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Folder in which `ip netns` keeps named namespaces.
pub(super) const NETNS_DIR: &str = "/run/netns";

/// Runs `work` on a new thread in the namespace, and waits for it to end.
///
/// # Errors
/// The namespace can't be entered or the thread can't be started; `work` was not run.
pub(crate) fn run_in_netns<T: Send>(
    namespace: &File,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    on_own_thread(
        || {
            Ok(move_into_link_name_space(
                namespace.as_fd(),
                Some(LinkNameSpaceType::Network),
            )?)
        },
        work,
    )
}

/// Runs `work` on a new thread in a temporary network namespace, whose only interface is a loopback
/// interface that is down.
///
/// # Errors
/// The kernel can't create the namespace.
pub(super) fn run_in_new_netns<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let unshare = || {
        // SAFETY: the call takes no pointers. It changes only the namespace of the calling thread,
        // which ends here.
        match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    on_own_thread(unshare, work)
}

fn on_own_thread<T: Send>(
    enter: impl FnOnce() -> io::Result<()> + Send,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("in-netns".to_owned());
        let thread = builder.spawn_scoped(scope, || enter().map(|()| work()))?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
