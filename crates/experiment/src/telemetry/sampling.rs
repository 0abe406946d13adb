//! Takes samples at an interval while a load runs.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::TelemetrySample;
use crate::host::Host;

/// Interval at which the end of sampling is checked.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum delay of a sample after the end, however short the interval is.
const LATE_MAX: Duration = Duration::from_millis(250);

/// The newest sample, for a viewer.
#[derive(Debug, Default)]
pub struct LatestSample(Mutex<Option<TelemetrySample>>);

impl LatestSample {
    /// Takes the newest sample, unless it was taken before.
    pub fn take(&self) -> Option<TelemetrySample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, sample: &TelemetrySample) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some(sample.clone());
    }
}

/// Takes a sample immediately, then every `interval`, and a last one when `stop` is set. It blocks, so it
/// needs a thread of its own (`std::thread::scope`), which avoids the cores in `avoid` (those of the
/// load) if there are others. `latest` holds the newest sample. `lost` is called after each sample that
/// shows that a machine is lost.
///
/// A sample more than an interval after `stop`, for example of a machine that did not respond for a
/// while, is discarded: its resource use would be averaged over a time without load.
pub fn collect(
    host: &mut dyn Host,
    interval: Duration,
    stop: &OnceLock<Instant>,
    avoid: &[usize],
    latest: &LatestSample,
    lost: &dyn Fn(),
) -> Vec<TelemetrySample> {
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
            // Late samples are not made up for.
            while due <= began.elapsed() {
                due += interval.max(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(STOP_POLL_INTERVAL.min(due - now));
        }
    }
    samples.push(taken(host));
    let latest = stop.get().map(|stop| *stop + interval.max(LATE_MAX));
    until(samples, latest)
}

/// The samples taken until `latest`.
fn until(
    samples: Vec<(TelemetrySample, Instant)>,
    latest: Option<Instant>,
) -> Vec<TelemetrySample> {
    let in_time = |(_, at): &(TelemetrySample, Instant)| latest.is_none_or(|latest| *at <= latest);
    let in_time = samples.into_iter().filter(in_time);
    in_time.map(|(sample, _)| sample).collect()
}

/// Keeps the calling thread, and the threads and processes that it starts, off these cores, unless there
/// are no others.
pub(crate) fn keep_off(avoid: &[usize]) {
    #[cfg(target_os = "linux")]
    if let Ok(mut allowed) = rustix::thread::sched_getaffinity(None) {
        for &core in avoid {
            if core < rustix::thread::CpuSet::MAX_CPU {
                allowed.unset(core);
            }
        }
        if allowed.count() > 0 {
            // Only an improvement of the measurement: ignore a missing permission.
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
            let sample = TelemetrySample {
                t_s: f64::from(t_s),
                ..TelemetrySample::default()
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
