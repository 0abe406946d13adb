//! Settings of a search, and the probe lengths that result from them.

use super::probe::SETTLE_SHARE;

/// Default duration of a search, in seconds, unless the goals need a longer search.
const SEARCH_S: f64 = 60.0;
/// Maximum duration of a search on a slow server, as a multiple of the usual duration.
const SLOW_SERVER_FACTOR: f64 = 5.0;
/// Shortest measured part of a probe, in seconds. Each probe should be long enough to include
/// periodic work of the server.
const MEASURE_S_MIN: f64 = 1.0;
/// Minimum measured part, as a multiple of the longest time limit. A shorter probe could end before
/// an overload shows.
const LIMITS_PER_PROBE: f64 = 3.0;
/// Number of probes of minimum length that must fit into the duration of a search.
const SHORTEST_PROBES: f64 = 20.0;
/// Number of requests that a search needs, as a multiple of [`SearchSettings::requests_min`]. With
/// fewer requests, there are too few slow ones, and the interval misses the capacity too often.
const REQUESTS_PER_SEARCH: f64 = 20.0;
/// Maximum number of requests that a search needs, as a multiple of
/// [`SearchSettings::requests_min`], for goals whose slow requests come in long clusters.
const REQUESTS_PER_SEARCH_MAX: f64 = 50.0;
/// Threshold for the number of requests due within a goal's time limit. Above it, slow requests
/// come in clusters, which get longer as the number of requests grows. A search that saw only a few
/// clusters would give a skewed estimate, too high on average, so searches above the threshold use
/// more requests.
const REQUESTS_WITHIN_LIMIT: f64 = 8.0;
/// Time that each probe spends on connecting and on waiting until the server is idle, in seconds.
const OVERHEAD_S: f64 = 0.2;

/// Settings of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchSettings {
    /// Number of requests that a probe needs to judge all goals.
    pub requests_min: f64,
    /// Longest limit of the goals about times, in seconds; 0 if there are none.
    pub limit_s: f64,
    /// Duration of the whole search, in seconds. The probes are as long as the goals require and
    /// must fit into this time.
    pub time_s: f64,
    /// Maximum duration of a search, in seconds. It applies to servers so slow that `time_s` yields
    /// too few requests.
    pub time_s_max: f64,
    /// Length of each probe's measured part, in seconds. Overrides the lengths that follow from
    /// `time_s`.
    pub probe_s: Option<f64>,
    /// Highest rate that may be probed, in requests per second.
    pub rate_max: Option<f64>,
    /// Capacity that an earlier search found. The search begins around this rate.
    pub start_at: Option<f64>,
    /// Seed that determines the rates and their order.
    pub seed: u64,
}

impl SearchSettings {
    /// Returns two durations of a search, in seconds, for goals whose longest limit is `limit_s`:
    /// the usual one and the maximum for slow servers. The usual duration is one minute, or more if
    /// the limit is about a second or longer.
    pub fn times_s_for(limit_s: f64) -> (f64, f64) {
        let time_s = time_s_min(limit_s).max(SEARCH_S);
        (time_s, SLOW_SERVER_FACTOR * time_s)
    }

    /// Returns the minimum duration, in seconds, of a search that can judge this rate.
    pub fn time_s_to_judge(&self, rate_per_s: f64) -> f64 {
        let time_s = REQUESTS_PER_SEARCH * self.requests_min / rate_per_s;
        time_s.max(time_s_min(self.limit_s))
    }

    /// Returns the duration, in seconds, of a search on a server with about this capacity.
    pub(super) fn time_s_at(&self, rate_per_s: f64) -> f64 {
        let most = REQUESTS_PER_SEARCH_MAX / REQUESTS_PER_SEARCH;
        let clusters = (rate_per_s * self.limit_s / REQUESTS_WITHIN_LIMIT).clamp(1.0, most);
        let needed_s = clusters * REQUESTS_PER_SEARCH * self.requests_min / rate_per_s;
        needed_s.min(self.time_s_max).max(self.time_s)
    }

    /// Returns the lowest capacity for which a search takes no longer than `time_s`.
    pub fn rate_of_usual_time(&self) -> f64 {
        let most = REQUESTS_PER_SEARCH_MAX / REQUESTS_PER_SEARCH;
        let fast = REQUESTS_PER_SEARCH * self.requests_min / self.time_s;
        if most * fast * self.limit_s >= most * REQUESTS_WITHIN_LIMIT {
            most * fast
        } else {
            fast
        }
    }

    /// Returns the lowest rate that a search with these settings can judge.
    pub fn rate_min(&self) -> f64 {
        let lowest = match self.probe_s {
            Some(probe_s) => self.requests_min / probe_s,
            None => REQUESTS_PER_SEARCH * self.requests_min / self.time_s_max,
        };
        lowest.max(RATE_MIN)
    }

    /// Returns the shortest measured part of a probe, in seconds.
    pub(super) fn measure_s_min(&self) -> f64 {
        self.probe_s.unwrap_or(measure_s_min(self.limit_s))
    }

    /// Returns the length of a probe's measured part, in seconds: long enough for `requests`
    /// requests, but no longer than an equal part of `left_s` for each of the `probes` probes.
    pub(super) fn measure_s(&self, requests: f64, rate: f64, left_s: f64, probes: usize) -> f64 {
        if let Some(probe_s) = self.probe_s {
            return probe_s;
        }
        let shortest = self.measure_s_min();
        let part_s = left_s / probes.max(1) as f64 - OVERHEAD_S;
        let longest = part_s / (1.0 + SETTLE_SHARE);
        (requests / rate)
            .max(shortest)
            .min(longest)
            .max(0.5 * shortest)
    }
}

/// Lowest rate that a search may probe, in requests per second.
pub const RATE_MIN: f64 = 1.0;

/// Returns the shortest duration of a search, in seconds.
fn time_s_min(limit_s: f64) -> f64 {
    let probe_s = (1.0 + SETTLE_SHARE) * measure_s_min(limit_s) + OVERHEAD_S;
    SHORTEST_PROBES * probe_s
}

fn measure_s_min(limit_s: f64) -> f64 {
    (LIMITS_PER_PROBE * limit_s).max(MEASURE_S_MIN)
}
