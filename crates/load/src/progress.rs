//! What may be seen and said while a load runs: counts and times out, a stop in.
//!
//! Counts of requests that ended are always there. Who wants more says so before the load begins
//! ([`Control::watch`]); then each worker, when one of its half seconds has ended, lays down what was
//! recorded in it, under a lock that it takes only if nobody else has it, and sees to the next one. It
//! neither waits for whoever looks nor does anything for a single request.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use prony_record::{Delta, Finding, LoadInfo, Nanos, Record, Recorder};

use crate::findings;
use crate::meter::{Meter, WorkerUtilization};

/// Nothing but refused connects happened so far, if anything did.
const UNDECIDED: u8 = 0;
/// A worker saw something else than a refused connect.
const REACHED: u8 = 1;
/// Every connect was refused for too long: the load ends.
const GIVEN_UP: u8 = 2;

/// The handle on a running load that other threads hold.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    /// One of `UNDECIDED`, `REACHED` and `GIVEN_UP`.
    reach: AtomicU8,
    counters: Vec<Counter>,
    /// Made when somebody looks: histograms take megabytes.
    gathered: OnceLock<Mutex<Gathered>>,
}

/// What whoever looks has picked up from the workers.
#[derive(Debug, Default)]
struct Gathered {
    so_far: Delta,
    untaken: Delta,
    /// Picked up from, empty between two times.
    scratch: Box<Delta>,
}

/// One worker's counts so far, warm-up included, and what it lays down for others.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    ended: AtomicU64,
    failed: AtomicU64,
    mail: OnceLock<Mutex<Mail>>,
}

/// Where one worker lays down what was recorded.
#[derive(Debug, Default)]
struct Mail {
    delta: Box<Delta>,
    /// The end of the last slice in it, or in what was picked up before.
    until: Nanos,
    utilization: WorkerUtilization,
}

impl Counter {
    /// The load begins.
    pub(crate) fn begin(&self, recorder: &mut Recorder) {
        if self.mail.get().is_some() {
            recorder.watch();
        }
    }

    /// Once a turn of the worker's loop: two stores, nobody else writes them. Nothing will end before
    /// the moment `passed` any more.
    pub(crate) fn publish(&self, recorder: &mut Recorder, passed: Nanos, meter: &Meter) {
        self.ended.store(recorder.ended_count(), Ordering::Relaxed);
        self.failed
            .store(recorder.failed_count(), Ordering::Relaxed);
        if let Some(mail) = self.mail.get() {
            recorder.passed(passed);
            if recorder.has_news() {
                // Who picks up is done in a moment; what is not laid down now is at the next turn.
                if let Ok(mut mail) = mail.try_lock() {
                    mail.put(recorder, || meter.utilization(passed));
                }
            }
        }
    }

    /// The load is over, and nothing more will come.
    pub(crate) fn finish(&self, recorder: &mut Recorder, utilization: WorkerUtilization) {
        if let Some(mail) = self.mail.get() {
            lock(mail).put(recorder, || utilization);
        }
    }
}

impl Mail {
    fn put(&mut self, recorder: &mut Recorder, utilization: impl FnOnce() -> WorkerUtilization) {
        recorder.hand_over(&mut self.delta);
        self.until = self.delta.span.map_or(self.until, |(_, end)| end);
        self.utilization = utilization();
    }
}

impl Control {
    /// A handle for a load of up to `threads` workers.
    pub fn new(threads: u32) -> Control {
        Control {
            counters: (0..threads).map(|_| Counter::default()).collect(),
            ..Control::default()
        }
    }

    /// Ends the load soon (within 50 ms); what was measured until then is its result.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Keeps workers whose connects are refused from ending the load. Returns whether the load goes on:
    /// it has ended if one of them was first.
    pub(crate) fn rule_out_refusal(&self) -> bool {
        self.decide_reach(REACHED) == REACHED
    }

