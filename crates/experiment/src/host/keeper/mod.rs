//! The small process between prony and each service.
//!
//! ```text
//! native:     prony ── keeper ── service ── its workers
//! namespace:  prony ── keeper ─┤ init (pid 1 inside) ── service ── its workers
//! ```
//!
//! A keeper is a fork of prony that never executes anything else. It adopts every orphan of its
//! service (Linux: `PR_SET_CHILD_SUBREAPER`, or by being pid 1 of a process namespace; FreeBSD:
//! `PROC_REAP_ACQUIRE`, the service alone being jailed), so a daemon that forks twice and begins a session of its own still hangs below it. Hence the whole service
//! is, at any time, exactly what descends from the keeper: that is what telemetry counts and what a
//! stop kills. A keeper whose prony died, by whatever means, kills its service and ends. A keeper
//! that its service stopped is continued when the service has to end; what a killed keeper kept is
//! adopted by prony, and is killed from there or, if prony died as well, by the next start's sweep.
//!
//! Everything here runs between `fork` and `exec` in a process that had threads, so it must not
//! allocate, lock or panic.

use std::io;
use std::os::fd::RawFd;

#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(target_os = "freebsd")]
use freebsd as system;
#[cfg(target_os = "linux")]
use linux as system;

use super::channel::{self, News, Request, Step};
pub(super) use system::CoreSet;

/// What the forked process needs; all of it prepared before the fork.
#[derive(Clone, Copy)]
pub(super) struct Orders {
    /// The keeper's end of the channel.
    pub(super) channel: RawFd,
    /// The cores that the service may use.
    pub(super) cores: Option<CoreSet>,
    /// Its limit of open files.
    pub(super) open_files: Option<u64>,
    /// The place to enter unless the service is native: a network namespace's descriptor (Linux) or
    /// a jail's id (FreeBSD).
    pub(super) place: Option<i32>,
    /// The network to join and nothing else, in place of `place`.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "named places are Linux's alone")
    )]
    pub(super) network: Option<i32>,
}

/// Splits the forked process into the keeper and the service; it returns in the service alone.
pub(super) fn split(orders: &Orders) -> io::Result<()> {
    let channel = orders.channel;
    checked(channel, Step::Session, begin_session())?;
    if let Some(files) = orders.open_files {
        checked(
            channel,
            Step::OpenFiles,
            permit_open_files(files as libc::rlim_t),
        )?;
    }
    #[cfg(target_os = "linux")]
    if let Some(network) = orders.network {
        checked(channel, Step::JoinNetwork, system::join_network(network))?;
    }
    let is_init = match orders.place {
        Some(place) => system::enter_as_keeper(place, channel)?,
        None => false,
    };
    checked(channel, Step::Orphans, system::adopt_orphans())?;
    let main = checked(channel, Step::Fork, fork())?;
    if main != 0 {
        keep(channel, main, is_init);
    }
    become_service(orders)
}

/// The last steps before `exec`, in the service's own process.
fn become_service(orders: &Orders) -> io::Result<()> {
    checked(orders.channel, Step::Session, begin_session())?;
    match orders.place {
        Some(place) => system::enter_as_service(place, orders.channel)?,
        // Inside a place, process ids are others.
        None => channel::tell(orders.channel, News::MainStarted(own_pid())),
    }
    if let Some(cores) = &orders.cores {
        checked(orders.channel, Step::Cores, system::run_on(cores))?;
    }
    if let Some(files) = orders.open_files {
        // FreeBSD counts limits in signed numbers; what does not fit is refused as negative.
        let files = files as libc::rlim_t;
        let limit = libc::rlimit {
            rlim_cur: files,
            rlim_max: files,
        };
        // SAFETY: the limit is a whole `rlimit`.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        checked(orders.channel, Step::OpenFiles, result)?;
    }
    Ok(())
}

/// Raises the hard limit if need be: the keeper still may, root inside a place may not any more. The
/// soft limit stays until the service has all the files that it starts with.
fn permit_open_files(files: libc::rlim_t) -> i32 {
    // SAFETY: all-zero is a valid `rlimit`, which the first call fills and the second one reads.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return -1;
        }
        if files <= limit.rlim_max {
            return 0;
        }
        limit.rlim_max = files;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    }
}

/// Turns a system call's result into a `Result`, telling prony which step failed.
fn checked(channel: RawFd, step: Step, result: i32) -> io::Result<i32> {
    if result >= 0 {
        return Ok(result);
    }
    let error = io::Error::last_os_error();
    channel::tell(channel, News::Failed(step));
    Err(error)
}

fn begin_session() -> i32 {
    // SAFETY: no arguments; it only changes this process.
    unsafe { libc::setsid() }
}

fn own_pid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// Makes this process the parent of what descends from it and has lost its parent: the processes of
/// a service whose keeper was killed. False where the system can't.
pub(super) fn adopt_orphans() -> bool {
    system::adopt_orphans() >= 0
}

pub(crate) fn fork() -> i32 {
    // SAFETY: both processes go on with calls that are safe after a fork, see the module's head.
    unsafe { libc::fork() }
}

fn exit(status: i32) -> ! {
    // SAFETY: ends the process without running anything of prony's.
    unsafe { libc::_exit(status) }
}

/// The keeper's life: reap what ends, pass signals on, and end with the last process of the service.
fn keep(channel: RawFd, main: i32, is_init: bool) -> ! {
    system::be_nobody(Some(channel));
    let waiting_mask = block_signals();
    let mut main_runs = true;
    let mut stop_signal = None;
    loop {
        loop {
            let mut status = 0;
            // SAFETY: `status` has room for the wait status.
            let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            match ended {
                0 => break,
                -1 => exit(0),
                pid if pid == main => {
                    main_runs = false;
                    channel::tell(channel, News::MainEnded(status));
                    // What a stopped main process leaves behind (a shell's children) is asked too.
                    if let Some(signal) = stop_signal {
                        system::signal_children(signal);
                    }
                }
                _ => {}
            }
        }
        let mut poll = libc::pollfd {
            fd: channel,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd, no timeout, and a mask that was filled by `block_signals`.
        let ready =
            unsafe { libc::ppoll(&raw mut poll, 1, std::ptr::null(), &raw const waiting_mask) };
        if ready <= 0 {
            continue; // SIGCHLD
        }
        match channel::take_request(channel) {
            Some(Request::Signal(signal)) => {
                stop_signal = Some(signal);
                if main_runs {
                    // SAFETY: takes no pointers; `main` is our child and not yet reaped.
                    unsafe { libc::kill(main, signal) };
                } else {
                    system::signal_children(signal);
                }
            }
            // The end of pid 1 kills everything in its namespace.
            Some(Request::End) if is_init => exit(0),
            Some(Request::End) => kill_all(main),
            None => {}
        }
    }
}

/// Kills layer by layer: the orphans of what was killed become children of this process.
fn kill_all(main: i32) -> ! {
    loop {
        if !system::signal_children(libc::SIGKILL) {
            // A kernel without lists of children: at least the main process's group can be had.
            // SAFETY: takes no pointers.
            unsafe { libc::kill(-main, libc::SIGKILL) };
        }
        let mut status = 0;
        // SAFETY: `status` has room for the wait status.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            exit(0);
        }
    }
}

/// Blocks all signals and yields the mask to wait with, which lets SIGCHLD through.
fn block_signals() -> libc::sigset_t {
    extern "C" fn wake(_signal: libc::c_int) {}
    // SAFETY: all sets and the action are plain data that the calls fill or read; the handler does
    // nothing.
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
