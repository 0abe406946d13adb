//! FreeBSD's part of the keeper: jails, reapers. Between `fork` and `exec`, see the parent module.
//!
//! It compiles for FreeBSD, but has not been run there yet.

use std::io;
use std::os::fd::RawFd;

use super::super::channel::Step;
use super::checked;

/// The cores that a process may use.
pub(in crate::host) type CoreSet = libc::cpuset_t;

/// `struct procctl_reaper_kill` of procctl(2).
#[repr(C)]
struct ReaperKill {
    signal: libc::c_int,
    flags: libc::c_uint,
    subtree: libc::pid_t,
    killed: libc::c_uint,
    first_failed: libc::pid_t,
    reserved: [libc::c_uint; 15],
}

/// `REAPER_KILL_CHILDREN`: the direct children of the reaper alone, orphans among them.
const REAPER_KILL_CHILDREN: libc::c_uint = 1;

/// The keeper stays outside the jail.
#[allow(clippy::unnecessary_wraps, reason = "other systems can fail here")]
pub(super) fn enter_as_keeper(_jail: i32, _channel: RawFd) -> io::Result<bool> {
    Ok(false)
}

/// Enters the jail of that id.
pub(super) fn enter_as_service(jail: i32, channel: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointers.
    checked(channel, Step::EnterJail, unsafe { libc::jail_attach(jail) }).map(drop)
}

fn own_id() -> libc::id_t {
    // SAFETY: takes nothing and cannot fail.
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

/// Binds this process to cores.
pub(super) fn run_on(cores: &CoreSet) -> i32 {
    // SAFETY: the set is a whole `cpuset_t`, and -1 means this process.
    unsafe {
        libc::cpuset_setaffinity(
            libc::CPU_LEVEL_WHICH,
            libc::CPU_WHICH_PID,
            -1,
            size_of::<CoreSet>(),
            cores,
        )
    }
}

/// Sends a signal to every direct child.
pub(super) fn signal_children(signal: i32) -> bool {
    let mut order = ReaperKill {
        signal,
        flags: REAPER_KILL_CHILDREN,
        subtree: 0,
        killed: 0,
        first_failed: 0,
        reserved: [0; 15],
    };
    // SAFETY: the data is what the command expects.
    let result = unsafe {
        libc::procctl(
            libc::P_PID,
            own_id(),
            libc::PROC_REAP_KILL,
            (&raw mut order).cast(),
        )
    };
    result == 0
}

/// Gives up all that was inherited from prony but the channel.
pub(super) fn be_nobody(channel: Option<RawFd>) {
    let kept = channel.unwrap_or(-1);
    for fd in 0..kept {
        // SAFETY: closes descriptors that nothing in this process uses any more.
        unsafe { libc::close(fd) };
    }
    // SAFETY: as above.
    unsafe { libc::closefrom(kept + 1) };
}
