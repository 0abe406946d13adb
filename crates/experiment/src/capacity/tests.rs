//! Tests of searches against simulated servers, which need no network and no waiting.

use std::sync::Arc;
use std::time::Duration;

use prony_load::{Control, LoadSettings, LoadSpec};
use prony_plan::capacity_goals::{CapacityGoals, GoalsRefusal};
use prony_plan::probe_load::ProbeLoad;
use prony_record::{Finding, FindingId, Outcome, Record, Severity, Summary};
use prony_stats::capacity::{BoundReason, Goal, SearchEnd, SearchOutcome};

use super::{CapacitySearch, ProbeLoads, SearchEvent};
use crate::interrupt::Interrupt;

/// Rate at which the simulated server's p99 is 50 ms. The p99 grows with the fifth power of the
/// rate.
const CAPACITY_PER_S: f64 = 2_000.0;

/// Loads of a simulated server.
#[derive(Default)]
struct SimulatedLoads {
    /// Number of idle checks so far.
    idle_checks: usize,
    /// Number of connections of each open loop.
    connections: Vec<u32>,
    /// Lowest rate at which the generator is saturated.
    saturated_from: Option<f64>,
    /// Number of idle checks, after an overload, in which the server is still busy.
    busy_checks: usize,
    /// Service time of each request in microseconds; 0 if it isn't measured.
    service_us: f64,
    /// If true, every request fails.
    is_down: bool,
    /// Rate of an open loop at which the server dies.
    dies_at: Option<f64>,
    /// Share of the requests of an open loop to which the server responds with an error at once.
    failed_share: f64,
    /// Finding in the record of each open loop.
    finding: Option<Finding>,
}

impl ProbeLoads for SimulatedLoads {
    type Error = String;

    fn spec(&mut self, load: &ProbeLoad) -> Result<LoadSpec, String> {
        let settings = load.settings(&LoadSettings::default());
        settings
            .resolve(Some("http://127.0.0.1:9/"))
            .map_err(|error| error.to_string())
    }

    fn run(&mut self, spec: &LoadSpec, _: &Arc<Control>) -> Result<Record, String> {
        let mut record = Record {
            load: spec.info().clone(),
            ..Record::default()
        };
        let Some(rate) = spec.info().rate_per_s else {
            let is_idle_check = spec.info().requests.is_some();
            self.idle_checks += usize::from(is_idle_check);
            record.totals.elapsed_s = 1.0;
            record.totals.ok = if self.is_down { 0 } else { 3_000 };
            record.response_time_us.p50 = 200.0;
            record.response_time_us.max = 200.0;
            if is_idle_check && self.idle_checks > 1 && self.busy_checks > 0 {
                self.busy_checks -= 1;
                record.response_time_us.p50 = 90_000.0;
            }
            return Ok(record);
        };
        self.connections.push(spec.info().connections);
        self.is_down |= self.dies_at.is_some_and(|at| rate >= at);
        let p99_us = 50_000.0 * (rate / CAPACITY_PER_S).powi(5);
        record.totals.elapsed_s = 1.0;
        record.totals.started = rate as u64;
        let failed_share = if self.is_down { 1.0 } else { self.failed_share };
        record.totals.failed = (failed_share * record.totals.started as f64).ceil() as u64;
        record.totals.ok = record.totals.started - record.totals.failed;
        record
            .outcomes
            .insert(Outcome::UnexpectedStatus, record.totals.failed);
        record.rate.offered_per_s = Some(rate);
        record.response_time_us.p99 = p99_us;
        record.response_time_us.max = p99_us;
        if record.totals.ok == 0 {
            record.response_time_us = Summary::default();
        }
        let service = &mut record.service_time_us;
        (service.p50, service.p99, service.max) =
            (self.service_us, self.service_us, self.service_us);
        record.findings.extend(self.finding.clone());
        if self.saturated_from.is_some_and(|from| rate >= from) {
            record.response_time_us.p99 = 1e6;
            let text = "made up";
            let finding = Finding::stored(FindingId::GeneratorSaturated, Severity::Error, text);
            record.findings.push(finding);
        }
        Ok(record)
    }
}

fn goals() -> CapacityGoals {
    CapacityGoals {
        goals: vec![Goal::parse("p99<50ms").unwrap()],
        search_time: None,
        probe: None,
        rate_max: None,
    }
}

fn search(loads: &mut SimulatedLoads) -> prony_stats::capacity::SearchReport {
    let goals = goals();
    let interrupt = Interrupt::default();
    let search = CapacitySearch {
        goals: &goals.goals,
        settings: goals.search(3, None),
        interrupt: &interrupt,
    };
    search.run(loads, &mut |_| {}).unwrap()
}

#[test]
fn a_search_finds_the_capacity_and_reports_its_probes() {
    let mut loads = SimulatedLoads::default();
    let report = search(&mut loads);
    let found = report.capacity_per_s().unwrap();
    assert!((found / CAPACITY_PER_S - 1.0).abs() < 0.02, "{found}");
    let met = |rate: f64| rate <= CAPACITY_PER_S;
    for probe in report.probes.iter().filter(|it| it.rate_per_s.is_some()) {
        assert_eq!(probe.met, met(probe.offered_per_s), "{probe:?}");
        assert_eq!(probe.goals[0].goal, "p99<50ms");
        assert_eq!(probe.goals[0].value, Some(probe.response_time_us.p99));
    }
    // Each open loop has at least twice as many connections as there are requests in flight at the
    // time limit.
    assert!(loads.connections.iter().all(|&count| count >= 128));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["end"]["outcome"]["kind"], "capacity");
    assert_eq!(json["probes"][0]["purpose"], "explore");
}

