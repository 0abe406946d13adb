//! The keeper: a small process between prony and each service.
//!
//! ```text
//! native:     prony ── keeper ── service ── its workers
//! namespace:  prony ── keeper ─┤ init (pid 1 inside) ── service ── its workers
//! ```
//!
//! A keeper is a fork of prony that stays in prony's code. It adopts the orphans of its
//! service (`PR_SET_CHILD_SUBREAPER`, or as pid 1 of a process namespace). A daemon that forks
//! twice and starts its own session therefore still descends from the keeper. At any time, the
//! service consists of exactly the keeper's descendants. Telemetry counts these processes, and stopping the service kills them.
//!
//! - If prony ends for any reason, its keepers kill their services and end. The keeper of a
//!   container, which may not descend from the keeper, runs a command that removes the container.
//! - If a signal has stopped a keeper, prony continues the keeper before it stops the service.
//! - If a keeper is killed, prony adopts the service's processes and kills them. If prony was
//!   killed too, the sweep at the next start kills them.
//!
//! This code runs between `fork` and `exec` in a process that had several threads, so it must not
//! allocate, lock or panic.

use std::io;
use std::os::fd::RawFd;

mod calls;
mod cleanup;
mod linux;

use super::channel::{self, KeeperCommand, KeeperMessage};
use crate::place::HIERARCHIES_MAX;
use crate::system::fork::{LaunchStep, fork};
use calls::{block_signals, checked, exit};
pub(super) use cleanup::CleanupCommand;
pub(super) use linux::LinuxCoreSet as CoreSet;

/// Parameters of the forked process, which are prepared before the fork.
pub(super) struct KeeperSetup {
    /// The keeper's end of the channel.
    pub(super) channel: RawFd,
    /// Cores that the service may use; `None` means the cores of the calling thread.
    pub(super) cores: Option<CoreSet>,
    /// Limit on open files; `None` leaves the limit unchanged.
    pub(super) open_files: Option<u64>,
    /// Descriptors of the files through which the service joins its control group; -1 stands for
    /// none.
    pub(super) groups: [RawFd; HIERARCHIES_MAX],
    /// Command that the keeper runs before and after it kills the service; `None` for none.
    pub(super) cleanup: Option<CleanupCommand>,
    /// Sandbox to enter: the descriptor of a network namespace.
    pub(super) sandbox: Option<i32>,
    /// Descriptor of a network namespace to join without entering any other namespace. Mutually
    /// exclusive with `sandbox`.
    pub(super) network: Option<i32>,
}

/// Forks again, to split the forked process into the keeper and the service. Returns only in the
/// service.
pub(super) fn split(setup: &KeeperSetup) -> io::Result<()> {
    let channel = setup.channel;
    checked(channel, LaunchStep::Session, begin_session())?;
    if let Some(files) = setup.open_files {
        checked(
            channel,
            LaunchStep::OpenFiles,
            permit_open_files(files as libc::rlim_t),
        )?;
    }
    if let Some(network) = setup.network {
        checked(
            channel,
            LaunchStep::JoinNetwork,
            linux::join_network(network),
        )?;
    }
    let is_init = match setup.sandbox {
        Some(sandbox) => linux::enter_as_keeper(sandbox, channel)?,
        None => false,
    };
    checked(channel, LaunchStep::Orphans, linux::adopt_orphans())?;
    let mut detached = [0; 2];
    // SAFETY: the array has room for two descriptors.
    let piped = unsafe { libc::pipe2(detached.as_mut_ptr(), libc::O_CLOEXEC) };
    checked(channel, LaunchStep::Fork, piped)?;
    let main = checked(channel, LaunchStep::Fork, fork())?;
    if main != 0 {
        keep(channel, main, is_init, setup.cleanup.as_ref());
    }
    wait_for_end(detached);
    become_service(setup)
}

/// Waits until the keeper has closed its end of the pipe. The keeper closes it together with all
/// descriptors inherited from prony, including the one that prony waits for in `spawn`. If the
/// service started before that and stopped its keeper, `spawn` would block.
fn wait_for_end([read, write]: [RawFd; 2]) {
    // SAFETY: both descriptors are open and belong to this function, and the buffer has room for the
    // byte to read.
    unsafe {
        libc::close(write);
        let mut byte = 0_u8;
        while libc::read(read, (&raw mut byte).cast(), 1) < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        libc::close(read);
    }
}

