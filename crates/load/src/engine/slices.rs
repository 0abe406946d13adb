//! Runs loads in turns, so that changes in the machine's speed affect all of them equally.
//!
//! A caller runs each load with [`run_in_slices`](crate::run_in_slices) on a separate thread, and
//! gives each its [`Slices`]. [`Slices::run`] runs one load for one slice.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_record::Nanos;

/// Time between the decision to run a slice and its start, during which the workers wake up.
const LEAD_TIME: Duration = Duration::from_micros(500);

/// Minimum number of earlier drains for which the median is meaningful.
const DRAINS_MIN: usize = 5;

/// A slice of a load. Times are relative to the load's start and exclude the time between slices.
/// The counted part of each slice begins where the counted part of the previous slice ended, or
/// later if part of the drain belongs to the measured time ([`SliceReport::excess`]). An open loop
/// then starts the requests that became due in the meantime, but none that were due before the
/// first slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSlice {
    /// Start of the counted part.
    pub from: Nanos,
    /// Length of the settling part, which precedes the counted part. At most `from`.
    pub settling: Nanos,
    /// Length of the counted part.
    pub length: Nanos,
}

impl LoadSlice {
    /// Start of the settling part.
    pub fn begin(self) -> Nanos {
        self.from - self.settling
    }

    /// End of the counted part.
    pub fn end(self) -> Nanos {
        self.from + self.length
    }
}

/// Results of one slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SliceReport {
    /// Number of requests in the counted part that succeeded.
    pub ok: u64,
    /// Number of requests in the counted part that failed.
    pub failed: u64,
    /// Number of requests that succeeded or failed, including those of the settling part.
    pub ended: u64,
    /// Sum of the response times of all successful requests in the counted part, in nanoseconds.
    pub response_ns: u128,
    /// Time from the end of the counted part until the last request finished.
    pub drain: Nanos,
    /// 99th percentile of all response times of the load until the end of the counted part.
    pub p99: Nanos,
}

impl SliceReport {
    /// Combines the reports of two workers.
    fn merge(self, other: SliceReport) -> SliceReport {
        SliceReport {
            ok: self.ok + other.ok,
            failed: self.failed + other.failed,
            ended: self.ended + other.ended,
            response_ns: self.response_ns + other.response_ns,
            drain: self.drain.max(other.drain),
            p99: self.p99.max(other.p99),
        }
    }

    /// The part of the drain that belongs to the measured time: a server that freezes at the end of
    /// a slice must not look faster than one that freezes within it. `earlier` contains the drains
    /// of the load's slices so far.
    ///
    /// A normal drain is at most as long as the p99 of the response times. A server that often
    /// freezes raises its own p99. Therefore, three times the median of the earlier drains is a
    /// limit as well.
    pub fn excess(&self, earlier: &[Nanos]) -> Nanos {
        if self.p99 == Nanos::ZERO {
            return Nanos::ZERO;
        }
        let mut earlier = earlier.to_vec();
        earlier.sort_unstable();
        let usual = match earlier.get(earlier.len() / 2) {
            Some(median) if earlier.len() >= DRAINS_MIN => self.p99.min(Nanos(3 * median.0)),
            _ => self.p99,
        };
        self.drain.since(usual)
    }
}

/// The schedule of one load's slices, shared by its workers and the thread that starts the slices.
#[derive(Debug, Default)]
pub struct Slices {
    turns: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// Number of workers that are currently waiting for a slice.
    waiting: u32,
    current: Option<CurrentSlice>,
    /// Sum of the reports of all workers that have ended the current slice.
    report: SliceReport,
    /// Number of workers that have ended the current slice.
    ended: u32,
    /// Time at which the load ends or has ended; `None` until the end is decided.
    end: Option<Nanos>,
}

/// A slice that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentSlice {
    /// One-based index of the slice in the load.
    pub(crate) number: u64,
    pub(crate) slice: LoadSlice,
    /// Start of the slice.
    pub(crate) at: Instant,
}

impl Turns {
    /// End of the counted part of the load's last slice.
    fn counted_until(&self) -> Nanos {
        let current = self.current.as_ref();
        current.map_or(Nanos::ZERO, |current| current.slice.end())
    }
}

impl Slices {
    /// Waits until all of the load's workers are waiting for a slice. Returns false if the load has
    /// ended.
    pub fn wait_ready(&self, workers: u32) -> bool {
        self.wait_for_workers(workers).end.is_none()
    }

    /// Runs one slice of a load with `workers` workers, and returns when the slice's last request
    /// has finished. Waits for the workers to be ready before the first slice. Returns `None` if
    /// the load has ended, or ends in this slice.
    pub fn run(&self, slice: LoadSlice, workers: u32) -> Option<SliceReport> {
        let mut turns = self.wait_for_workers(workers);
        if turns.end.is_some() {
            return None;
        }
        let number = turns.current.map_or(0, |current| current.number) + 1;
        turns.current = Some(CurrentSlice {
            number,
            slice,
            at: Instant::now() + LEAD_TIME,
        });
        (turns.report, turns.ended) = (SliceReport::default(), 0);
        self.changed.notify_all();
        let turns = self.wait_while(turns, |turns| turns.end.is_none() && turns.ended < workers);
        (turns.ended == workers).then_some(turns.report)
    }

    /// Ends the load at time `at` of its clock. In an open loop, requests that are due by then and
    /// did not start count as unstarted.
    pub fn end(&self, at: Nanos) {
        self.lock().end.get_or_insert(at);
        self.changed.notify_all();
    }

    /// Waits, on behalf of one worker, for the slice that follows slice number `last`.
    ///
    /// # Errors
    ///
    /// The time at which the load ends, if there are no more slices.
    pub(crate) fn next(&self, last: u64) -> Result<CurrentSlice, Nanos> {
        let mut turns = self.lock();
        turns.waiting += 1;
        self.changed.notify_all();
        let next = |turns: &Turns| turns.current.filter(|current| current.number > last);
        let mut turns =
            self.wait_while(turns, |turns| turns.end.is_none() && next(turns).is_none());
        turns.waiting -= 1;
        match turns.end {
            Some(end) => Err(end),
            None => next(&turns).ok_or(turns.counted_until()),
        }
    }

    /// Records that a worker has ended the current slice.
    pub(crate) fn ended(&self, report: SliceReport) {
        let mut turns = self.lock();
        turns.ended += 1;
        turns.report = turns.report.merge(report);
        self.changed.notify_all();
    }

    /// Waits until `workers` workers are waiting for a slice, or the load has ended.
    fn wait_for_workers(&self, workers: u32) -> MutexGuard<'_, Turns> {
        let turns = self.lock();
        self.wait_while(turns, |turns| {
            turns.end.is_none() && turns.waiting < workers
        })
    }

    fn wait_while<'a>(
        &self,
        turns: MutexGuard<'a, Turns>,
        is_waiting: impl Fn(&Turns) -> bool,
    ) -> MutexGuard<'a, Turns> {
        let turns = self.changed.wait_while(turns, |turns| is_waiting(turns));
        turns.unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the load when dropped, so that a failed worker doesn't leave other threads waiting.
pub(crate) struct EndOnDrop<'a>(pub(crate) &'a Slices);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let counted_until = self.0.lock().counted_until();
        self.0.end(counted_until);
    }
}

#[cfg(test)]
mod tests;
