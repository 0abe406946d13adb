//! CPU time that foreign processes use between samples. A foreign process is neither prony nor a
//! service.

use std::collections::{HashMap, HashSet};

use crate::system::process::{Process, ProcessTable};
use crate::telemetry::ForeignProcess;

/// Maximum number of foreign processes in a sample.
const NAMED_PROCESSES_MAX: usize = 8;
/// Minimum CPU seconds that a listed process used between two samples.
const NAMED_CPU_S_MIN: f64 = 0.005;

/// Process ID and start time, which are unique together.
type ProcessKey = (i32, u64);

/// CPU time of each foreign process at the last sample.
#[derive(Debug, Default)]
pub(crate) struct ForeignTracker {
    /// CPU times by process; `None` before the first sample.
    last: Option<HashMap<ProcessKey, LastSeen>>,
}

/// CPU time of a process at the last sample.
#[derive(Debug, Clone, Copy)]
struct LastSeen {
    own_s: f64,
    reaped_s: f64,
    parent: i32,
}

impl ForeignTracker {
    /// Returns the foreign processes that used the most CPU time since the last call, in descending
    /// order. `known` lists the processes of prony and its services.
    ///
    /// All CPU time of a new process counts. When a process ends, the kernel adds its CPU time to
    /// that of its parent. The part of this time that was already counted is subtracted.
    pub(crate) fn busiest(&mut self, table: &ProcessTable, known: &[i32]) -> Vec<ForeignProcess> {
        let known: HashSet<i32> = known.iter().copied().collect();
        let foreign: Vec<&Process> = table
            .all()
            .filter(|process| !known.contains(&process.pid))
            .collect();
        let now: HashMap<ProcessKey, LastSeen> = foreign
            .iter()
            .map(|process| (key(process), LastSeen::of(process)))
            .collect();
        let Some(last) = self.last.replace(now) else {
            return Vec::new();
        };
        let living: HashSet<ProcessKey> = foreign.iter().map(|process| key(process)).collect();
        let mut counted_of_ended: HashMap<i32, f64> = HashMap::new();
        for (_, ended) in last.iter().filter(|(key, _)| !living.contains(key)) {
            *counted_of_ended.entry(ended.parent).or_default() += ended.own_s + ended.reaped_s;
        }
        let mut busiest: Vec<ForeignProcess> = foreign
            .iter()
            .map(|process| {
                let before = last.get(&key(process)).copied();
                let (own_s, reaped_s) = before.map_or((0.0, 0.0), |it| (it.own_s, it.reaped_s));
                let now = LastSeen::of(process);
                let of_ended_s = counted_of_ended.get(&process.pid).copied().unwrap_or(0.0);
                let cpu_s = now.own_s - own_s + (now.reaped_s - reaped_s - of_ended_s).max(0.0);
                ForeignProcess {
                    pid: process.pid,
                    name: process.name.clone(),
                    cpu_s,
                    core: process.core,
                }
            })
            .filter(|process| process.cpu_s >= NAMED_CPU_S_MIN)
            .collect();
        busiest.sort_by(|a, b| b.cpu_s.total_cmp(&a.cpu_s));
        busiest.truncate(NAMED_PROCESSES_MAX);
        busiest
    }
}

impl LastSeen {
    fn of(process: &Process) -> Self {
        Self {
            own_s: process.user_s + process.system_s,
            reaped_s: process.reaped_user_s + process.reaped_system_s,
            parent: process.parent,
        }
    }
}

fn key(process: &Process) -> ProcessKey {
    (process.pid, process.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, user_s: f64, reaped_user_s: f64) -> Process {
        Process {
            pid,
            parent,
            user_s,
            reaped_user_s,
            core: Some(1),
            name: format!("p{pid}"),
            ..Process::default()
        }
    }

    fn busiest(tracker: &mut ForeignTracker, processes: Vec<Process>) -> Vec<(i32, f64)> {
        let table: ProcessTable = processes.into_iter().collect();
        let all = tracker.busiest(&table, &[7]);
        let rounded = |it: &ForeignProcess| (it.pid, (it.cpu_s * 100.0).round() / 100.0);
        all.iter().map(rounded).collect()
    }

    #[test]
    fn time_before_the_first_sample_does_not_count() {
        let mut tracker = ForeignTracker::default();
        assert_eq!(
            busiest(&mut tracker, vec![process(5, 1, 900.0, 0.0)]),
            Vec::new()
        );
        let second = vec![process(5, 1, 900.2, 0.0), process(6, 1, 0.7, 0.0)];
        assert_eq!(
            busiest(&mut tracker, second),
            [(6, 0.7), (5, 0.2)],
            "all CPU time of a process that started after the first sample counts"
        );
    }

    #[test]
    fn known_processes_are_not_foreign() {
        let mut tracker = ForeignTracker::default();
        busiest(&mut tracker, vec![process(7, 1, 1.0, 0.0)]);
        assert_eq!(
            busiest(&mut tracker, vec![process(7, 1, 2.0, 0.0)]),
            Vec::new()
        );
    }

    #[test]
    fn time_of_an_ended_child_counts_once() {
        let mut tracker = ForeignTracker::default();
        busiest(&mut tracker, vec![process(5, 1, 1.0, 0.0)]);
        let with_child = vec![process(5, 1, 1.0, 0.0), process(6, 5, 3.0, 0.0)];
        assert_eq!(busiest(&mut tracker, with_child), [(6, 3.0)]);
        // The child used another 0.5 s and ended. The kernel added its whole CPU time to that of
        // its parent.
        let ended = vec![process(5, 1, 1.0, 3.5)];
        assert_eq!(busiest(&mut tracker, ended), [(5, 0.5)]);
    }
}
