//! Processes of a machine, and their tree.

use std::collections::BTreeMap;
use std::fmt;

/// Properties of a process at the time when the process table was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Process {
    /// Process ID.
    pub pid: i32,
    /// Process ID of the parent.
    pub parent: i32,
    /// Session ID.
    pub session: i32,
    /// Start time in a unit that depends on the operating system. Unique together with `pid`.
    pub start: u64,
    /// Process name, as the kernel reports it.
    pub name: String,
    /// True if the process has ended but has not been reaped by its parent.
    pub zombie: bool,
    /// CPU seconds of the process in user mode, without its children.
    pub user_s: f64,
    /// CPU seconds of the process in kernel mode, without its children.
    pub system_s: f64,
    /// CPU seconds of reaped children in user mode.
    pub reaped_user_s: f64,
    /// CPU seconds of reaped children in kernel mode.
    pub reaped_system_s: f64,
    /// Number of threads.
    pub threads: u64,
    /// Core on which the main thread last ran, if known.
    pub core: Option<usize>,
    /// Resident memory in bytes, including shared pages.
    pub resident_bytes: u64,
    /// Voluntary and involuntary context switches of all threads; `None` on Linux, which counts
    /// them per thread.
    pub context_switches: Option<(u64, u64)>,
}

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    /// Process ID.
    pub pid: i32,
    /// Process name, as the kernel reports it.
    pub name: String,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// All processes of a machine, indexed by ID and by parent.
#[derive(Debug, Default)]
pub struct ProcessTable {
    by_pid: BTreeMap<i32, Process>,
    children: BTreeMap<i32, Vec<i32>>,
}

impl ProcessTable {
    /// Returns the process with the given ID.
    #[must_use]
    pub fn get(&self, pid: i32) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    /// Iterates over all processes, ordered by ID.
    pub fn all(&self) -> impl Iterator<Item = &Process> {
        self.by_pid.values()
    }

    /// Iterates over the direct children of a process.
    pub fn children(&self, pid: i32) -> impl Iterator<Item = &Process> {
        self.children
            .get(&pid)
            .into_iter()
            .flatten()
            .filter_map(|pid| self.by_pid.get(pid))
    }

    /// Returns all descendants of a process. Parents precede their children.
    #[must_use]
    pub fn descendants(&self, root: i32) -> Vec<&Process> {
        let mut found: Vec<&Process> = self.children(root).collect();
        let mut next = 0;
        while let Some(process) = found.get(next) {
            next += 1;
            // The process table isn't read atomically, so reused IDs could form a cycle.
            if found.len() > self.by_pid.len() {
                break;
            }
            found.extend(self.children(process.pid).filter(|child| child.pid != root));
        }
        found
    }
}

impl FromIterator<Process> for ProcessTable {
    fn from_iter<T: IntoIterator<Item = Process>>(processes: T) -> Self {
        let mut table = Self::default();
        for process in processes {
            table
                .children
                .entry(process.parent)
                .or_default()
                .push(process.pid);
            table.by_pid.insert(process.pid, process);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process {
            pid,
            parent,
            ..Process::default()
        }
    }

    #[test]
    fn descendants_are_all_below_and_nothing_else() {
        let table: ProcessTable = [
            process(1, 0),
            process(5, 1),
            process(6, 5),
            process(7, 6),
            process(8, 1),
            process(9, 5),
        ]
        .into_iter()
        .collect();
        let pids: Vec<i32> = table
            .descendants(5)
            .iter()
            .map(|process| process.pid)
            .collect();
        assert_eq!(pids, [6, 9, 7]);
        assert!(table.descendants(8).is_empty());
        assert!(table.descendants(77).is_empty());
    }

    #[test]
    fn a_ring_of_ids_terminates() {
        let table: ProcessTable = [process(2, 3), process(3, 2), process(4, 3)]
            .into_iter()
            .collect();
        assert!(table.descendants(2).len() <= 4);
    }
}
