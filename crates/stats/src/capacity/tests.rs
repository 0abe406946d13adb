//! Searches against simulated servers whose capacity is known.

use super::simulated_servers::{Random, Server, rate_where, share_over_in_md1, simulate};
use super::*;

/// Searches of one experiment.
const REPEATS: u64 = 5;
/// The share of experiments whose interval must contain the capacity.
const COVERAGE_MIN: f64 = 0.93;

fn settings(seed: u64) -> SearchSettings {
    SearchSettings {
        requests_min: 1_000.0,
        measure_min_s: 0.0,
        measure_max_s: 1e5,
        rate_max: None,
        start_at: None,
        seed,
    }
}

/// Runs the repeated searches of one experiment.
fn experiment(server: Server, goal: (f64, f64), seed: u64) -> Vec<SearchOutcome> {
    let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let mut outcomes: Vec<SearchOutcome> = Vec::new();
    for repeat in 0..REPEATS {
        let settings = SearchSettings {
            start_at: match outcomes.first() {
                Some(SearchOutcome::Capacity { per_s }) => Some(*per_s),
                _ => None,
            },
            ..settings(1_000 * seed + repeat)
        };
        let mut search = Search::new(settings);
        let mut probes = 0;
        while let Some(probe) = search.next() {
            search.take(simulate(server, &probe, goal, &mut random));
            probes += 1;
        }
        assert!(probes <= Search::probes_max(&settings));
        outcomes.push(search.outcome().unwrap());
    }
    outcomes
}

/// Asserts that the intervals of many experiments cover the capacity often enough.
fn check(server: Server, goal: (f64, f64), capacity: f64, experiments: u64) {
    let (mut covered, mut mean, mut width) = (0, 0.0, 0.0);
    for seed in 0..experiments {
        let outcomes = experiment(server, goal, seed);
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
        coverage >= COVERAGE_MIN && mean.abs() < 0.02,
        "{server:?} {goal:?}: coverage {coverage}, bias {mean}, half-width {width}"
    );
}

#[test]
fn intervals_cover_the_capacity_of_a_queue_with_constant_service_times() {
    for (limit, experiments) in [(2.0, 150), (5.0, 150), (20.0, 150)] {
        let capacity = rate_where(0.01, |rate| share_over_in_md1(rate, limit), 50);
        check(Server::Constant, (0.99, limit), capacity, experiments);
    }
}

#[test]
fn intervals_cover_the_capacity_of_a_queue_with_exponential_service_times() {
    for (limit, experiments) in [(10.0, 150), (20.0, 150)] {
        let capacity = 1.0 - 100.0_f64.ln() / limit;
        check(Server::Exponential, (0.99, limit), capacity, experiments);
    }
}

#[test]
fn intervals_cover_the_capacity_of_a_server_with_a_cliff() {
    check(Server::Cliff, (0.99, 5.0), 0.5, 150);
}

#[test]
fn intervals_cover_the_capacity_of_a_server_with_pauses() {
    let goal = (0.99, 30.0);
    let probe = |rate: f64| Probe {
        rate_per_s: Some(rate),
        settle_s: 1e4,
        measure_s: 1e6,
        purpose: ProbePurpose::Edge,
    };
    let excess = |rate: f64| {
        let result = simulate(Server::Pauses, &probe(rate), goal, &mut Random(1));
        result.goals[0].excess
    };
    let capacity = rate_where(1.0, excess, 12);
    check(Server::Pauses, goal, capacity, 100);
}

/// Runs one search against a server whose result depends on the rate alone.
fn search(settings: SearchSettings, result: impl Fn(f64) -> ProbeResult) -> Search {
    let mut search = Search::new(settings);
    let mut probes = 0;
    while let Some(probe) = search.next() {
        assert!(probe.measure_s <= settings.measure_max_s);
        search.take(result(probe.rate_per_s.unwrap_or(1e4)));
        probes += 1;
        assert!(probes <= Search::probes_max(&settings));
    }
    search
}

/// Settings for servers of thousands of requests per second.
fn fast_settings() -> SearchSettings {
    SearchSettings {
        measure_min_s: 1.0,
        measure_max_s: 10.0,
        ..settings(7)
    }
}

fn result(rate: f64, capacities: &[f64]) -> ProbeResult {
    let reading = |capacity: &f64| GoalReading {
        met: rate <= *capacity,
        excess: (rate / capacity).powi(10),
        resolution: 0.01,
        text: String::new(),
    };
    ProbeResult {
        offered_per_s: rate,
        achieved_per_s: rate,
        requests: 1_000,
        goals: capacities.iter().map(reading).collect(),
        generator_saturated: false,
    }
}

#[test]
fn the_goal_that_is_exceeded_first_sets_the_capacity() {
    let search = search(fast_settings(), |rate| result(rate, &[7_000.0, 3_000.0]));
    let Some(SearchOutcome::Capacity { per_s }) = search.outcome() else {
        panic!("{:?}", search.outcome());
    };
    assert!((per_s / 3_000.0 - 1.0).abs() < 0.01, "{per_s}");
    let (met, unmet) = search.bracket();
    assert!(met.unwrap() <= 3_000.0 && unmet.unwrap() > 3_000.0);
}

#[test]
fn a_saturated_generator_and_the_highest_rate_give_lower_bounds() {
    let saturated = search(fast_settings(), |rate| ProbeResult {
        generator_saturated: rate > 9_000.0,
        ..result(rate, &[9_000.0])
    });
    match saturated.outcome() {
        Some(SearchOutcome::AtLeast { per_s, reason }) => {
            assert!(per_s <= 9_000.0, "{per_s}");
            assert_eq!(reason, BoundReason::GeneratorSaturated);
        }
        other => panic!("{other:?}"),
    }
    let settings = SearchSettings {
        rate_max: Some(2_000.0),
        ..fast_settings()
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
fn a_goal_that_no_rate_meets_ends_the_search_at_the_lowest_rate() {
    let settings = fast_settings();
    let unmet = search(settings, |rate| result(rate, &[1.0]));
    let per_s = Search::rate_min(&settings);
    assert_eq!(unmet.outcome(), Some(SearchOutcome::Unmet { per_s }));
    let silent = search(settings, |rate| result(rate, &[]));
    assert_eq!(silent.outcome(), Some(SearchOutcome::Unmet { per_s }));
}

#[test]
fn goals_that_no_probe_can_judge_are_refused() {
    for typed in [
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
        let error = Goal::parse(typed).expect_err(typed);
        assert!(error.contains(typed), "{error}");
    }
    for (typed, requests) in [
        ("p99<50ms", 1_000.0),
        ("p99.9 <= 50ms", 10_000.0),
        ("mean<5ms", 100.0),
        ("failed<0.1%", 10_000.0),
    ] {
        assert_eq!(Goal::parse(typed).unwrap().requests_min(), requests);
    }
}