#[test]
fn a_probe_waits_until_the_server_has_worked_off_an_overload() {
    let mut quick = SimulatedLoads::default();
    search(&mut quick);
    let mut busy = SimulatedLoads {
        busy_checks: 2,
        ..SimulatedLoads::default()
    };
    search(&mut busy);
    assert_eq!(
        (busy.busy_checks, busy.idle_checks),
        (0, quick.idle_checks + 2)
    );
}

#[test]
fn a_saturated_generator_gives_a_lower_bound_with_its_finding() {
    let mut loads = SimulatedLoads {
        saturated_from: Some(1_200.0),
        ..SimulatedLoads::default()
    };
    let report = search(&mut loads);
    let Some(SearchOutcome::AtLeast { per_s, reason }) = report.outcome() else {
        panic!("{:?}", report.end);
    };
    assert!(per_s < 1_200.0, "{per_s}");
    assert_eq!(reason, BoundReason::GeneratorSaturated);
    let is_saturated = |finding: &Finding| finding.id == FindingId::GeneratorSaturated;
    assert!(report.findings.iter().any(is_saturated));
}

#[test]
fn a_search_reports_that_the_connections_were_the_limit() {
    let findings = |service_us: f64| {
        let mut loads = SimulatedLoads {
            service_us,
            ..SimulatedLoads::default()
        };
        search(&mut loads).findings
    };
    let ids: Vec<_> = findings(5_000.0).into_iter().map(|it| it.id).collect();
    assert_eq!(ids, [FindingId::ConnectionsLimited]);
    assert_eq!(findings(60_000.0), []);
    assert_eq!(findings(0.0), []);
}

#[test]
fn a_search_ends_when_it_is_interrupted_or_no_request_succeeds() {
    let (goals, interrupt) = (goals(), Interrupt::default());
    let search = CapacitySearch {
        goals: &goals.goals,
        settings: goals.search(3, None),
        interrupt: &interrupt,
    };
    let mut stop = |event: SearchEvent<'_>| {
        if let SearchEvent::Ended {
            bracket: (Some(_), _),
            ..
        } = event
        {
            interrupt.stop();
        }
    };
    let report = search
        .run(&mut SimulatedLoads::default(), &mut stop)
        .unwrap();
    assert_eq!(report.end, SearchEnd::Interrupted);
    assert!(report.met_per_s.is_some());
    let mut down = SimulatedLoads {
        is_down: true,
        ..SimulatedLoads::default()
    };
    assert_eq!(self::search(&mut down).end, SearchEnd::NoSuccess);
}

#[test]
fn a_search_ends_when_the_server_dies_and_keeps_the_rates_that_were_met() {
    let mut dying = SimulatedLoads {
        dies_at: Some(1_900.0),
        ..SimulatedLoads::default()
    };
    let report = search(&mut dying);
    assert_eq!(report.end, SearchEnd::NoSuccess);
    assert!(report.met_per_s.is_some_and(|met| met < 1_900.0));
    let last = report.probes.last().unwrap();
    assert!(!last.met && !last.kept_up, "{last:?}");
    let readings = prony_wording::capacity::readings(last);
    assert!(readings.contains("beyond every limit"), "{readings}");
    assert_eq!(last.goals[0].value, None);
}

#[test]
fn a_probe_does_not_contradict_the_capacity() {
    for (severity, is_listed) in [(Severity::Warning, false), (Severity::Error, true)] {
        let finding = Finding::stored(FindingId::ScheduleMissed, severity, "made up");
        let mut loads = SimulatedLoads {
            finding: Some(finding),
            ..SimulatedLoads::default()
        };
        let report = search(&mut loads);
        assert!(report.capacity_per_s().is_some());
        assert_eq!(!report.findings.is_empty(), is_listed, "{severity:?}");
    }
}

#[test]
fn failed_requests_are_neither_fast_nor_kept_up_with() {
    let mut failing = SimulatedLoads {
        failed_share: 0.4,
        ..SimulatedLoads::default()
    };
    let report = search(&mut failing);
    assert_eq!(report.met_per_s, None, "{:?}", report.end);
    let of_open_loops = report.probes.iter().filter(|it| it.rate_per_s.is_some());
    assert!(of_open_loops.clone().count() > 0);
    for probe in of_open_loops {
        assert!(!probe.met, "{probe:?}");
        // At low rates, as many requests may still be in flight.
        assert!(!probe.kept_up || probe.offered_per_s < 100.0, "{probe:?}");
    }
}

#[test]
fn goals_that_their_limits_leave_too_few_requests_for_are_refused() {
    assert_eq!(goals().check(), Ok(()));
    let slow = CapacityGoals {
        rate_max: Some(10.0),
        ..goals()
    };
    let Err(GoalsRefusal::FewRequests { search_s, .. }) = slow.check() else {
        panic!("{:?}", slow.check());
    };
    let longer = CapacityGoals {
        search_time: Some(Duration::from_secs_f64(search_s)),
        ..slow.clone()
    };
    assert_eq!(longer.check(), Ok(()));
    let short = CapacityGoals {
        probe: Some(Duration::from_secs(1)),
        ..slow
    };
    let refusal = short.check().unwrap_err();
    assert!(matches!(
        refusal,
        GoalsRefusal::FewRequests {
            probe_s: Some(100.0),
            ..
        }
    ));
}
