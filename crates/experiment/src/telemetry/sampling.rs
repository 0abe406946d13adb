//! Taking samples at an interval while something else runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Sample;
use crate::host::Host;

/// How soon the end of sampling is noticed.
const NOTICE: Duration = Duration::from_millis(20);

/// Samples at once, then at every `interval`, and a last time when `stop` is set. It blocks, so it
/// wants a thread of its own (`std::thread::scope`), which keeps off the cores in `avoid` (the
/// load's) if there are others.
pub fn collect(
    host: &mut dyn Host,
    interval: Duration,
    stop: &AtomicBool,
    avoid: &[usize],
) -> Vec<Sample> {
    keep_off(avoid);
    let began = Instant::now();
    let mut samples = vec![host.sample()];
    let mut due = interval;
    while !stop.load(Ordering::Acquire) {
        let now = began.elapsed();
        if now >= due {
            samples.push(host.sample());
            // A sample that came late is not made up for.
            while due <= began.elapsed() {
                due += interval.max(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(NOTICE.min(due - now));
        }
    }
    samples.push(host.sample());
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
