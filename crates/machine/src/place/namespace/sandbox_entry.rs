//! Enters the namespaces of a sandbox. This code runs between `fork` and `exec`, so it doesn't
//! allocate, lock or panic.
//!
//! The order of the steps matters:
//!
//! 1. Joining the network namespace, which belongs to the host's user namespace, requires root on
//!    the host.
//! 2. Mounting `/proc` requires root on the host too: if parts of the old `/proc` are hidden, as in
//!    most containers, the kernel doesn't allow the mount in a new user namespace.
//! 3. The user namespace comes last. It maps every ID to itself, which keeps files readable and
//!    lets servers such as nginx change their user. Root in the sandbox has no privileges on the
//!    host.

use std::io;
use std::os::fd::RawFd;

use crate::system::fork::{LaunchStep, fork};

/// ID map that maps every user and group ID to itself.
const IDENTITY_MAP: &[u8] = b"0 0 4294967295\n";

/// Creates the namespaces and forks. In the first process inside the namespaces, which has process
/// ID 1 there, returns 0. In the keeper, which stays outside, returns the ID that the first process
/// has on the host.
///
/// `checked` converts a system call's result to an error and reports the step.
pub(crate) fn enter(
    network: RawFd,
    checked: impl Fn(LaunchStep, i32) -> io::Result<()>,
) -> io::Result<i32> {
    checked(LaunchStep::JoinNetwork, join_network(network))?;
    checked(LaunchStep::NewProcessSpace, unshare(libc::CLONE_NEWPID))?;
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for the two descriptors that the call writes.
    checked(LaunchStep::Fork, unsafe {
        libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr())
    })?;
    let [outside, inside] = ends;
    let init = fork();
    checked(LaunchStep::Fork, init)?;
    if init != 0 {
        close(inside);
        if read_byte(outside) == 1 {
            let mapped = map_users(init);
            write_byte(outside, if mapped >= 0 { 1 } else { 2 });
            checked(LaunchStep::MapUsers, mapped)?;
        }
        close(outside);
        return Ok(init);
    }
    close(outside);
    checked(
        LaunchStep::NewMountSpace,
        unshare(libc::CLONE_NEWNS | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC),
    )?;
    checked(LaunchStep::NewMountSpace, keep_mounts_private())?;
    checked(LaunchStep::MountProc, mount_proc())?;
    checked(LaunchStep::NewUserSpace, unshare(libc::CLONE_NEWUSER))?;
    write_byte(inside, 1);
    if read_byte(inside) != 1 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    close(inside);
    Ok(0)
}

/// Moves the calling process into a network namespace. Returns a negative number on error.
pub(crate) fn join_network(network: RawFd) -> i32 {
    // SAFETY: the call takes no pointers; `network` is an open network namespace.
    unsafe { libc::setns(network, libc::CLONE_NEWNET) }
}

fn unshare(what: i32) -> i32 {
    // SAFETY: the call takes no pointers, and the process has one thread.
    unsafe { libc::unshare(what) }
}

fn keep_mounts_private() -> i32 {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the paths end with a NUL; the other pointers may be null.
    unsafe {
        libc::mount(
            c"none".as_ptr(),
            c"/".as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )
    }
}

fn mount_proc() -> i32 {
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let proc = c"proc".as_ptr();
    // SAFETY: the strings end with a NUL; the data may be null.
    unsafe { libc::mount(proc, c"/proc".as_ptr(), proc, flags, std::ptr::null()) }
}

/// Writes the user and group ID maps of a process in a new user namespace.
fn map_users(pid: i32) -> i32 {
    for name in [b"/uid_map\0", b"/gid_map\0"] {
        let mut path = [0_u8; 32];
        let mut length = 0;
        let mut digits = [0_u8; 10];
        let mut rest = pid.unsigned_abs();
        let mut count = 0;
        while rest > 0 && count < digits.len() {
            digits[count] = b'0' + (rest % 10) as u8;
            rest /= 10;
            count += 1;
        }
        for &byte in b"/proc/"
            .iter()
            .chain(digits[..count].iter().rev())
            .chain(name.iter())
        {
            path[length] = byte;
            length += 1;
        }
        let result = write(path.as_ptr().cast(), IDENTITY_MAP);
        if result < 0 {
            return result;
        }
    }
    0
}

/// Writes `text` to an existing file. `path` must end with a NUL byte.
fn write(path: *const libc::c_char, text: &[u8]) -> i32 {
    // SAFETY: callers pass strings that end with NUL.
    let file = unsafe { libc::open(path, libc::O_WRONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return file;
    }
    // SAFETY: the pointer and the length describe `text`.
    let written = unsafe { libc::write(file, text.as_ptr().cast(), text.len()) };
    let result = if written < 0 { -1 } else { 0 };
    if result == 0 {
        close(file); // after a failure, keep `errno`; the process ends soon
    }
    result
}

fn close(fd: RawFd) {
    // SAFETY: callers own the descriptor.
    unsafe { libc::close(fd) };
}

/// Reads a message of one byte. Returns 0 if the other end is closed.
fn read_byte(fd: RawFd) -> u8 {
    let mut byte = 0_u8;
    // SAFETY: the buffer is one byte long.
    unsafe { libc::read(fd, (&raw mut byte).cast(), 1) };
    byte
}

fn write_byte(fd: RawFd, byte: u8) {
    // SAFETY: the buffer is one byte long.
    unsafe { libc::send(fd, (&raw const byte).cast(), 1, libc::MSG_NOSIGNAL) };
}
