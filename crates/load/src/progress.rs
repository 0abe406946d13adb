//! What may be seen and said while a load runs: a few counters out, a stop in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use prony_record::Recorder;

/// The handle on a running load that other threads hold.
#[derive(Debug, Default)]
pub struct Control {
    stopped: AtomicBool,
    counters: Vec<Counter>,
}

/// One worker's counts so far, warm-up included.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    ended: AtomicU64,
    failed: AtomicU64,
}

impl Counter {
    /// Once a turn of the worker's loop: two stores, nobody else writes them.
    pub(crate) fn publish(&self, recorder: &Recorder) {
        self.ended.store(recorder.ended_count(), Ordering::Relaxed);
        self.failed
            .store(recorder.outcomes().failed(), Ordering::Relaxed);
    }
}

impl Control {
    /// A handle for a load of up to `threads` workers.
    pub fn new(threads: u32) -> Control {
        let counters = (0..threads).map(|_| Counter::default()).collect();
        Control {
            stopped: AtomicBool::new(false),
            counters,
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

    /// Requests that ended so far, and failures of the measured part among them.
    pub fn counts(&self) -> (u64, u64) {
        self.counters
            .iter()
            .fold((0, 0), |(ended, failed), counter| {
                let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
                (ended + load(&counter.ended), failed + load(&counter.failed))
            })
    }

    pub(crate) fn counter(&self, worker: usize) -> Option<&Counter> {
        self.counters.get(worker)
    }
}
