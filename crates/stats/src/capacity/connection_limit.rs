//! The finding that the capacity was limited by the number of connections.

use prony_record::finding::ConnectionsLimited;
use prony_record::{Finding, Severity};

use super::search_report::{ProbeReport, SearchReport};

/// Multiple of the capacity above which probes are ignored, because they provide little information
/// about the capacity.
const REACH: f64 = 2.0;
/// If a probe's median service time exceeds the shortest median of all probes by more than this
/// factor, the load slows down the server. More connections would then only move the queue into the
/// server.
const SLOWDOWN_MAX: f64 = 2.0;

/// Returns the finding if at least half of the probes that failed near the capacity failed only
/// because requests waited for a free connection: the service times of these probes meet the goals
/// and are about as short as at low rates.
pub fn connections_limited(search: &SearchReport) -> Option<Finding> {
    let capacity = search.outcome()?.per_s();
    let medians = search.probes.iter().map(|probe| probe.service_time_us.p50);
    let shortest_us = medians.filter(|us| *us > 0.0).reduce(f64::min)?;
    let is_failed = |probe: &&ProbeReport| {
        let is_near = |rate: f64| rate <= REACH * capacity;
        probe.rate_per_s.is_some_and(is_near) && !probe.met && !probe.generator_saturated
    };
    let is_limited = |probe: &&ProbeReport| {
        let is_fast = probe.service_time_us.p50 <= SLOWDOWN_MAX * shortest_us;
        probe.service_times_meet_goals && is_fast
    };
    let failed: Vec<&ProbeReport> = search.probes.iter().filter(is_failed).collect();
    let limited: Vec<&ProbeReport> = failed.iter().copied().filter(|it| is_limited(it)).collect();
    if 2 * limited.len() < failed.len() {
        return None;
    }
    let distance = |probe: &ProbeReport| (probe.offered_per_s / capacity).ln().abs();
    let nearest = limited
        .into_iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let limited = ConnectionsLimited {
        offered_per_s: nearest.offered_per_s,
        rate_unit: Some(nearest.rate_unit).filter(|unit| !unit.is_requests()),
        connections: nearest.connections.into(),
        response_time_p99_us: nearest.response_time_us.p99,
        service_time_p99_us: nearest.service_time_us.p99,
    };
    Some(Finding::of(Severity::Warning, &limited))
}

#[cfg(test)]
mod tests {
    use super::super::outcome::SearchOutcome;
    use super::super::probe::ProbePurpose;
    use super::super::search_report::{ProbeTimes, SearchEnd};
    use super::*;
    use prony_record::number::RateUnit;

    const CAPACITY_PER_S: f64 = 200.0;

    /// Creates a probe with the given p99 response and service times, in milliseconds. The goal is
    /// 50 ms.
    fn probe(rate: f64, response_ms: f64, service_ms: f64) -> ProbeReport {
        let times = |ms: f64| ProbeTimes {
            p50: 0.8e3 * ms,
            p90: 0.9e3 * ms,
            p99: 1e3 * ms,
            p99_9: 1e3 * ms,
        };
        ProbeReport {
            purpose: ProbePurpose::Crossing,
            rate_unit: RateUnit::Requests,
            rate_per_s: Some(rate),
            offered_per_s: rate,
            achieved_per_s: rate,
            connections: 1,
            settle_s: 1.0,
            measured_s: 5.0,
            started: 1_000,
            ok: 1_000,
            failed: 0,
            unfinished: 0,
            unstarted: 0,
            met: response_ms < 50.0,
            kept_up: true,
            cut_short: false,
            generator_saturated: false,
            service_times_meet_goals: service_ms < 50.0,
            goals: Vec::new(),
            response_time_us: times(response_ms),
            service_time_us: times(service_ms),
            waited_s: 0.0,
            took_s: 6.0,
        }
    }

    fn finding(probes: Vec<ProbeReport>) -> Option<Finding> {
        connections_limited(&SearchReport {
            end: SearchEnd::Outcome {
                outcome: SearchOutcome::Capacity {
                    per_s: CAPACITY_PER_S,
                },
            },
            met_per_s: None,
            unmet_per_s: None,
            probes,
            findings: Vec::new(),
        })
    }

    #[test]
    fn connections_are_the_limit_if_requests_wait_while_the_server_is_fast() {
        let met = probe(150.0, 20.0, 5.0);
        let limited = probe(210.0, 70.0, 5.2);
        let finding = finding(vec![met, limited, probe(250.0, 300.0, 5.2)]).unwrap();
        let limited = ConnectionsLimited {
            offered_per_s: 210.0,
            rate_unit: None,
            connections: 1,
            response_time_p99_us: 70e3,
            service_time_p99_us: 5.2e3,
        };
        assert_eq!(finding.figures(), Some(limited));
    }

    #[test]
    fn connections_are_not_the_limit_if_another_cause_explains_the_failed_probes() {
        let met = || probe(150.0, 20.0, 5.0);
        let saturated = ProbeReport {
            generator_saturated: true,
            ..probe(210.0, 70.0, 5.0)
        };
        let lost = ProbeReport {
            service_times_meet_goals: false,
            ..probe(210.0, 70.0, 5.0)
        };
        for (why, failed) in [
            ("slow server", vec![probe(210.0, 70.0, 60.0)]),
            ("queue in the server", vec![probe(210.0, 70.0, 40.0)]),
            ("saturated generator", vec![saturated]),
            ("other goal", vec![lost]),
            ("far above the capacity", vec![probe(900.0, 70.0, 5.0)]),
            ("no failed probe", Vec::new()),
            (
                "few limited probes",
                vec![
                    probe(210.0, 70.0, 5.0),
                    probe(220.0, 70.0, 60.0),
                    probe(230.0, 70.0, 60.0),
                ],
            ),
        ] {
            let probes = [vec![met()], failed].concat();
            assert_eq!(finding(probes), None, "{why}");
        }
    }
}
