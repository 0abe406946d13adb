//! Findings about capacity searches, and their figures.

use serde::{Deserialize, Serialize};

use super::BASE;
use crate::finding::Severity::{Error, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, WithheldVerdicts};
use crate::goals_phrase::{goals_phrase, readings_phrase};
use crate::number::{self, RateUnit};

pub(in crate::finding) const CONNECTIONS_LIMITED: FindingInfo = FindingInfo {
    seen: "In a capacity search, requests waited for a free connection while the server was fast.",
    severities: &[(Warning, "")],
    meaning: "At least half of the probes that failed near the capacity failed only because of that \
              wait: their service times, which exclude the wait, meet the goals, and the median \
              service time is at most twice the shortest median of all probes. The connections, \
              not the server, may be the limit, and the capacity may be higher.",
    action: "Use more connections (`--connections`, or `connections` in `[load]`), unless their \
             number is part of what you measure.",
    per_variant: true,
    explains_difference: true,
    ..BASE
};

figures! {
    /// Requests that waited for a connection while the server was fast, in the probe nearest to the
    /// capacity.
    ConnectionsLimited {
        /// Offered rate.
        offered_per_s: f64 = same,
        /// Subject of the rate; requests if absent.
        rate_unit: Option<RateUnit> = same,
        /// Number of connections.
        connections: u64 = sum,
        /// 99th percentile of the response time, in microseconds.
        response_time_p99_us: f64 = most,
        /// 99th percentile of the service time, in microseconds.
        service_time_p99_us: f64 = most,
    }
    |it, _subject| format!(
        "At {} with {}, requests waited for a free connection: the p99 response time was {}, and \
         the p99 service time was {}. The service times meet the goals. The connections, not the \
         server, may be the limit, so the capacity may be higher. Use more connections \
         (--connections).",
        it.rate_unit.unwrap_or_default().rate(it.offered_per_s),
        number::plural(it.connections, "connection", "connections"),
        number::time(it.response_time_p99_us),
        number::time(it.service_time_p99_us),
    )
}

pub(in crate::finding) const CAPACITY_UNKNOWN: FindingInfo = FindingInfo {
    seen: "A capacity search ended without a capacity.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The search found only a bound: the goals are met at every rate that could be judged, or \
              at none. Averaging capacities with bounds would be meaningless, so the trial yields no capacity.",
    action: "The text names the cause: raise `max_rate`, give the load more cores, use longer probes \
             (`probe`), or set other goals.",
    ..BASE
};

/// Reason why a capacity search ended without a capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownCapacity {
    /// No request succeeded before the first probe.
    NoRequestSucceeded,
    /// The server stopped responding.
    NoResponses,
    /// The capacity is at least the rate; the generator was saturated at higher rates.
    AboveSaturated,
    /// The capacity is at least the rate, which is the highest permitted rate.
    AboveRateMax,
    /// The capacity is at least the rate; the search ended.
    AboveProbesMax,
    /// The capacity is below the rate, but can't be judged at lower rates.
    Below,
    /// The goals are not met at the rate, which is the lowest.
    Unmet,
}

/// Readings of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReadings {
    /// Reading of each goal.
    pub goals: Vec<String>,
    /// False if the server did not keep up with the rate.
    pub kept_up: bool,
}

figures! {
    /// A search without a capacity.
    CapacityUnknown {
        /// The reason.
        reason: UnknownCapacity = same,
        /// Goals of the search, as input.
        goals: Vec<String> = same,
        /// Rate of the bound.
        per_s: Option<f64> = same,
        /// Subject of the rate; requests if absent.
        rate_unit: Option<RateUnit> = same,
        /// Readings at the lowest rate.
        readings: Option<ProbeReadings> = same,
    }
    |it, _subject| {
        let goals = goals_phrase(&it.goals);
        let per_s = it.per_s.unwrap_or_default();
        let rate = number::rate_figure(per_s);
        let noun = it.rate_unit.unwrap_or_default().noun();
        let at_least = |cause: &str| format!(
            "The capacity is at least {rate} {noun} per second: {goals} is met at that rate, and \
             {cause}."
        );
        match it.reason {
            UnknownCapacity::NoRequestSucceeded => {
                "The search sent no probe, because no request succeeded.".to_owned()
            }
            UnknownCapacity::NoResponses => "The server stopped responding during the search. See \
                its log, and repeat the search.".to_owned(),
            UnknownCapacity::AboveSaturated => at_least(
                "at higher rates the load generator was saturated. Give the load more cores"
            ),
            UnknownCapacity::AboveRateMax => {
                at_least("max_rate does not allow higher rates. Raise max_rate")
            }
            UnknownCapacity::AboveProbesMax => at_least(
                "the search ended before it found a rate that misses the goals. Use shorter \
                 probes, or other goals"
            ),
            UnknownCapacity::Below => format!(
                "The capacity is below {rate} {noun} per second: probes of this length have too few \
                 {noun} to judge {goals} at lower rates. Use longer probes, or other goals."
            ),
            UnknownCapacity::Unmet => {
                let requests = match per_s {
                    1.0 => format!("1 {}", noun.trim_end_matches('s')),
                    _ => format!("{rate} {noun}"),
                };
                let readings = it.readings.as_ref().map_or(String::new(), |probe| {
                    let goals = probe.goals.iter().map(String::as_str);
                    format!(": {}", readings_phrase(goals, probe.kept_up))
                });
                format!("{goals} is not met even at {requests} per second{readings}.")
            }
        }
    }
}
