//! Short periods in which context switches are recorded, so that recording costs little.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use procfs::process::{Process, Syscall};

use super::collector::Collector;
use super::events::{Observation, PerfEvents, now_ns};
use super::waits::WaitTracker;

/// Maximum duration of a period.
const PERIOD_NS: u64 = 50_000_000;

/// Number of records after which a period ends early.
const RECORDS_MAX: usize = 4_000;

/// Mean distance of two periods. Distances vary, so periods don't coincide with periodic work.
const DISTANCE_NS: f64 = 1e9;

/// Minimum distance per record: a record costs about 2 µs, so recording costs at most 0.5% of a core.
const DISTANCE_PER_RECORD_NS: f64 = 400_000.0;

/// Maximum number of threads whose state is read at the start of a period.
const FOUND_MAX: usize = 1_000;

/// Interval at which the buffers are read.
const READ_INTERVAL: Duration = Duration::from_millis(5);

/// Recorder of context switches.
pub(super) struct WaitPeriods {
    events: PerfEvents,
    /// Counted time at which the next period begins, in nanoseconds.
    next_ns: f64,
    /// Number of periods so far.
    periods: u32,
}

impl WaitPeriods {
    pub(super) fn new(events: PerfEvents) -> Self {
        Self {
            events,
            next_ns: 0.0,
            periods: 0,
        }
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.events.extend(more.events);
    }

    /// Returns true if a period should begin after the given counted time.
    pub(super) fn are_due(&self, counted_ns: u64) -> bool {
        counted_ns as f64 >= self.next_ns
    }

    /// Records one period, which ends early if `stopped` is disconnected. `counts` returns
    /// true if a whole period counts, by its start and its end.
    pub(super) fn record(
        &mut self,
        collector: &mut Collector,
        counted_ns: u64,
        stopped: &Receiver<()>,
        counts: impl Fn(u64, u64) -> bool,
    ) {
        let start_ns = now_ns();
        if self.events.enable(true).is_err() {
            return;
        }
        let mut records: Vec<(u64, PeriodRecord)> = Vec::new();
        found_threads(collector, &mut records);
        let found = records.len();
        let mut is_last = false;
        let end_ns = loop {
            let now_ns = now_ns();
            is_last |= now_ns - start_ns >= PERIOD_NS || records.len() - found >= RECORDS_MAX;
            if is_last {
                let _ = self.events.enable(false);
            }
            let read =
                |time_ns, observed| records.push((time_ns, PeriodRecord::Observed(observed)));
            self.events.read(read);
            if is_last {
                break now_ns;
            }
            is_last = stopped.recv_timeout(READ_INTERVAL) != Err(RecvTimeoutError::Timeout);
        };
        self.periods += 1;
        let varied = 0.75 + 0.5 * (f64::from(self.periods) * 0.618_034).fract();
        let of_records = (records.len() - found) as f64 * DISTANCE_PER_RECORD_NS;
        self.next_ns = counted_ns as f64 + varied * DISTANCE_NS.max(of_records);
        if counts(start_ns, end_ns) {
            add(collector, records, (start_ns, end_ns));
        }
    }
}

/// A record of a period.
enum PeriodRecord {
    /// A thread that was off its core in a system call.
    Found {
        pid: i32,
        tid: i32,
        call: Syscall,
    },
    Observed(Observation),
}

/// Finds the threads that are off their cores.
fn found_threads(collector: &Collector, records: &mut Vec<(u64, PeriodRecord)>) {
    for pid in collector.process_ids() {
        let tasks = Process::new(pid).and_then(|process| process.tasks());
        for task in tasks.into_iter().flatten().flatten() {
            if records.len() >= FOUND_MAX {
                return;
            }
            if let Ok(call @ Syscall::Blocked { .. }) = task.syscall() {
                let tid = task.tid;
                records.push((now_ns(), PeriodRecord::Found { pid, tid, call }));
            }
        }
    }
}

/// Adds a period to the profile.
fn add(
    collector: &mut Collector,
    mut records: Vec<(u64, PeriodRecord)>,
    (start_ns, end_ns): (u64, u64),
) {
    let is_lost =
        |(_, it): &(u64, PeriodRecord)| matches!(it, PeriodRecord::Observed(Observation::Lost(_)));
    if records.iter().any(is_lost) {
        collector.end_of_waits(None);
        return;
    }
    records.sort_by_key(|(time_ns, _)| *time_ns);
    for (_, record) in &mut records {
        if let PeriodRecord::Observed(Observation::Blocked {
            pid, chain, stack, ..
        }) = record
        {
            learn(collector, *pid);
            collector.add_callers(*pid, chain, stack);
        }
    }
    let mut tracker = WaitTracker::new(start_ns);
    let mut on_wait = |pid, chain: &[u64], context, ns| {
        learn(collector, pid);
        collector.wait(pid, chain, context, ns);
    };
    for (time_ns, record) in records {
        match record {
            PeriodRecord::Found { pid, tid, call } => tracker.found(pid, tid, &call),
            PeriodRecord::Observed(observed) => {
                tracker.observe(time_ns.min(end_ns), observed, &mut on_wait);
            }
        }
    }
    tracker.end(end_ns, &mut on_wait);
    collector.end_of_waits(Some(end_ns - start_ns));
}

/// Reads the memory of a process that started before the session, which was not reported.
pub(super) fn learn(collector: &mut Collector, pid: i32) {
    if !collector.knows(pid) {
        let maps = std::fs::read(format!("/proc/{pid}/maps"));
        collector.add_running(pid, &maps.unwrap_or_default());
    }
}
