//! Removes the resources that killed runs left behind. This happens the next time prony starts.
//!
//! If prony is killed, the keepers end its services, and the kernel removes links whose namespace
//! is gone. Usually, only names of namespaces and files are left, but a keeper can be killed too.
//!
//! Live runs hold a lock on their folder, and their resources are never touched. A process is
//! killed only if it has the recorded ID and start time, descends from such a process, shares the
//! session of one, or is in a namespace of the killed run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::place;
use crate::run_state::{self, CreatedResource, DeadRun};
use crate::system::fork::KEEPER_NAME;
use crate::system::process::{Process, ProcessTable};
use crate::system::{self, HostError};

/// Time limit for killed processes to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

pub use crate::run_state::RemovedResource;

/// Result of a sweep.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// Resources that were removed, in the order of their removal.
    pub removed: Vec<RemovedResource>,
    /// Errors for leftovers that could not be removed. The next sweep tries again.
    pub failures: Vec<HostError>,
}

/// Sweeps the default state folder.
///
/// # Errors
/// [`HostError::File`] if the folder can't be used.
pub fn sweep() -> Result<SweepReport, HostError> {
    sweep_in(&run_state::base()?)
}

/// Sweeps the state folder `base`.
///
/// # Errors
/// [`HostError::File`] if the folder can't be read.
pub fn sweep_in(base: &Path) -> Result<SweepReport, HostError> {
    let (_held, dead) = run_state::dead_runs(base)?;
    let mut swept = SweepReport::default();
    for run in dead {
        sweep_run(&run, &mut swept);
    }
    Ok(swept)
}

fn sweep_run(run: &DeadRun, swept: &mut SweepReport) {
    let failures_before = swept.failures.len();
    // After a reboot, only files can be left. The recorded IDs and names may now belong to other
    // processes and resources.
    if run
        .made
        .iter()
        .any(|made| matches!(made, CreatedResource::Boot { id } if *id == system::boot_id()))
    {
        // The processes that manage a container help to remove it. What they leave is removed below.
        for made in &run.made {
            if matches!(made, CreatedResource::Container { .. }) {
                swept.removed.extend(place::remove(made).ok().flatten());
            }
        }
        sweep_processes(run, swept);
        for made in run.made.iter().rev() {
            match place::remove(made) {
                Ok(removed) => swept.removed.extend(removed),
                Err(error) => swept.failures.push(error),
            }
        }
    }
    if swept.failures.len() == failures_before {
        match run_state::remove_folder(&run.folder) {
            Ok(()) => swept
                .removed
                .push(RemovedResource::Folder(run.folder.clone())),
            Err(error) => swept.failures.push(error),
        }
    }
}

fn sweep_processes(run: &DeadRun, swept: &mut SweepReport) {
    let mut processes = Vec::new();
    for made in &run.made {
        if let CreatedResource::Process { pid, start } = made {
            processes.push((*pid, *start));
        }
        let inside = place::processes_in(made).into_iter();
        processes.extend(inside.filter_map(|pid| Some((pid, system::start_of(pid)?))));
    }
    let killed = kill_processes(&processes, KILL_TIMEOUT);
    let gone = killed.gone.into_iter();
    swept
        .removed
        .extend(gone.map(|(pid, name)| RemovedResource::Process(pid, name)));
    if !killed.left.is_empty() {
        swept.failures.push(HostError::Survived {
            service: run.folder.display().to_string(),
            pids: killed.left,
        });
    }
}

/// Result of [`kill_processes`].
pub(crate) struct KillReport {
    /// Killed processes, by ID and name.
    pub(crate) gone: Vec<(i32, String)>,
    /// IDs of processes that did not end.
    pub(crate) left: Vec<i32>,
}

/// Kills the recorded processes (by ID and start time), their descendants, and all processes in
/// their sessions. Repeats until none is left or the timeout is reached.
pub(crate) fn kill_processes(recorded: &[(i32, u64)], timeout: Duration) -> KillReport {
    let began = Instant::now();
    let mut seen: BTreeMap<(i32, u64), String> = BTreeMap::new();
    loop {
        let table = system::processes();
        let living: Vec<_> = seen.keys().chain(recorded).copied().collect();
        let living = related_processes(&table, &living);
        for process in &living {
            seen.entry((process.pid, process.start))
                .or_insert_with(|| process.name.clone());
            if let Some(pid) = rustix::process::Pid::from_raw(process.pid) {
                // An error means that the process has ended in the meantime.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        if living.is_empty() || began.elapsed() > timeout {
            let left: Vec<i32> = living.iter().map(|process| process.pid).collect();
            let gone = seen
                .into_iter()
                .map(|((pid, _), name)| (pid, name))
                .filter(|(pid, _)| !left.contains(pid));
            return KillReport {
                gone: gone.collect(),
                left,
            };
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills the recorded processes like [`kill_processes`]. Also kills strays: processes of services
/// that this process adopted because their keeper was killed. `keepers` lists the keepers of
/// running services. Returns the IDs of processes that did not end.
pub(crate) fn kill_with_strays(
    mut recorded: Vec<(i32, u64)>,
    keepers: &[i32],
    timeout: Duration,
) -> Vec<i32> {
    let began = Instant::now();
    loop {
        let strays = strays(&system::processes(), keepers);
        recorded.extend(&strays);
        let killed = kill_processes(&recorded, timeout);
        for (pid, _) in &killed.gone {
            reap(*pid);
        }
        let is_over = strays.is_empty() || began.elapsed() > timeout;
        if is_over || !killed.left.is_empty() {
            return killed.left;
        }
    }
}

/// Returns the children of this process that are in another session and are not keepers. Commands
/// that this process runs share its session.
fn strays(table: &ProcessTable, keepers: &[i32]) -> Vec<(i32, u64)> {
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

/// Reaps a process that has ended, if it is a child of this process.
fn reap(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // An error means that the process is not a child of this process.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
    }
}

/// Returns the live processes that are related to the recorded ones: the recorded processes, their
/// descendants, and all processes in their sessions. The session of this process is ignored, as are
/// zombies.
fn related_processes<'a>(table: &'a ProcessTable, recorded: &[(i32, u64)]) -> Vec<&'a Process> {
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
                .any(|related| related.session == process.session)
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
        let table: ProcessTable = [
            process(A, 1, A, 50),
            process(A + 1, A, A, 60),
            process(A + 2, 1, A + 2, 70),
        ]
        .into_iter()
        .collect();
        assert!(related_processes(&table, &[(A, 49)]).is_empty());
        let pids = |recorded: &[(i32, u64)]| {
            related_processes(&table, recorded)
                .iter()
                .map(|p| p.pid)
                .collect::<Vec<_>>()
        };
        assert_eq!(pids(&[(A, 50)]), [A, A + 1], "its child is killed too");
        assert_eq!(
            pids(&[(A + 1, 60)]),
            [A, A + 1],
            "its session is killed too"
        );
    }
}
