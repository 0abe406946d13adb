//! Searches against simulated servers whose capacity is known.

use super::simulated_servers::{Kind, Random, SimulatedServer, rate_where, share_over_in_md1};
use super::*;

/// Number of searches per experiment.
const REPEATS: u64 = 5;
/// Minimum share of experiments whose interval must contain the capacity.
const COVERAGE_MIN: f64 = 0.93;
/// Duration of a search of a server with a service time of 1 ms.
const SEARCH_S: f64 = 60.0;

fn settings(seed: u64) -> SearchSettings {
    SearchSettings {
        requests_min: 1_000.0,
        limit_s: 0.01,
        time_s: SEARCH_S,
        time_s_max: 5.0 * SEARCH_S,
        probe_s: None,
        rate_max: None,
        start_at: None,
        seed,
    }
}

/// Runs the repeated searches of one experiment.
fn experiment(mut server: SimulatedServer, seed: u64) -> Vec<SearchOutcome> {
    let mut random = Random::new(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let mut outcomes: Vec<SearchOutcome> = Vec::new();
    for repeat in 0..REPEATS {
        let settings = SearchSettings {
            limit_s: server.limit_s(),
            start_at: match outcomes.first() {
                Some(SearchOutcome::Capacity { per_s }) => Some(*per_s),
                _ => None,
            },
            ..settings(1_000 * seed + repeat)
        };
        let mut search = Search::new(settings);
        let (mut probes, mut took_s) = (0, 0.0);
        while let Some(probe) = search.next() {
            let result = server.run(&probe, &mut random);
            took_s += result.took_s;
            search.take(result);
            probes += 1;
        }
        assert!(probes <= Search::probes_max(&settings));
        // Three kinds of searches take longer: searches of a slow server, searches with a goal of
        // twice the service time (because the capacity is low), and searches with a goal of 30
        // service times (because slow requests come in long clusters).
        let is_usual = server.service_s <= 1e-3 && server.limit > 2.0 && server.limit < 30.0;
        let longest_s = if is_usual { SEARCH_S } else { 5.0 * SEARCH_S };
        assert!(took_s <= longest_s, "{server:?} seed {seed}: {took_s} s");
        outcomes.push(search.outcome().unwrap());
    }
    outcomes
}

/// Asserts that the intervals of many experiments cover the capacity often enough, and that their
/// mean half-width is at most `half_width_max`.
fn check(server: SimulatedServer, capacity: f64, experiments: u64, half_width_max: f64) {
    let (mut covered, mut mean, mut width) = (0, 0.0, 0.0);
    for seed in 0..experiments {
        let outcomes = experiment(server, seed);
        let Some(CapacityEstimate::Capacity {
            per_s,
            interval: Some(interval),
            ..
        }) = CapacityEstimate::of(&outcomes)
        else {
            panic!("seed {seed}: {outcomes:?}");
        };
        covered += u64::from(interval.contains(capacity));
        mean += (per_s / capacity).ln() / experiments as f64;
        width += (interval.high / interval.low).ln() / 2.0 / experiments as f64;
    }
    let coverage = covered as f64 / experiments as f64;
    assert!(
        coverage >= COVERAGE_MIN && mean.abs() < 0.03 && width < half_width_max,
        "{server:?}: coverage {coverage}, bias {mean}, half-width {width}"
    );
}

/// Returns the capacity of a server with constant service times of 1 ms, in requests per second.
fn capacity_of_md1(limit: f64) -> f64 {
    1e3 * rate_where(0.01, |rate| share_over_in_md1(rate, limit), 50)
}

#[test]
fn intervals_cover_the_capacity_of_a_queue_with_constant_service_times() {
    for (limit, half_width) in [(2.0, 0.16), (5.0, 0.05), (20.0, 0.05)] {
        let server = SimulatedServer::new(Kind::Constant, 0.99, limit);
        check(server, capacity_of_md1(limit), 250, half_width);
    }
}

#[test]
fn intervals_cover_the_capacity_of_slow_servers_with_distant_limits() {
    for (service_ms, limit) in [(2.0, 20.0), (3.0, 20.0), (4.0, 20.0), (4.0, 14.0)] {
        let server = SimulatedServer {
            service_s: 1e-3 * service_ms,
            ..SimulatedServer::new(Kind::Constant, 0.99, limit)
        };
        check(server, capacity_of_md1(limit) / service_ms, 250, 0.05);
    }
}

#[test]
fn intervals_cover_a_capacity_near_the_lowest_rate_of_a_search() {
    let server = SimulatedServer {
        service_s: 1.4e-3,
        ..SimulatedServer::new(Kind::Constant, 0.99, 2.0)
    };
    check(server, capacity_of_md1(2.0) / 1.4, 250, 0.16);
}

#[test]
fn a_search_takes_longer_where_slow_requests_come_in_clusters() {
    let settings = |limit_s: f64| SearchSettings {
        limit_s,
        ..settings(1)
    };
    assert_eq!(settings(0.01).time_s_at(500.0), SEARCH_S);
    assert_eq!(settings(0.05).time_s_at(500.0).round(), 100.0);
    assert_eq!(settings(0.05).time_s_at(900.0), SEARCH_S);
    assert_eq!(settings(0.05).time_s_at(20.0), 5.0 * SEARCH_S);
    assert_eq!(settings(0.05).rate_of_usual_time().round(), 833.0);
    assert_eq!(settings(0.01).rate_of_usual_time().round(), 333.0);
}

#[test]
fn intervals_cover_the_capacity_of_a_queue_with_exponential_service_times() {
    for limit in [10.0, 20.0] {
        let capacity = 1e3 * (1.0 - 100.0_f64.ln() / limit);
        let server = SimulatedServer::new(Kind::Exponential, 0.99, limit);
        check(server, capacity, 250, 0.09);
    }
}

#[test]
fn intervals_cover_the_capacity_of_a_server_with_a_cliff() {
    let server = SimulatedServer::new(Kind::Cliff, 0.99, 5.0);
    check(server, 500.0, 250, 0.05);
}

#[test]
fn intervals_cover_the_capacity_of_a_server_that_is_faster_when_warm() {
    let server = SimulatedServer::new(Kind::Warming, 0.99, 5.0);
    check(server, capacity_of_md1(5.0), 250, 0.05);
}

#[test]
fn intervals_cover_the_capacity_of_a_server_with_pauses() {
    let server = SimulatedServer::new(Kind::Pauses, 0.99, 30.0);
    let probe = |rate: f64| Probe {
        rate_per_s: Some(1e3 * rate),
        settle_s: 10.0,
        measure_s: 2e3,
        purpose: ProbePurpose::Crossing,
    };
    let excess = |rate: f64| {
        let result = { server }.run(&probe(rate), &mut Random::new(1));
        result.goals[0].excess
    };
    check(server, 1e3 * rate_where(1.0, excess, 12), 500, 0.06);
}

#[test]
fn a_search_of_a_slow_server_takes_longer_or_ends_below_the_rates_that_it_can_judge() {
    let server = |service_s: f64| SimulatedServer {
        service_s,
        ..SimulatedServer::new(Kind::Constant, 0.99, 5.0)
    };
    let run = |mut server: SimulatedServer| {
        let settings = SearchSettings {
            limit_s: server.limit_s(),
            ..settings(1)
        };
        let (mut search, mut random, mut took_s) = (Search::new(settings), Random::new(1), 0.0);
        while let Some(probe) = search.next() {
            let result = server.run(&probe, &mut random);
            took_s += result.took_s;
            search.take(result);
        }
        (search.outcome(), took_s)
    };
    let (outcome, took_s) = run(server(4e-3));
    assert!(matches!(outcome, Some(SearchOutcome::Capacity { per_s }) if per_s > 100.0));
    assert!(took_s > SEARCH_S && took_s <= 5.0 * SEARCH_S, "{took_s}");
    let (outcome, took_s) = run(server(0.05));
    let per_s = settings(1).rate_min();
    assert_eq!(outcome, Some(SearchOutcome::Below { per_s }));
    assert!(took_s < SEARCH_S, "{took_s}");
}

fn progress(probe: &Probe, share: f64, (over, all): (u64, u64), ended: u64) -> ProbeProgress {
    ProbeProgress {
        elapsed_s: share * probe.planned_s(),
        ended,
        goals: vec![GoalReading {
            met: true,
            excess: 0.0,
            resolution: 0.1,
            tail: Some(TailCount {
                over,
                all,
                allowed_share: 0.01,
            }),
            value: 0.0,
        }],
    }
}

#[test]
fn probes_end_early_where_that_does_not_bias_the_fit() {
    let probe = |purpose: ProbePurpose| Probe {
        rate_per_s: Some(1_000.0),
        settle_s: 0.0,
        measure_s: 10.0,
        purpose,
    };
    let [bracket, edge, crossing] = [
        ProbePurpose::Bracket,
        ProbePurpose::Edge,
        ProbePurpose::Crossing,
    ]
    .map(probe);
    let end = |probe: &Probe, tail: (u64, u64), ended: u64| {
        probe.early_end(&progress(probe, 0.5, tail, ended), 0.05)
    };
    // Half of the probe's time has passed: 5,000 requests were due, and 100 of all 10,000 may be
    // slow.
    assert_eq!(end(&bracket, (101, 5_000), 5_000), Some(EarlyEnd::Unmet));
    assert_eq!(end(&bracket, (99, 5_000), 5_000), None);
    assert_eq!(end(&bracket, (5, 5_000), 5_000), Some(EarlyEnd::Met));
    for probe in [edge, crossing] {
        assert_eq!(end(&probe, (1_000, 5_000), 5_000), None);
        assert_eq!(end(&probe, (0, 5_000), 5_000), None);
        assert_eq!(end(&probe, (0, 1_000), 1_000), Some(EarlyEnd::Unmet));
    }
    assert_eq!(end(&edge, (1_000, 3_500), 3_500), Some(EarlyEnd::Unmet));
    assert_eq!(end(&crossing, (1_000, 3_500), 3_500), None);
}

#[test]
fn requests_in_flight_are_no_arrears() {
    let result = |requests: u64, achieved_per_s: f64| ProbeResult {
        requests,
        achieved_per_s,
        limit_s: 0.1,
        ..result(100.0, &[1e3])
    };
    assert!(result(1_000, 95.0).keeps_up());
    assert!(!result(1_000, 80.0).keeps_up());
    // At this rate, 10 of the 20 requests may be in flight, because each may take 100 ms.
    assert!(result(20, 60.0).keeps_up());
    assert!(!result(1_000, 0.0).keeps_up());
}

/// Runs one search against a server whose results depend only on the rate.
fn search(settings: SearchSettings, result: impl Fn(f64) -> ProbeResult) -> Search {
    let mut search = Search::new(settings);
    let mut probes = 0;
    while let Some(probe) = search.next() {
        search.take(ProbeResult {
            took_s: probe.planned_s(),
            ..result(probe.rate_per_s.unwrap_or(1e4))
        });
        probes += 1;
        assert!(probes <= Search::probes_max(&settings));
    }
    search
}

fn result(rate: f64, capacities: &[f64]) -> ProbeResult {
    let reading = |capacity: &f64| {
        let excess = (rate / capacity).powi(10);
        GoalReading {
            met: rate <= *capacity,
            excess,
            resolution: 0.01,
            tail: Some(TailCount {
                over: (10.0 * excess) as u64,
                all: 1_000,
                allowed_share: 0.01,
            }),
            value: excess,
        }
    };
    ProbeResult {
        offered_per_s: rate,
        achieved_per_s: rate,
        requests: 1_000,
        limit_s: 0.05,
        goals: capacities.iter().map(reading).collect(),
        generator_saturated: false,
        cut_short: false,
        took_s: 1.0,
    }
}

#[test]
fn the_goal_that_is_exceeded_first_sets_the_capacity() {
    let search = search(settings(7), |rate| result(rate, &[7_000.0, 3_000.0]));
    let Some(SearchOutcome::Capacity { per_s }) = search.outcome() else {
        panic!("{:?}", search.outcome());
    };
    assert!((per_s / 3_000.0 - 1.0).abs() < 0.01, "{per_s}");
    let (met, unmet) = search.bracket();
    assert!(met.unwrap() <= 3_000.0 && unmet.unwrap() > 3_000.0);
}

#[test]
fn a_saturated_generator_and_the_highest_rate_give_lower_bounds() {
    let saturated = search(settings(7), |rate| ProbeResult {
        generator_saturated: rate > 9_000.0,
        ..result(rate, &[9_000.0])
    });
    match saturated.outcome() {
        Some(SearchOutcome::AtLeast { per_s, reason }) => {
            assert!((6_000.0..=9_000.0).contains(&per_s), "{per_s}");
            assert_eq!(reason, BoundReason::GeneratorSaturated);
        }
        other => panic!("{other:?}"),
    }
    let settings = SearchSettings {
        rate_max: Some(2_000.0),
        ..settings(7)
    };
    let limited = search(settings, |rate| result(rate, &[9_000.0]));
    let bound = SearchOutcome::AtLeast {
        per_s: 2_000.0,
        reason: BoundReason::RateMax,
    };
    assert_eq!(limited.outcome(), Some(bound));
    let estimate = CapacityEstimate::of(&[SearchOutcome::Capacity { per_s: 1_900.0 }, bound]);
    let expected = CapacityEstimate::AtLeast {
        per_s: 1_900.0,
        reason: BoundReason::RateMax,
    };
    assert_eq!(estimate, Some(expected));
}

#[test]
fn a_server_that_cannot_reach_the_lowest_rate_is_not_overloaded() {
    let short = SearchSettings {
        requests_min: 1e5,
        probe_s: Some(1.0),
        ..settings(7)
    };
    // The closed loop reaches 10,000 requests per second.
    let slow = search(short, |rate| {
        assert!(rate <= 1e4, "{rate}");
        result(rate, &[1e3])
    });
    let per_s = 1e5;
    assert_eq!(slow.outcome(), Some(SearchOutcome::Below { per_s }));
}

#[test]
fn a_goal_that_no_rate_meets_ends_the_search_at_the_lowest_rate() {
    let unmet = search(settings(7), |rate| result(rate, &[0.1]));
    assert_eq!(unmet.outcome(), Some(SearchOutcome::Unmet { per_s: 1.0 }));
    let silent = search(settings(7), |rate| result(rate, &[]));
    assert_eq!(silent.outcome(), Some(SearchOutcome::Unmet { per_s: 1.0 }));
    let slow = search(settings(7), |rate| result(rate, &[1.0]));
    let per_s = settings(7).rate_min();
    assert_eq!(slow.outcome(), Some(SearchOutcome::Below { per_s }));
    let estimate =
        CapacityEstimate::of(&[SearchOutcome::Capacity { per_s }, slow.outcome().unwrap()]);
    assert_eq!(estimate, Some(CapacityEstimate::Below { per_s }));
}

#[test]
fn a_short_probe_at_the_lowest_rate_does_not_end_the_search() {
    let lowest = settings(7).rate_min();
    // Every probe of the bracket ends early, by chance, with a few slow requests.
    let server = |capacity: f64| {
        let mut search = Search::new(settings(7));
        while let Some(probe) = search.next() {
            let rate = probe.rate_per_s.unwrap_or(1e3);
            let mut result = result(rate, &[capacity]);
            if probe.purpose == ProbePurpose::Bracket {
                let goal = &mut result.goals[0];
                (goal.met, goal.excess) = (false, 2.0);
            }
            search.take(result);
        }
        search.outcome()
    };
    let found = server(1.3 * lowest);
    assert!(
        matches!(found, Some(SearchOutcome::Capacity { per_s }) if (per_s / lowest / 1.3 - 1.0).abs() < 0.02),
        "{found:?}"
    );
    assert!(matches!(
        server(0.7 * lowest),
        Some(SearchOutcome::Below { .. })
    ));
}

#[test]
fn a_goal_that_is_exceeded_at_all_rates_has_no_capacity() {
    // The excess doesn't depend on the rate, and is too small to end the search early.
    let exceeded = search(settings(7), |rate| {
        let mut result = result(rate, &[1e6]);
        (result.goals[0].met, result.goals[0].excess) = (false, 5.0);
        result
    });
    let found = exceeded.outcome();
    assert!(
        matches!(found, Some(SearchOutcome::Below { .. })),
        "{found:?}"
    );
}

#[test]
fn probes_of_a_fixed_length_keep_it() {
    let settings = SearchSettings {
        probe_s: Some(2.0),
        ..settings(7)
    };
    let mut search = Search::new(settings);
    while let Some(probe) = search.next() {
        assert_eq!(probe.measure_s, 2.0);
        search.take(result(probe.rate_per_s.unwrap_or(1e4), &[3_000.0]));
    }
    assert_eq!(settings.rate_min(), 500.0);
}

#[test]
fn goals_that_no_probe_can_judge_are_refused() {
    for input in [
        "rate>100",
        "rate<100",
        "p99>50ms",
        "max<1s",
        "p100<1s",
        "failed<10",
        "busy<50%",
        "p99<0ms",
        "p99",
        "p99<5 baseline",
        "p99<50",
        "",
    ] {
        let error = Goal::parse(input).expect_err(input);
        assert!(error.to_string().contains(input), "{error}");
    }
    for (input, requests) in [
        ("p99<50ms", 1_000.0),
        ("p99.9 <= 50ms", 10_000.0),
        ("mean<5ms", 100.0),
        ("failed<0.1%", 10_000.0),
    ] {
        assert_eq!(Goal::parse(input).unwrap().requests_min(), requests);
    }
    let goals = ["p99<50ms", "mean<100ms", "failed<1%"].map(|input| Goal::parse(input).unwrap());
    assert_eq!(Goal::longest_limit_s(&goals), 0.1);
}
