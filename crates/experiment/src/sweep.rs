//! Removes what killed runs left behind, at the next start.
//!
//! Keepers already end the processes of a prony that died, and the kernel already removes links
//! whose namespace is gone, so mostly names and files are left; but a keeper can be killed, too.
//! What a living run made is never touched (it holds a lock on its folder), nor is anything of
//! strangers: a process must have the recorded id and start time, or be below one that has, or live
//! in a namespace of the dead run.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::KEEPER_NAME;
use crate::host::process::{Process, Table};
use crate::host::state::{self, DeadRun, Made};
use crate::host::{HostError, system};
use crate::place;

/// How long the kernel may take to end what was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// Something that a dead run had left and that is gone now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removed {
    /// A process, by its id and name.
    Process(i32, String),
    /// A network namespace.
    Namespace(String),
    /// The host's end of a veth pair.
    Link(String),
    /// A jail.
    Jail(String),
    /// An address of the loopback interface.
    Address(Ipv4Addr),
    /// A run's folder with its files and sockets.
    Folder(PathBuf),
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid, name) => write!(f, "process {pid} ({name})"),
            Self::Namespace(name) => write!(f, "network namespace {name}"),
            Self::Link(name) => write!(f, "network link {name}"),
            Self::Jail(name) => write!(f, "jail {name}"),
            Self::Address(address) => write!(f, "address {address}"),
            Self::Folder(path) => write!(f, "folder {}", path.display()),
        }
    }
}

/// What a sweep did.
#[derive(Debug, Default)]
pub struct Swept {
    /// What was removed, in that order.
    pub removed: Vec<Removed>,
    /// What could not be removed; the next sweep tries again.
    pub failures: Vec<HostError>,
}

/// Sweeps the usual state folder.
///
/// # Errors
/// [`HostError::File`] if it can't be had.
pub fn sweep() -> Result<Swept, HostError> {
    sweep_in(&state::base()?)
}

/// Sweeps the state folder `base`.
///
/// # Errors
/// [`HostError::File`] if it can't be read.
pub fn sweep_in(base: &Path) -> Result<Swept, HostError> {
    let (_held, dead) = state::dead_runs(base)?;
    let mut swept = Swept::default();
    for run in dead {
        sweep_run(&run, &mut swept);
    }
    Ok(swept)
}

fn sweep_run(run: &DeadRun, swept: &mut Swept) {
    let failures_before = swept.failures.len();
    // After a reboot only files can be left, and ids and names may be strangers' by now.
    if run
        .made
        .iter()
        .any(|made| matches!(made, Made::Boot { id } if *id == system::boot_id()))
    {
        sweep_processes(run, swept);
        for made in run.made.iter().rev() {
            match place::remove(made) {
                Ok(removed) => swept.removed.extend(removed),
                Err(error) => swept.failures.push(error),
            }
        }
    }
    if swept.failures.len() == failures_before {
        match state::remove_folder(&run.folder) {
            Ok(()) => swept.removed.push(Removed::Folder(run.folder.clone())),
            Err(error) => swept.failures.push(error),
        }
    }
}

fn sweep_processes(run: &DeadRun, swept: &mut Swept) {
    let mut processes = Vec::new();
    for made in &run.made {
        if let Made::Process { pid, start } = made {
            processes.push((*pid, *start));
        }
        let inside = place::processes_in(made).into_iter();
        processes.extend(inside.filter_map(|pid| Some((pid, system::start_of(pid)?))));
    }
    let killed = kill_processes(&processes, KILL_PATIENCE);
    let gone = killed.gone.into_iter();
    swept
        .removed
        .extend(gone.map(|(pid, name)| Removed::Process(pid, name)));
    if !killed.left.is_empty() {
        swept.failures.push(HostError::Survived {
            service: run.folder.display().to_string(),
            pids: killed.left,
        });
    }
}

/// What became of processes that were to be killed.
pub(crate) struct Killed {
    /// Those that are gone.
    pub(crate) gone: Vec<(i32, String)>,
    /// Those that live on.
    pub(crate) left: Vec<i32>,
}

