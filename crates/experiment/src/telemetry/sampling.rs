//! Taking samples at an interval while something else runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Sample;
use crate::host::Host;

/// How soon the end of sampling is noticed.
const NOTICE: Duration = Duration::from_millis(20);

/// The newest sample, for whoever watches while they are taken.
#[derive(Debug, Default)]
pub struct Latest(Mutex<Option<Sample>>);

impl Latest {
    /// Takes it, if there is one that nobody has taken.
    pub fn take(&self) -> Option<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, sample: &Sample) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some(sample.clone());
    }
}

/// Samples at once, then at every `interval`, and a last time when `stop` is set. It blocks, so it
/// wants a thread of its own (`std::thread::scope`), which keeps off the cores in `avoid` (the
/// load's) if there are others. Each sample can be had from `latest` until the next is there. `lost` is
/// called after each that shows that a machine is gone.
pub fn collect(
    host: &mut dyn Host,
    interval: Duration,
    stop: &AtomicBool,
    avoid: &[usize],
    latest: &Latest,
    lost: &dyn Fn(),
) -> Vec<Sample> {
    keep_off(avoid);
    let began = Instant::now();
    let take = |host: &mut dyn Host| {
        let sample = host.sample();
        latest.put(&sample);
        if host.is_lost() {
            lost();
        }
        sample
    };
    let mut samples = vec![take(host)];
    let mut due = interval;
    while !stop.load(Ordering::Acquire) {
        let now = began.elapsed();
        if now >= due {
            samples.push(take(host));
            // A sample that came late is not made up for.
            while due <= began.elapsed() {
                due += interval.max(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(NOTICE.min(due - now));
        }
    }
    samples.push(take(host));
    samples
}

/// Keeps the calling thread, and what it starts from now on, off these cores, unless there are no
/// others.
pub(crate) fn keep_off(avoid: &[usize]) {
    #[cfg(target_os = "linux")]
    if let Ok(mut allowed) = rustix::thread::sched_getaffinity(None) {
        for &core in avoid {
            if core < rustix::thread::CpuSet::MAX_CPU {
                allowed.unset(core);
            }
        }
        if allowed.count() > 0 {
            // It only makes the measurement better; without permission it stays as it is.
            let _ = rustix::thread::sched_setaffinity(None, &allowed);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = avoid;
}
