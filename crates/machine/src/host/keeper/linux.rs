//! The keeper on Linux: enters namespaces, adopts orphans and lists children. This code runs
//! between `fork` and `exec`; see the parent module.

use std::io;
use std::os::fd::RawFd;

use super::calls::{block_signals, checked, exit};
use crate::place::namespace;
pub(super) use crate::place::namespace::join_network;

/// A set of cores, as Linux's system calls expect it.
pub(in crate::host) type LinuxCoreSet = libc::cpu_set_t;

/// Enters the namespaces of a sandbox. Returns true in the first process inside the namespaces;
/// does not return in the keeper, which stays outside.
pub(super) fn enter_as_keeper(network: RawFd, channel: RawFd) -> io::Result<bool> {
    let init = namespace::enter(network, |step, result| {
        checked(channel, step, result).map(drop)
    })?;
    if init != 0 {
        wait_for_namespace(init);
    }
    Ok(true)
}

/// Waits until the first process of the namespace, `init`, has ended, and then exits. Runs in the
/// keeper, outside the namespace.
fn wait_for_namespace(init: i32) -> ! {
    detach(None);
    block_signals();
    let mut status = 0;
    // SAFETY: `status` has room for the wait status.
    while unsafe { libc::waitpid(init, &raw mut status, 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    exit(0)
}

pub(super) fn adopt_orphans() -> i32 {
    // SAFETY: the call takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
}

/// Binds this process to the given cores.
pub(super) fn run_on(cores: &LinuxCoreSet) -> i32 {
    // SAFETY: the set is a whole `cpu_set_t`, and 0 means this process.
    unsafe { libc::sched_setaffinity(0, size_of::<LinuxCoreSet>(), cores) }
}

/// Sends a signal to every direct child of this process. Returns false if the kernel does not list
/// the children.
pub(super) fn signal_children(signal: i32) -> bool {
    // SAFETY: the path ends with a NUL.
    let file = unsafe {
        libc::open(
            c"/proc/thread-self/children".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if file < 0 {
        return false;
    }
    let mut buffer = [0_u8; 512];
    let mut pid = 0_i32;
    loop {
        // SAFETY: the buffer has the given length.
        let got = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        let Ok(got @ 1..) = usize::try_from(got) else {
            break;
        };
        for byte in buffer.iter().take(got) {
            if byte.is_ascii_digit() {
                pid = pid.wrapping_mul(10).wrapping_add(i32::from(byte - b'0'));
            } else {
                if pid > 0 {
                    // SAFETY: the call takes no pointers; `pid` is a child that has not been
                    // reaped.
                    unsafe { libc::kill(pid, signal) };
                }
                pid = 0;
            }
        }
    }
    // SAFETY: `file` was opened above.
    unsafe { libc::close(file) };
    true
}

/// Closes all inherited descriptors except the channel, and changes the process name to
/// [`KEEPER_NAME`](crate::system::fork::KEEPER_NAME), which `pkill prony` doesn't match.
pub(super) fn detach(channel: Option<RawFd>) {
    // SAFETY: the name ends with a NUL and is shorter than 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"keeper".as_ptr(), 0, 0, 0) };
    let last = u32::MAX;
    match channel.and_then(|fd| u32::try_from(fd).ok()) {
        Some(kept) => {
            if kept > 0 {
                close_range(0, kept - 1);
            }
            close_range(kept + 1, last);
        }
        None => close_range(0, last),
    }
}

fn close_range(first: u32, last: u32) {
    // SAFETY: this process no longer uses these descriptors.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
        return;
    }
    // Fallback for versions before Linux 5.9. The upper bound is far above the number of files that
    // prony opens.
    for fd in first..=last.min(65_536) {
        // SAFETY: this process no longer uses these descriptors.
        unsafe { libc::close(fd.cast_signed()) };
    }
}
