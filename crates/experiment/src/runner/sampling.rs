//! Periodic telemetry samples during a load.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prony_machine::host::Host;
use prony_machine::system::avoid_cores;
use prony_machine::telemetry::TelemetrySample;

/// Interval at which the end of the load is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Delay after the end of the load up to which a late sample is always included.
const LATE_SAMPLE_TOLERANCE: Duration = Duration::from_millis(250);

/// Latest sample, shared with threads that display it.
#[derive(Debug, Default)]
pub struct LatestSample(Mutex<Option<TelemetrySample>>);

impl LatestSample {
    /// Removes and returns the sample; `None` if it has already been taken.
    pub fn take(&self) -> Option<TelemetrySample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn put(&self, sample: &TelemetrySample) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some(sample.clone());
    }
}

/// Takes a sample immediately, then one per `interval`, and a last one when `stop` is set to the
/// end time of the load. Blocks until the last sample, and keeps the calling thread off the load's
/// cores (`avoid`). Publishes each sample in `latest`. Calls `on_lost_machine` when a sample shows
/// that a machine is lost.
///
/// Omits samples that arrived more than an interval (and more than 250 ms) after `stop`, for
/// example from a machine that responded late. Such samples would include time without load.
pub fn collect(
    host: &mut dyn Host,
    interval: Duration,
    stop: &OnceLock<Instant>,
    avoid: &[usize],
    latest: &LatestSample,
    on_lost_machine: &dyn Fn(),
) -> Vec<TelemetrySample> {
    avoid_cores(avoid);
    let began = Instant::now();
    let take = |host: &mut dyn Host| {
        let sample = host.sample();
        latest.put(&sample);
        if host.is_lost() {
            on_lost_machine();
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
            // After a late sample, skip the samples that have become due in the meantime.
            while due <= began.elapsed() {
                due += interval.max(Duration::from_millis(1));
            }
        } else {
            std::thread::sleep(POLL_INTERVAL.min(due - now));
        }
    }
    samples.push(taken(host));
    let latest = stop
        .get()
        .map(|stop| *stop + interval.max(LATE_SAMPLE_TOLERANCE));
    until(samples, latest)
}

/// Returns the samples that were taken up to the time `latest`.
fn until(
    samples: Vec<(TelemetrySample, Instant)>,
    latest: Option<Instant>,
) -> Vec<TelemetrySample> {
    let in_time = |(_, at): &(TelemetrySample, Instant)| latest.is_none_or(|latest| *at <= latest);
    let in_time = samples.into_iter().filter(in_time);
    in_time.map(|(sample, _)| sample).collect()
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