    /// Ends a load whose connects are all refused. Returns whether it ends: it goes on if a worker
    /// reached the target first.
    pub(crate) fn give_up(&self) -> bool {
        self.decide_reach(GIVEN_UP) == GIVEN_UP
    }

    /// Returns whether [`Control::give_up`] ended the load.
    pub(crate) fn is_given_up(&self) -> bool {
        self.reach.load(Ordering::Relaxed) == GIVEN_UP
    }

    /// Returns the decision that stands, which is the first one made.
    fn decide_reach(&self, decision: u8) -> u8 {
        let order = Ordering::Relaxed;
        let first = self
            .reach
            .compare_exchange(UNDECIDED, decision, order, order);
        first.map_or_else(|standing| standing, |_| decision)
    }

    /// Requests that ended so far, and failures of the measured part among them.
    pub fn counts(&self) -> (u64, u64) {
        self.counters
            .iter()
            .fold((0, 0), |(ended, failed), counter| {
                let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
                (ended + load(&counter.ended), failed + load(&counter.failed))
            })
    }

    /// Requests that each worker has ended so far, warm-up included.
    pub fn ended_by_worker(&self) -> impl Iterator<Item = u64> + '_ {
        let counters = self.counters.iter();
        counters.map(|counter| counter.ended.load(Ordering::Relaxed))
    }

    /// Failures of the measured part among them.
    pub fn failed_by_worker(&self) -> impl Iterator<Item = u64> + '_ {
        let counters = self.counters.iter();
        counters.map(|counter| counter.failed.load(Ordering::Relaxed))
    }

    /// Asks for what [`Control::take`], [`Control::so_far`] and [`Control::utilizations`] give; to be called
    /// before the load begins.
    pub fn watch(&self) {
        for counter in &self.counters {
            counter.mail.get_or_init(Mutex::default);
        }
    }

    /// What was recorded since the last call: whole half seconds of each worker, and the last, shorter
    /// one of the load. All that a load's calls give, the last made after its end, adds up to what its
    /// recorder holds. It is for one caller; any number may ask for [`Control::so_far`].
    pub fn take(&self) -> Delta {
        std::mem::take(&mut self.gather().untaken)
    }

    /// All that was recorded so far, but for the time series.
    pub fn so_far(&self) -> Delta {
        self.gather().so_far.clone()
    }

    /// The moment, since the load's start, up to which every worker has laid down what it recorded;
    /// zero until the first half second of the measured part is over.
    pub fn complete_until(&self) -> Nanos {
        let mails = self.mails().map(|mail| mail.until);
        mails.min().unwrap_or_default()
    }

    /// What each worker did in the measured part so far.
    pub fn utilizations(&self) -> Vec<WorkerUtilization> {
        self.mails().map(|mail| mail.utilization).collect()
    }

    /// What already qualifies the figures of the load, of which `info` is what was asked for. It may
    /// yet change, and the load's end adds what only that shows.
    pub fn findings(&self, info: &LoadInfo) -> Vec<Finding> {
        match self.so_far().span {
            None => Vec::new(),
            Some(_) => findings::so_far(&self.record_so_far(info)),
        }
    }

    /// What the record of the load, of which `info` is what was asked for, would be if it had ended
    /// with the last half second, but for the time series; all zero before the measured part.
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

    fn mails(&self) -> impl Iterator<Item = MutexGuard<'_, Mail>> {
        let mails = self.counters.iter().filter_map(|it| it.mail.get());
        mails.map(lock)
    }

    /// Picks up what lies there.
    fn gather(&self) -> MutexGuard<'_, Gathered> {
        let mut gathered = lock(self.gathered.get_or_init(Mutex::default));
        let into = &mut *gathered;
        for mail in self.counters.iter().filter_map(|it| it.mail.get()) {
            // Merging takes longer than a worker may find this locked.
            std::mem::swap(&mut lock(mail).delta, &mut into.scratch);
            if into.scratch.span.is_some() {
                into.untaken.merge(&into.scratch);
                into.scratch.drop_series();
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

/// A panic elsewhere leaves at worst a half second in neither place.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
