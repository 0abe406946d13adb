//! Computes the results that wrk prints and passes to a script's `done`.

use std::time::{Duration, Instant};

use prony_load::Control;
use prony_record::{Outcome, OutcomeCounts};

use crate::statistics::Statistics;

/// Counts of failures in wrk's categories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrkErrors {
    /// Failed connection attempts, name lookups and TLS handshakes.
    pub connect: u64,
    /// Connections that broke before the end of a response, and invalid responses.
    pub read: u64,
    /// Always 0, because prony counts a failed write as a broken connection.
    pub write: u64,
    /// Responses with a status over 399.
    pub status: u64,
    /// Requests without a response in time.
    pub timeout: u64,
}

impl WrkErrors {
    /// Assigns each failure to one of wrk's categories. The caller counts `status` and `timeout`,
    /// because wrk's loads accept every status and set no timeout.
    pub fn of(outcomes: &OutcomeCounts) -> WrkErrors {
        let mut errors = WrkErrors::default();
        for (outcome, count) in outcomes.happened() {
            match outcome {
                Outcome::Dns
                | Outcome::ConnectRefused
                | Outcome::ConnectTimeout
                | Outcome::ConnectUnreachable
                | Outcome::ConnectFailed
                | Outcome::NoLocalPort
                | Outcome::TooManyFiles
                | Outcome::Tls => errors.connect += count,
                Outcome::Reset | Outcome::ClosedEarly | Outcome::Truncated | Outcome::Protocol => {
                    errors.read += count
                }
                Outcome::Timeout | Outcome::Stalled => errors.timeout += count,
                Outcome::UnexpectedStatus
                | Outcome::UnexpectedSize
                | Outcome::UnexpectedBody
                | Outcome::Capture
                | Outcome::Call(_)
                | Outcome::StoppedEarly
                | Outcome::NoEndMarker
                | Outcome::Redirect => {
                    errors.status += count;
                }
                Outcome::Ok | Outcome::Unfinished | Outcome::Unstarted => {}
            }
        }
        errors
    }
}

/// The results of a load.
#[derive(Debug, Clone, Default)]
pub struct WrkFigures {
    /// Latencies in microseconds.
    pub latency: Statistics,
    /// Requests per second of each thread, sampled ten times per second.
    pub rates: Statistics,
    /// Length of the measured part.
    pub duration: Duration,
    /// Complete responses.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Failures.
    pub errors: WrkErrors,
}

/// Interval at which a [`RateSampler`] is called.
pub const SAMPLING_INTERVAL: Duration = Duration::from_millis(100);

/// Samples each thread's rate.
pub struct RateSampler {
    /// Number of responses per request in the load.
    batch: u32,
    responded: Vec<u64>,
    since: Vec<Instant>,
    samples: Vec<u64>,
}

impl RateSampler {
    /// Creates a sampler of a load that starts now, with `batch` responses per request.
    pub fn new(threads: u64, batch: u32) -> RateSampler {
        RateSampler {
            batch,
            responded: vec![0; threads as usize],
            since: vec![Instant::now(); threads as usize],
            samples: Vec::new(),
        }
    }

    /// Returns the samples in requests per second.
    pub fn into_samples(self) -> Vec<u64> {
        self.samples
    }

    /// Samples the rate of each thread. Threads without a response since the last sample are
    /// skipped.
    pub fn sample(&mut self, control: &Control) {
        let now = Instant::now();
        let threads = self.responded.iter_mut().zip(&mut self.since);
        let counts = control.ended_by_worker().zip(control.failed_by_worker());
        for ((before, since), (ended, failed)) in threads.zip(counts) {
            let responded = ended.saturating_sub(failed) * u64::from(self.batch);
            let elapsed_s = now.duration_since(*since).as_secs_f64();
            if responded > *before && elapsed_s > 0.0 {
                let rate = (responded - *before) as f64 / elapsed_s;
                self.samples.push(rate as u64);
                (*before, *since) = (responded, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_place() {
        let mut outcomes = OutcomeCounts::default();
        for &outcome in Outcome::ALL {
            outcomes.add(outcome);
        }
        let errors = WrkErrors::of(&outcomes);
        let all = errors.connect + errors.read + errors.write + errors.status + errors.timeout;
        assert_eq!(all, outcomes.failed());
    }
}
