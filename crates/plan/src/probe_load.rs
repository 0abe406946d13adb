//! The loads of a capacity search: the settings that a probe overrides.

use std::time::Duration;

use prony_load::{ArrivalRate, Arrivals, LoadSettings};
use prony_stats::capacity::Probe;

/// Number of connections of the closed loop that finds the first rate. The number is small, so that
/// a slow server is not overloaded for long.
const EXPLORE_CONNECTIONS: u64 = 32;
/// Minimum and maximum number of connections of an open loop whose settings don't specify a number.
const CONNECTIONS_MIN: f64 = 128.0;
const CONNECTIONS_MAX: f64 = 1_024.0;
/// Number of connections per expected request in flight. The expectation assumes that each request
/// takes as long as the goals allow.
const CONNECTIONS_PER_REQUEST: f64 = 2.0;
/// Number of requests that an idle check sends, and the maximum duration of the check.
const IDLE_REQUESTS: u64 = 3;
const IDLE_DURATION: Duration = Duration::from_secs(1);

/// A load that a search runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProbeLoad {
    /// A few sequential requests whose response times show if the server is idle.
    Idle,
    /// The load of a probe: an open loop at a constant rate, or a closed loop.
    Probe {
        /// Rate and duration of the probe.
        probe: Probe,
        /// Longest response time limit among the goals, in seconds; 0 if no goal limits a response
        /// time.
        limit_s: f64,
        /// Sequence number of the probe within its search. It determines the seed of the arrivals.
        number: u64,
    },
}

impl ProbeLoad {
    /// Returns the settings of this load: those in `base`, with the rate, duration and seed of the
    /// probe. Arrivals are Poisson unless `base` specifies them.
    pub fn settings(&self, base: &LoadSettings) -> LoadSettings {
        let base = LoadSettings {
            requests: None,
            stages: Vec::new(),
            ..base.clone()
        };
        match self {
            ProbeLoad::Idle => LoadSettings {
                connections: Some(1),
                threads: Some(1),
                streams: None,
                rate: None,
                arrivals: None,
                requests: Some(IDLE_REQUESTS),
                duration: Some(IDLE_DURATION),
                warmup: None,
                ..base
            },
            ProbeLoad::Probe {
                probe,
                limit_s,
                number,
            } => LoadSettings {
                connections: Some(connections(&base, probe, *limit_s)),
                rate: probe.rate_per_s.map(ArrivalRate::Constant),
                arrivals: probe
                    .rate_per_s
                    .map(|_| base.arrivals.unwrap_or(Arrivals::Poisson)),
                duration: Some(Duration::from_secs_f64(probe.measure_s)),
                warmup: Some(Duration::from_secs_f64(probe.settle_s)),
                seed: Some(base.seed.unwrap_or(0).wrapping_add(*number)),
                ..base
            },
        }
    }
}

/// Returns the number of connections for a probe. The mean number of requests in flight is the rate
/// times the mean response time (Little's law). With twice as many connections as the rate times
/// the time limit, a lack of connections can't cause a missed goal. If the settings don't specify a
/// number, it is limited to [`CONNECTIONS_MAX`].
fn connections(base: &LoadSettings, probe: &Probe, limit_s: f64) -> u64 {
    let threads = base.threads.unwrap_or(1);
    match (base.connections, probe.rate_per_s) {
        (given, None) => given
            .unwrap_or(EXPLORE_CONNECTIONS)
            .min(EXPLORE_CONNECTIONS)
            .max(threads),
        (Some(given), Some(_)) => given,
        (None, Some(rate)) => {
            let needed = CONNECTIONS_PER_REQUEST * rate * limit_s;
            (needed.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX).ceil() as u64).max(threads)
        }
    }
}
