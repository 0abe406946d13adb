//! Resource usage of a service. It is accumulated over samples, because the kernel discards the
//! counters of ended threads.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use prony_load::{CpuQuotas, QuotaCounters};
use prony_record::{MemoryEvents, Throttling};

use super::follow::FollowedProcesses;
use super::proc_dir;
use crate::system::group_usage::MemoryGroup;
use crate::system::proc_files;
use crate::system::process::Process;
use crate::telemetry::{MemoryKind, ServiceSample};

/// Minimum ratio of the interval between memory readings to the duration of one reading. For a
/// reading, the kernel walks the page tables, which can take milliseconds for a large process.
const MEMORY_INTERVAL_RATIO: u32 = 200;

/// Accumulated resource usage of a service.
#[derive(Debug, Default)]
pub(super) struct ServiceHistory {
    threads: HashMap<i32, ThreadCounters>,
    /// Time in nanoseconds that ended threads have spent on a core, by process.
    ended_run_ns: HashMap<(i32, u64), u64>,
    /// Time in nanoseconds that live threads have spent on a core, by process.
    run_ns: HashMap<(i32, u64), u64>,
    voluntary: u64,
    involuntary: u64,
    cpu_s: f64,
    memory: (u64, MemoryKind),
    next_memory: Option<Instant>,
    /// Quotas of the service, and their counters at the first sample.
    quotas: Option<(CpuQuotas, QuotaCounters)>,
    /// Group whose memory limit applies to the service, and its events at the first sample; `None`
    /// inside if there is no limit.
    memory_limit: Option<Option<(MemoryGroup, MemoryEvents)>>,
    text: Vec<u8>,
    path: String,
}

/// Counters of a thread at the time of the last sample.
#[derive(Debug, Clone, Copy)]
struct ThreadCounters {
    process: (i32, u64),
    voluntary: u64,
    involuntary: u64,
    run_ns: u64,
}

impl ServiceHistory {
    /// Returns how often the quotas of the service's first process have stopped it since the first
    /// call.
    pub(super) fn throttling(&mut self, members: &[&Process]) -> Option<Throttling> {
        let first = members.first()?;
        let (quotas, before) = self.quotas.get_or_insert_with(|| {
            let quotas = CpuQuotas::of_process(&first.pid.to_string());
            let counters = quotas.counters();
            (quotas, counters)
        });
        quotas.counters().since(before)
    }

    /// Returns how often the service reached its memory limit since the first call.
    pub(super) fn memory_events(&mut self, members: &[&Process]) -> Option<MemoryEvents> {
        let first = members.first();
        if self.memory_limit.is_none() {
            let limit = MemoryGroup::of_process(first?.pid);
            self.memory_limit = Some(limit.and_then(|group| {
                let events = group.events()?;
                Some((group, events))
            }));
        }
        let (group, before) = self.memory_limit.as_ref()?.as_ref()?;
        Some(group.events()?.since(before))
    }

    /// Reads the counters of every thread from two small files in the thread's folder in /proc.
    pub(super) fn read_threads(&mut self, members: &[&Process]) {
        let mut before = std::mem::take(&mut self.threads);
        self.run_ns.clear();
        for process in members {
            let key = (process.pid, process.start);
            if process.threads == 1 {
                self.read_thread(key, process.pid, &mut before);
                continue;
            }
            let Ok(threads) = std::fs::read_dir(proc_dir(process.pid).join("task")) else {
                continue;
            };
            let ids = threads.flatten().filter_map(|thread| {
                let name = thread.file_name();
                name.to_str().and_then(|name| name.parse::<i32>().ok())
            });
            for id in ids {
                self.read_thread(key, id, &mut before);
            }
        }
        for ended in before.into_values() {
            *self.ended_run_ns.entry(ended.process).or_default() += ended.run_ns;
        }
        let living: std::collections::HashSet<_> = members
            .iter()
            .map(|process| (process.pid, process.start))
            .collect();
        self.ended_run_ns
            .retain(|process, _| living.contains(process));
    }

    fn read_thread(
        &mut self,
        process: (i32, u64),
        id: i32,
        before: &mut HashMap<i32, ThreadCounters>,
    ) {
        let Some(status) = self.thread_file(process.0, id, "status") else {
            return;
        };
        let (voluntary, involuntary) = proc_files::switches(status);
        let run_ns = self
            .thread_file(process.0, id, "schedstat")
            .and_then(proc_files::run_ns)
            .unwrap_or(0);
        let now = ThreadCounters {
            process,
            voluntary,
            involuntary,
            run_ns,
        };
        // The thread ID may have been reused by another thread.
        let same = |then: &ThreadCounters| {
            then.process == process && then.run_ns <= run_ns && then.voluntary <= voluntary
        };
        let then = match before.get(&id).copied() {
            Some(then) if same(&then) => before.remove(&id),
            _ => None,
        };
        let (then_voluntary, then_involuntary) =
            then.map_or((0, 0), |then| (then.voluntary, then.involuntary));
        self.voluntary += voluntary - then_voluntary;
        self.involuntary += involuntary.saturating_sub(then_involuntary);
        *self.run_ns.entry(process).or_default() += run_ns;
        self.threads.insert(id, now);
    }

    /// Reads a thread's file into a reused buffer.
    fn thread_file(&mut self, pid: i32, id: i32, name: &str) -> Option<&str> {
        self.path.clear();
        write!(self.path, "/proc/{pid}/task/{id}/{name}").ok()?;
        self.text.clear();
        File::open(&self.path)
            .ok()?
            .read_to_end(&mut self.text)
            .ok()?;
        std::str::from_utf8(&self.text).ok()
    }

