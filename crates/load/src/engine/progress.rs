//! Communication with a running load: counts, intermediate results and stop requests.
//!
//! Counts of finished requests are always available. For more, a caller calls [`Control::watch`]
//! before the load begins. Each worker then publishes its recorded data at the end of each half
//! second. It takes a lock for this only if the lock is free, and otherwise tries again on its next
//! turn. A worker never waits for a reader, and does no extra work per request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use prony_record::{Delta, Finding, LoadInfo, Nanos, RecentDeltas, Record, Recorder};

use crate::engine::findings;
use crate::engine::meter::{Meter, WorkerUtilization};

/// The decision whether refused connection attempts end the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// At least one connection attempt has ended without being refused.
    Reached,
    /// All connection attempts were refused for too long, so the load ends.
    GivenUp,
}

/// A handle to a running load, for other threads.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    /// The first decision; empty as long as no connection attempt has ended, or all that have ended
    /// were refused.
    reach: OnceLock<Reach>,
    counters: Vec<Counter>,
    /// Data collected from the workers. It is created on first use, because its histograms take
    /// megabytes.
    gathered: OnceLock<Mutex<CollectedData>>,
}

/// Data collected from the workers.
#[derive(Debug, Default)]
struct CollectedData {
    so_far: Delta,
    /// True if `so_far` includes the time series.
    keeps_series: bool,
    untaken: Delta,
    /// Data of the most recent seconds; `None` unless [`Control::keep_recent`] was called.
    recent: Option<RecentDeltas>,
    /// Buffer for collecting; empty between collections.
    scratch: Box<Delta>,
}

/// One worker's counts so far, warm-up included, and the data that it publishes.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    ended: AtomicU64,
    failed: AtomicU64,
    published: OnceLock<Mutex<PublishedData>>,
}

/// Data that one worker has published.
#[derive(Debug, Default)]
struct PublishedData {
    delta: Box<Delta>,
    /// End of the last half second published so far.
    until: Nanos,
    utilization: WorkerUtilization,
}

impl Counter {
    /// Prepares the recorder when the load begins.
    pub(crate) fn begin(&self, recorder: &mut Recorder) {
        if self.published.get().is_some() {
            recorder.watch();
        }
    }

    /// Publishes counts once per turn of the worker's loop, with two stores to variables that no
    /// other thread writes. All requests that end before `passed` are already recorded. Returns
    /// true if recorded data was published as well, which takes longer.
    pub(crate) fn publish(&self, recorder: &mut Recorder, passed: Nanos, meter: &Meter) -> bool {
        self.ended.store(recorder.ended_count(), Ordering::Relaxed);
        self.failed
            .store(recorder.failed_count(), Ordering::Relaxed);
        if let Some(published) = self.published.get() {
            recorder.passed(passed);
            if recorder.has_news() {
                // Readers hold the lock only briefly. If it is taken, the next turn publishes.
                if let Ok(mut published) = published.try_lock() {
                    published.put(recorder, || meter.utilization(passed));
                    return true;
                }
            }
        }
        false
    }

    /// Publishes the remaining data at the end of the load.
    pub(crate) fn finish(&self, recorder: &mut Recorder, utilization: WorkerUtilization) {
        if let Some(published) = self.published.get() {
            lock(published).put(recorder, || utilization);
        }
    }
}

impl PublishedData {
    fn put(&mut self, recorder: &mut Recorder, utilization: impl FnOnce() -> WorkerUtilization) {
        recorder.hand_over(&mut self.delta);
        self.until = self.delta.span.map_or(self.until, |(_, end)| end);
        self.utilization = utilization();
    }
}

impl Control {
    /// Creates a handle for a load with up to `threads` workers.
    pub fn new(threads: u32) -> Control {
        Control {
            counters: (0..threads).map(|_| Counter::default()).collect(),
            ..Control::default()
        }
    }

    /// Ends the load within about 50 ms. The result covers what was measured until then.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true once a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Prevents workers whose connections are refused from ending the load. Returns false if one of
    /// them has already ended it.
    pub(crate) fn rule_out_refusal(&self) -> bool {
        *self.reach.get_or_init(|| Reach::Reached) == Reach::Reached
    }

    /// Ends a load whose connections are all refused. Returns false if a worker reached the target
    /// first; then the load continues.
    pub(crate) fn give_up(&self) -> bool {
        *self.reach.get_or_init(|| Reach::GivenUp) == Reach::GivenUp
    }

    /// Returns true if [`Control::give_up`] ended the load.
    pub(crate) fn is_given_up(&self) -> bool {
        self.reach.get() == Some(&Reach::GivenUp)
    }

    /// Number of requests that have finished so far, and number of failures among them in the
    /// measured part.
    pub fn counts(&self) -> (u64, u64) {
        self.counters
            .iter()
            .fold((0, 0), |(ended, failed), counter| {
                let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
                (ended + load(&counter.ended), failed + load(&counter.failed))
            })
    }

