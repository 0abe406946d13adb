//! Processes as a host lists them, and the trees that they form.

use std::collections::BTreeMap;

/// One process at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Process {
    /// Its id, as seen by prony.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in the system's own unit; with `pid` it names the process for good.
    pub start: u64,
    /// The short name that the system keeps.
    pub name: String,
    /// Whether it has ended and only waits for its parent to notice.
    pub zombie: bool,
    /// CPU seconds of its own in user mode.
    pub user_s: f64,
    /// CPU seconds of its own in the kernel.
    pub system_s: f64,
    /// CPU seconds in user mode of its children that ended and were waited for.
    pub reaped_user_s: f64,
    /// The same in the kernel.
    pub reaped_system_s: f64,
    /// Threads.
    pub threads: u64,
    /// The core that its main thread ran on last, where the list of processes has it.
    pub core: Option<usize>,
    /// Resident memory, bytes, shared pages included.
    pub resident_bytes: u64,
    /// Voluntary and involuntary context switches of all its threads, where the list of processes has
    /// them (not on Linux).
    pub context_switches: Option<(u64, u64)>,
}

/// All processes of a machine, with the way from parents to children.
#[derive(Debug, Default)]
pub struct Table {
    by_pid: BTreeMap<i32, Process>,
    children: BTreeMap<i32, Vec<i32>>,
}

impl Table {
    /// The process of that id.
    #[must_use]
    pub fn get(&self, pid: i32) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    /// All processes in order of their ids.
    pub fn all(&self) -> impl Iterator<Item = &Process> {
        self.by_pid.values()
    }

    /// The direct children of a process.
    pub fn children(&self, pid: i32) -> impl Iterator<Item = &Process> {
        self.children
            .get(&pid)
            .into_iter()
            .flatten()
            .filter_map(|pid| self.by_pid.get(pid))
    }

    /// Whatever descends from a process, itself not included, parents before children.
    #[must_use]
    pub fn descendants(&self, root: i32) -> Vec<&Process> {
        let mut found: Vec<&Process> = self.children(root).collect();
        let mut next = 0;
        while let Some(process) = found.get(next) {
            next += 1;
            // A table is not read at one moment, so ids could form a ring; none is followed.
            if found.len() > self.by_pid.len() {
                break;
            }
            found.extend(self.children(process.pid).filter(|child| child.pid != root));
        }
        found
    }
}

impl FromIterator<Process> for Table {
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
        let table: Table = [
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
    fn a_ring_ends() {
        let table: Table = [process(2, 3), process(3, 2), process(4, 3)]
            .into_iter()
            .collect();
        assert!(table.descendants(2).len() <= 4);
    }
}