    /// Returns the total numbers of voluntary and involuntary context switches.
    pub(super) fn switches(&self) -> (u64, u64) {
        (self.voluntary, self.involuntary)
    }

    /// Adds up the CPU time of the given processes, including their reaped children.
    ///
    /// The kernel reports CPU time in ticks and in nanoseconds. Both are lower bounds, so the
    /// larger value is used. Ticks miss up to one tick per process and mode. Nanoseconds miss the
    /// time between a thread's last sample and its end.
    pub(super) fn cpu<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process>,
        followed: &FollowedProcesses<'_>,
        sample: &mut ServiceSample,
    ) {
        let mut cpu_s = 0.0;
        for process in processes.filter(|process| !followed.is_counted(process.pid)) {
            let key = (process.pid, process.start);
            let run_ns = self.run_ns.get(&key).copied().unwrap_or(0)
                + self.ended_run_ns.get(&key).copied().unwrap_or(0);
            let ticks_s = process.user_s + process.system_s;
            cpu_s += ticks_s.max(run_ns as f64 / 1e9);
            cpu_s += process.reaped_user_s + process.reaped_system_s;
            sample.cpu_user_s += process.user_s + process.reaped_user_s;
            sample.cpu_system_s += process.system_s + process.reaped_system_s;
        }
        if let Some((all_s, user_s, system_s)) = followed.group_cpu_s {
            cpu_s += all_s;
            sample.cpu_user_s += user_s;
            sample.cpu_system_s += system_s;
        }
        // The total must not decrease when the time of an ended process, rounded down to ticks,
        // moves to its parent.
        self.cpu_s = self.cpu_s.max(cpu_s);
        sample.cpu_s = self.cpu_s;
    }

    pub(super) fn memory_bytes(&mut self, members: &[&Process]) -> (u64, MemoryKind) {
        let began = Instant::now();
        if self.next_memory.is_some_and(|next| began < next) {
            return self.memory;
        }
        let proportional: Option<u64> = members
            .iter()
            .map(|process| proportional_bytes(process.pid))
            .sum();
        self.memory = match proportional {
            Some(bytes) => (bytes, MemoryKind::Proportional),
            None => (
                members.iter().map(|process| process.resident_bytes).sum(),
                MemoryKind::Resident,
            ),
        };
        let cost: Duration = began.elapsed();
        self.next_memory = Some(began + cost * MEMORY_INTERVAL_RATIO);
        self.memory
    }
}

/// Returns the proportional set size of a process in bytes; 0 if the process has just ended.
/// Returns `None` if the kernel doesn't report it or this user lacks the permission.
fn proportional_bytes(pid: i32) -> Option<u64> {
    let path = proc_dir(pid);
    match std::fs::read_to_string(path.join("smaps_rollup")) {
        Ok(text) => proc_files::proportional_bytes(&text),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) || !path.exists() => Some(0),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Process {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        proc_files::process(&text, 4096).unwrap()
    }

    #[test]
    fn this_process_has_memory() {
        assert!(proportional_bytes(std::process::id().cast_signed()).unwrap() > 100_000);
    }

    #[test]
    fn a_process_that_is_gone_has_no_memory() {
        assert_eq!(proportional_bytes(i32::MAX), Some(0));
    }

    #[test]
    fn a_thread_that_ended_keeps_its_time_and_its_switches() {
        let mut history = ServiceHistory::default();
        let (to, from) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(30) {
                std::hint::spin_loop();
            }
            let _ = from.recv();
        });
        std::thread::sleep(Duration::from_millis(60));
        let process = own();
        let cpu = |history: &mut ServiceHistory, process: &Process| {
            let mut sample = ServiceSample::default();
            history.read_threads(&[process]);
            history.cpu(
                [process].into_iter(),
                &FollowedProcesses::default(),
                &mut sample,
            );
            let key = (process.pid, process.start);
            let ended = history.ended_run_ns.get(&key).copied().unwrap_or(0);
            (sample.cpu_s, ended, history.switches().0)
        };
        let (with_s, _, switches_with) = cpu(&mut history, &process);
        assert!(with_s > 0.0);
        drop(to);
        thread.join().unwrap();
        let (without_s, ended_ns, switches_without) = cpu(&mut history, &own());
        assert!(without_s >= with_s, "{without_s} {with_s}");
        assert!(ended_ns > 0);
        assert!(switches_without >= switches_with);
    }

    #[test]
    fn nanoseconds_win_over_ticks_and_a_total_never_falls() {
        let process = Process {
            pid: 7,
            user_s: 0.01,
            reaped_system_s: 0.5,
            ..Process::default()
        };
        let mut history = ServiceHistory::default();
        history.run_ns.insert((7, 0), 18_000_000);
        let mut sample = ServiceSample::default();
        history.cpu(
            [&process].into_iter(),
            &FollowedProcesses::default(),
            &mut sample,
        );
        assert!((sample.cpu_s - 0.518).abs() < 1e-9, "{}", sample.cpu_s);
        assert!((sample.cpu_user_s - 0.01).abs() < 1e-9);
        let mut later = ServiceSample::default();
        history.cpu(
            std::iter::empty(),
            &FollowedProcesses::default(),
            &mut later,
        );
        assert!((later.cpu_s - 0.518).abs() < 1e-9);
    }
}