/// Kills the recorded processes (id and start time) that still live, whatever descends from
/// them and whatever shares a session with them, again until nothing of it is left.
pub(crate) fn kill_processes(recorded: &[(i32, u64)], patience: Duration) -> Killed {
    let began = Instant::now();
    let mut seen: BTreeMap<(i32, u64), String> = BTreeMap::new();
    loop {
        let table = system::processes();
        let living: Vec<_> = seen.keys().chain(recorded).copied().collect();
        let living = theirs(&table, &living);
        for process in &living {
            seen.entry((process.pid, process.start))
                .or_insert_with(|| process.name.clone());
            if let Some(pid) = rustix::process::Pid::from_raw(process.pid) {
                // It may have ended meanwhile; then there is nothing to do.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if living.is_empty() || began.elapsed() > patience {
            let left: Vec<i32> = living.iter().map(|process| process.pid).collect();
            let gone = seen
                .into_iter()
                .map(|((pid, _), name)| (pid, name))
                .filter(|(pid, _)| !left.contains(pid));
            return Killed {
                gone: gone.collect(),
                left,
            };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills the recorded processes with all that belongs to them, and the strays: processes of services
/// that this process adopted because their keeper was killed. `keepers` are those of services that
/// run. Yields what lives on.
pub(crate) fn kill_with_strays(
    mut recorded: Vec<(i32, u64)>,
    keepers: &[i32],
    patience: Duration,
) -> Vec<i32> {
    let began = Instant::now();
    loop {
        let strays = strays(&system::processes(), keepers);
        recorded.extend(&strays);
        let killed = kill_processes(&recorded, patience);
        for (pid, _) in &killed.gone {
            reap(*pid);
        }
        let is_over = strays.is_empty() || began.elapsed() > patience;
        if is_over || !killed.left.is_empty() {
            return killed.left;
        }
    }
}

/// The children of this process that live in a session of their own and are no keepers. Commands
/// that this process runs itself share its session.
fn strays(table: &Table, keepers: &[i32]) -> Vec<(i32, u64)> {
    let own = std::process::id().cast_signed();
    let own_session = table.get(own).map(|process| process.session);
    let is_stray = |process: &&Process| {
        !process.zombie
            && Some(process.session) != own_session
            && process.name != KEEPER_NAME
            && !keepers.contains(&process.pid)
    };
    let strays = table.children(own).filter(is_stray);
    strays.map(|process| (process.pid, process.start)).collect()
}

/// Waits for a process that has ended, if it is a child of this one.
fn reap(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // Another's child is not ours to wait for.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
    }
}

/// The living processes that belong to those recorded. Zombies are as good as gone. A session is
/// theirs if a recorded process that lives leads it or is in it; never that of this process.
fn theirs<'a>(table: &'a Table, recorded: &[(i32, u64)]) -> Vec<&'a Process> {
    let own = std::process::id().cast_signed();
    let own_session = table.get(own).map(|process| process.session);
    let verified: Vec<_> = recorded
        .iter()
        .filter_map(|(pid, start)| table.get(*pid).filter(|process| process.start == *start))
        .collect();
    let in_session = |process: &Process| {
        Some(process.session) != own_session
            && verified
                .iter()
                .any(|theirs| theirs.session == process.session)
    };
    let below: Vec<i32> = verified
        .iter()
        .flat_map(|process| table.descendants(process.pid))
        .chain(verified.iter().copied())
        .map(|process| process.pid)
        .collect();
    table
        .all()
        .filter(|process| !process.zombie && process.pid != own && process.pid != 1)
        .filter(|process| below.contains(&process.pid) || in_session(process))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, session: i32, start: u64) -> Process {
        Process {
            pid,
            parent,
            session,
            start,
            ..Process::default()
        }
    }

    #[test]
    fn a_reused_id_is_a_stranger() {
        const A: i32 = 1_000_000_001;
        let table: Table = [
            process(A, 1, A, 50),
            process(A + 1, A, A, 60),
            process(A + 2, 1, A + 2, 70),
        ]
        .into_iter()
        .collect();
        assert!(theirs(&table, &[(A, 49)]).is_empty());
        let pids = |recorded: &[(i32, u64)]| {
            theirs(&table, recorded)
                .iter()
                .map(|p| p.pid)
                .collect::<Vec<_>>()
        };
        assert_eq!(pids(&[(A, 50)]), [A, A + 1], "its child goes with it");
        assert_eq!(pids(&[(A + 1, 60)]), [A, A + 1], "its session goes with it");
    }
}
