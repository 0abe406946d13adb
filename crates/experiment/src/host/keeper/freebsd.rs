//! The keeper on FreeBSD: jails and reapers. This code runs between `fork` and `exec`; see the
//! parent module.
//!
//! **Experimental: this code was written for FreeBSD, but has never run there.**

use std::io;
use std::os::fd::RawFd;

use super::checked;
use crate::system::fork::LaunchStep;

/// A set of cores, as FreeBSD's system calls expect it.
pub(in crate::host) type FreeBsdCoreSet = libc::cpuset_t;

/// The kernel's `struct procctl_reaper_kill` (procctl(2)).
#[repr(C)]
struct ReaperKill {
    signal: libc::c_int,
    flags: libc::c_uint,
    subtree: libc::pid_t,
    killed: libc::c_uint,
    first_failed: libc::pid_t,
    reserved: [libc::c_uint; 15],
}

/// Flag that limits signals to the direct children of the reaper, including adopted orphans.
const REAPER_KILL_CHILDREN: libc::c_uint = 1;

/// Does nothing, because the keeper stays outside the jail.
#[allow(clippy::unnecessary_wraps, reason = "can fail on other systems")]
pub(super) fn enter_as_keeper(_jail: i32, _channel: RawFd) -> io::Result<bool> {
    Ok(false)
}

/// Enters the jail with the given ID.
pub(super) fn enter_as_service(jail: i32, channel: RawFd) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    checked(channel, LaunchStep::EnterJail, unsafe {
        libc::jail_attach(jail)
    })
    .map(drop)
}

fn own_id() -> libc::id_t {
    // SAFETY: the call takes no arguments and can't fail.
    libc::id_t::from(unsafe { libc::getpid() })
}

pub(super) fn adopt_orphans() -> i32 {
    // SAFETY: this command takes no data.
    unsafe {
        libc::procctl(
            libc::P_PID,
            own_id(),
            libc::PROC_REAP_ACQUIRE,
            std::ptr::null_mut(),
        )
    }
}

/// Binds this process to the given cores.
pub(super) fn run_on(cores: &FreeBsdCoreSet) -> i32 {
    // SAFETY: the set is a whole `cpuset_t`, and -1 means this process.
    unsafe {
        libc::cpuset_setaffinity(
            libc::CPU_LEVEL_WHICH,
            libc::CPU_WHICH_PID,
            -1,
            size_of::<FreeBsdCoreSet>(),
            cores,
        )
    }
}

/// Sends a signal to every direct child.
pub(super) fn signal_children(signal: i32) -> bool {
    let mut command = ReaperKill {
        signal,
        flags: REAPER_KILL_CHILDREN,
        subtree: 0,
        killed: 0,
        first_failed: 0,
        reserved: [0; 15],
    };
    // SAFETY: the pointer refers to the structure that this command expects.
    let result = unsafe {
        libc::procctl(
            libc::P_PID,
            own_id(),
            libc::PROC_REAP_KILL,
            (&raw mut command).cast(),
        )
    };
    result == 0
}

/// Closes all inherited descriptors except the channel.
pub(super) fn detach(channel: Option<RawFd>) {
    let kept = channel.unwrap_or(-1);
    for fd in 0..kept {
        // SAFETY: this process no longer uses these descriptors.
        unsafe { libc::close(fd) };
    }
    // SAFETY: this process no longer uses these descriptors.
    unsafe { libc::closefrom(kept + 1) };
}
