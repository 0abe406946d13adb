//! Loads that take turns, so that changes of the machine's speed affect all of them alike.
//!
//! A caller runs each load with [`run_in_slices`](crate::run_in_slices) on a thread of its own, and
//! gives each its [`Slices`]. [`Slices::run`] lets one load run for one slice.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_record::Nanos;

/// Time between the decision to run a slice and its begin, in which the workers wake up.
const LEAD_TIME: Duration = Duration::from_micros(500);

/// A slice of a load. Times count from the load's start and without the time between slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadSlice {
    /// Begin of the counted part.
    pub from: Nanos,
    /// Length of the settling part before it. At most `from`.
    pub settling: Nanos,
    /// Length of the counted part.
    pub length: Nanos,
}

impl LoadSlice {
    /// Begin of the settling part.
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
    /// Requests of the counted part that succeeded.
    pub ok: u64,
    /// Requests of the counted part that failed.
    pub failed: u64,
    /// All requests that succeeded or failed, with those of the settling part.
    pub ended: u64,
    /// Sum of the response times of the successful requests of the counted part, in nanoseconds.
    pub response_ns: u128,
    /// Time from the end of the counted part until the last request had ended.
    pub drain: Nanos,
    /// 99th percentile of all response times of the load so far.
    pub p99: Nanos,
}

impl SliceReport {
    /// Combines two workers of a load.
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

    /// The part of the drain that belongs to the measured time: a server that pauses at the end of a
    /// slice must not look faster than one that pauses within it.
    pub fn excess(&self) -> Nanos {
        match self.p99 {
            Nanos::ZERO => Nanos::ZERO,
            p99 => self.drain.since(p99),
        }
    }
}

/// The turns of one load.
#[derive(Debug, Default)]
pub struct Slices {
    turn: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    /// Number of workers that wait for a slice.
    waiting: u32,
    /// The current slice with its number and its begin.
    current: Option<(u64, LoadSlice, Instant)>,
    /// Slices so far.
    number: u64,
    report: Option<SliceReport>,
    /// Workers that have ended the current slice.
    ended: u32,
    /// The load ends at this time, or has ended.
    end: Option<Nanos>,
    /// End of the last slice.
    until: Nanos,
}

impl Slices {
    /// Waits until all of the load's workers wait for their first slice. Returns false if the load has
    /// ended.
    pub fn wait_ready(&self, workers: u32) -> bool {
        let is_waiting = |turns: &mut Turns| turns.end.is_none() && turns.waiting < workers;
        let turns = self.changed.wait_while(self.lock(), is_waiting);
        turns.unwrap_or_else(PoisonError::into_inner).end.is_none()
    }

    /// Runs one slice of a load with this number of workers, and returns when its last request has
    /// ended. Returns `None` if the load has ended.
    pub fn run(&self, slice: LoadSlice, workers: u32) -> Option<SliceReport> {
        let mut turns = self.lock();
        if turns.end.is_some() {
            return None;
        }
        turns.number += 1;
        turns.current = Some((turns.number, slice, Instant::now() + LEAD_TIME));
        (turns.report, turns.ended, turns.until) = (None, 0, slice.end());
        self.changed.notify_all();
        let is_running = |turns: &mut Turns| turns.end.is_none() && turns.ended < workers;
        let turns = self.changed.wait_while(turns, is_running);
        let turns = turns.unwrap_or_else(PoisonError::into_inner);
        turns.report.filter(|_| turns.ended == workers)
    }

    /// Ends the load at this time.
    pub fn end(&self, at: Nanos) {
        self.lock().end.get_or_insert(at);
        self.changed.notify_all();
    }

    /// Waits for the slice after number `last`, for one worker. Returns the time at which the load ends
    /// if there are no more.
    pub(crate) fn next(&self, last: u64) -> Result<(u64, LoadSlice, Instant), Nanos> {
        let mut turns = self.lock();
        turns.waiting += 1;
        self.changed.notify_all();
        let is_next = |current: &(u64, LoadSlice, Instant)| current.0 > last;
        let is_waiting =
            |turns: &mut Turns| turns.end.is_none() && !turns.current.as_ref().is_some_and(is_next);
        let turns = self.changed.wait_while(turns, is_waiting);
        let turns = turns.unwrap_or_else(PoisonError::into_inner);
        match (turns.end, turns.current.filter(is_next)) {
            (None, Some(current)) => Ok(current),
            (end, _) => Err(end.unwrap_or(turns.until)),
        }
    }

    /// A worker has ended the current slice.
    pub(crate) fn ended(&self, report: SliceReport) {
        let mut turns = self.lock();
        turns.ended += 1;
        turns.report = Some(turns.report.map_or(report, |other| other.merge(report)));
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the load when it is dropped, so that a worker that fails keeps no other thread waiting.
pub(crate) struct EndOnDrop<'a>(pub(crate) &'a Slices);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        let until = self.0.lock().until;
        self.0.end(until);
    }
}