    /// Number of requests that each worker has finished so far, successfully or not, including the
    /// warm-up.
    pub fn ended_by_worker(&self) -> impl Iterator<Item = u64> + '_ {
        let counters = self.counters.iter();
        counters.map(|counter| counter.ended.load(Ordering::Relaxed))
    }

    /// Failures of each worker in the measured part.
    pub fn failed_by_worker(&self) -> impl Iterator<Item = u64> + '_ {
        let counters = self.counters.iter();
        counters.map(|counter| counter.failed.load(Ordering::Relaxed))
    }

    /// Enables [`Control::take`], [`Control::so_far`] and [`Control::utilizations`]. Must be called
    /// before the load begins.
    pub fn watch(&self) {
        for counter in &self.counters {
            counter.published.get_or_init(Mutex::default);
        }
    }

    /// Returns the data recorded since the last call. Only complete half-second intervals of each
    /// worker are included; the last interval of the load may be shorter. If the last call is made
    /// after the load's end, the results of all calls add up to the recorder's data. Only one
    /// caller may use this method; any number may use [`Control::so_far`].
    pub fn take(&self) -> Delta {
        std::mem::take(&mut self.gather().untaken)
    }

    /// Returns all data recorded so far, without the time series unless [`Control::keep_series`] was
    /// called.
    pub fn so_far(&self) -> Delta {
        self.gather().so_far.clone()
    }

    /// Enables [`Control::recent`] for a window of this length, and [`Control::watch`]. Must be
    /// called before the load begins.
    pub fn keep_recent(&self, length: Nanos) {
        self.watch();
        self.gather().recent = Some(RecentDeltas::new(length));
    }

    /// Makes [`Control::so_far`] and [`Control::record_so_far`] include the time series, which grows
    /// with the load's length. Enables [`Control::watch`]. Must be called before the load begins.
    pub fn keep_series(&self) {
        self.watch();
        self.gather().keeps_series = true;
    }

    /// Returns the data of the window that ends at `until`, without the time series; `None` if
    /// there is no such data.
    pub fn recent(&self, until: Nanos) -> Option<Delta> {
        self.gather().recent.as_ref()?.before(until)
    }

    /// Time since the load's start up to which every worker has published its data; zero until the
    /// first half second of the measured part is over.
    pub fn complete_until(&self) -> Nanos {
        let published = self.published().map(|published| published.until);
        published.min().unwrap_or_default()
    }

    /// Utilization of each worker in the measured part so far.
    pub fn utilizations(&self) -> Vec<WorkerUtilization> {
        self.published()
            .map(|published| published.utilization)
            .collect()
    }

    /// Returns the findings that follow from the data so far, for a load described by `info`. They
    /// may still change, and the end of the load can add some.
    pub fn findings(&self, info: &LoadInfo) -> Vec<Finding> {
        match self.so_far().span {
            None => Vec::new(),
            Some(_) => findings::findings_so_far(&self.record_so_far(info)),
        }
    }

    /// Returns the record that the load described by `info` would have if it had ended after the
    /// last complete half second, without the time series unless [`Control::keep_series`] was called.
    /// Before the measured part, all its values
    /// are zero.
    pub fn record_so_far(&self, info: &LoadInfo) -> Record {
        let all = self.so_far();
        let span = all.span.unwrap_or((Nanos::ZERO, Nanos::ZERO));
        let mut record = Record::build(info.clone(), &all, span, None);
        if let Some(utilization) = self
            .utilizations()
            .into_iter()
            .reduce(WorkerUtilization::merge)
        {
            utilization.write_to(&mut record.generator);
        }
        record
    }

    fn published(&self) -> impl Iterator<Item = MutexGuard<'_, PublishedData>> {
        let published = self.counters.iter().filter_map(|it| it.published.get());
        published.map(lock)
    }

    /// Collects the published data.
    fn gather(&self) -> MutexGuard<'_, CollectedData> {
        let mut gathered = lock(self.gathered.get_or_init(Mutex::default));
        let into = &mut *gathered;
        for published in self.counters.iter().filter_map(|it| it.published.get()) {
            // Merging takes too long to do under a lock that a worker may need.
            std::mem::swap(&mut lock(published).delta, &mut into.scratch);
            if into.scratch.span.is_some() {
                into.untaken.merge(&into.scratch);
                if !into.keeps_series {
                    into.scratch.drop_series();
                }
                if let Some(recent) = &mut into.recent {
                    recent.add(&into.scratch);
                }
                into.so_far.merge(&into.scratch);
                into.scratch.clear();
            }
        }
        gathered
    }

    pub(crate) fn counter(&self, worker: usize) -> Option<&Counter> {
        self.counters.get(worker)
    }
}

/// Locks a mutex even if it is poisoned, because a panic elsewhere loses at most half a second of
/// data.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use prony_record::{MeasuredPart, Recorder};

    use super::*;

    #[test]
    fn workers_publish_while_a_reader_collects() {
        let control = Control::new(64);
        control.watch();
        let end = Nanos::from_secs(1);
        let meter = Meter::new(Nanos::ZERO, end, 1);
        // A reader holds this lock while it merges what all workers have published.
        let collected = control.gather();
        for counter in &control.counters {
            let mut recorder = Recorder::new(MeasuredPart::DueFrom(Nanos::ZERO));
            counter.begin(&mut recorder);
            assert!(counter.publish(&mut recorder, end, &meter));
        }
        drop(collected);
        assert_eq!(control.take().span, Some((Nanos::ZERO, end)));
        assert_eq!(control.complete_until(), end);
    }
}
