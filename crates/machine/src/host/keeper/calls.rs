//! Calls of the operating system that the keeper makes on every path.

use std::io;
use std::os::fd::RawFd;

use crate::host::channel::{self, KeeperMessage};
use crate::system::fork::LaunchStep;

/// Converts the result of a system call. If the call failed, reports the failed step to prony.
pub(super) fn checked(channel: RawFd, step: LaunchStep, result: i32) -> io::Result<i32> {
    if result >= 0 {
        return Ok(result);
    }
    let error = io::Error::last_os_error();
    channel::send(channel, KeeperMessage::Failed(step));
    Err(error)
}

/// Ends this process without running any destructor.
pub(super) fn exit(status: i32) -> ! {
    // SAFETY: the call takes no pointers.
    unsafe { libc::_exit(status) }
}

/// Blocks all signals. Returns the signal mask to use while waiting, which unblocks SIGCHLD.
pub(super) fn block_signals() -> libc::sigset_t {
    extern "C" fn wake(_signal: libc::c_int) {}
    // SAFETY: all sets and the action are plain data that the calls fill or read, and the handler
    // does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = wake as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut());
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut mask);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        libc::sigdelset(&raw mut mask, libc::SIGCHLD);
        mask
    }
}