/// Performs the last steps before `exec`, in the service's process.
fn become_service(setup: &KeeperSetup) -> io::Result<()> {
    checked(setup.channel, LaunchStep::Session, begin_session())?;
    // In a sandbox, this process ID differs from the process ID on the host.
    if setup.sandbox.is_none() {
        channel::send(setup.channel, KeeperMessage::MainStarted(own_pid()));
    }
    for group in setup.groups.into_iter().filter(|group| *group >= 0) {
        checked(setup.channel, LaunchStep::Group, join_group(group))?;
    }
    if let Some(cores) = &setup.cores {
        checked(setup.channel, LaunchStep::Cores, linux::run_on(cores))?;
    }
    if let Some(files) = setup.open_files {
        let limit = libc::rlimit {
            rlim_cur: files,
            rlim_max: files,
        };
        // SAFETY: the pointer refers to a complete `rlimit`.
        let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        checked(setup.channel, LaunchStep::OpenFiles, result)?;
    }
    Ok(())
}

/// Moves this process into a control group. The ID 0 stands for the process itself, whatever its ID
/// in a sandbox is.
fn join_group(group: RawFd) -> i32 {
    // SAFETY: the buffer has one byte.
    let written = unsafe { libc::write(group, c"0".as_ptr().cast(), 1) };
    if written == 1 { 0 } else { -1 }
}

/// Raises the hard limit if necessary, because root inside a sandbox is not allowed to raise it
/// later. The soft limit is set after this process has opened its last descriptor.
fn permit_open_files(files: libc::rlim_t) -> i32 {
    // SAFETY: all zeroes is a valid `rlimit`. The first call fills it, and the second one reads it.
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

fn begin_session() -> i32 {
    // SAFETY: the call takes no arguments and changes only this process.
    unsafe { libc::setsid() }
}

fn own_pid() -> i32 {
    // SAFETY: the call takes no arguments and can't fail.
    unsafe { libc::getpid() }
}

/// Makes this process adopt orphans among its descendants, such as the processes of a service whose
/// keeper was killed. Returns false if the system doesn't support this.
pub(super) fn adopt_orphans() -> bool {
    linux::adopt_orphans() >= 0
}

/// Runs the keeper: reaps ended processes, forwards signals, and exits after the service's last
/// process has ended.
fn keep(channel: RawFd, main: i32, is_init: bool, cleanup: Option<&CleanupCommand>) -> ! {
    linux::detach(Some(channel));
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
                    channel::send(channel, KeeperMessage::MainEnded(status));
                    // Forward the signal to processes that outlive the main process, such as the
                    // children of a shell.
                    if let Some(signal) = stop_signal {
                        linux::signal_children(signal);
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
        // SAFETY: the pointers refer to one `pollfd` and to the mask that `block_signals` filled. A
        // null timeout waits indefinitely.
        let ready =
            unsafe { libc::ppoll(&raw mut poll, 1, std::ptr::null(), &raw const waiting_mask) };
        if ready <= 0 {
            continue; // SIGCHLD
        }
        match channel::take_command(channel) {
            Some(KeeperCommand::Signal(signal)) => {
                stop_signal = Some(signal);
                if main_runs {
                    // SAFETY: the call takes no pointers; `main` is a child that has not been
                    // reaped.
                    unsafe { libc::kill(main, signal) };
                } else {
                    linux::signal_children(signal);
                }
            }
            // When pid 1 ends, the kernel kills all processes in its namespace.
            Some(KeeperCommand::End) if is_init => exit(0),
            Some(KeeperCommand::End) => {
                // The processes that manage a container help to remove it. What was not finished when
                // they were killed is removed afterwards.
                if let Some(cleanup) = cleanup {
                    cleanup.run();
                }
                kill_all(main);
                if let Some(cleanup) = cleanup {
                    cleanup.run();
                }
                exit(0)
            }
            None => {}
        }
    }
}

/// Kills all descendants, one generation at a time: when a process is killed, its children become
/// children of this process.
fn kill_all(main: i32) {
    loop {
        if !linux::signal_children(libc::SIGKILL) {
            // This kernel doesn't list children, so kill at least the process group of the main
            // process. SAFETY: the call takes no pointers.
            unsafe { libc::kill(-main, libc::SIGKILL) };
        }
        let mut status = 0;
        // SAFETY: `status` has room for the wait status.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, 0) };
        if ended < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}
