//! Taking samples at an interval while something else runs.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::Sample;
use crate::host::Host;

/// How soon the end of sampling is noticed.
const NOTICE: Duration = Duration::from_millis(20);
/// A sample may come so much after the end, however short the interval is.
const LATE: Duration = Duration::from_millis(250);

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

/// Samples at once, then at every `interval`, and a last time when `stop` is set, to when that was. It
/// blocks, so it wants a thread of its own (`std::thread::scope`), which keeps off the cores in `avoid`
/// (the load's) if there are others. Each sample can be had from `latest` until the next is there.
/// `lost` is called after each that shows that a machine is gone.
///
/// A sample that came more than an interval after `stop`, as of a machine that was silent for a while,
/// is left out: what was used would be spread over a time without load.
pub fn collect(
    host: &mut dyn Host,
    interval: Duration,
    stop: &OnceLock<Instant>,
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
    let taken = |host: &mut dyn Host| (take(host), Instant::now());
    let mut samples = vec![taken(host)];
    let mut due = interval;
    while stop.get().is_none() {
        let now = began.elapsed();
        if now >= due {
            samples.push(taken(host));
            // A sample that came late is not made up for.
            while due <= began.elapsed() {
                due += interval.max(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(NOTICE.min(due - now));
        }
    }
    samples.push(taken(host));
    let latest = stop.get().map(|stop| *stop + interval.max(LATE));
    until(samples, latest)
}

/// The samples that were taken by then.
fn until(samples: Vec<(Sample, Instant)>, latest: Option<Instant>) -> Vec<Sample> {
    let in_time = |(_, at): &(Sample, Instant)| latest.is_none_or(|latest| *at <= latest);
    let in_time = samples.into_iter().filter(in_time);
    in_time.map(|(sample, _)| sample).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_that_comes_long_after_the_load_is_left_out() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let sample = |t_s: u32| {
            let sample = Sample {
                t_s: f64::from(t_s),
                ..Sample::default()
            };
            (sample, began + second * t_s)
        };
        let times = |latest| {
            let samples = until([0, 1, 2, 7].map(sample).to_vec(), latest);
            samples.iter().map(|sample| sample.t_s).collect::<Vec<_>>()
        };
        assert_eq!(times(Some(began + second * 3)), [0.0, 1.0, 2.0]);
        assert_eq!(times(Some(began + second * 7)).len(), 4);
        assert_eq!(times(None).len(), 4);
    }
}
