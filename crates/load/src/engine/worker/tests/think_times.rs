//! Tests of think times: users pause between their requests.

use prony_record::{Nanos, Outcome};

use super::*;

/// Returns the times at which requests were sent, in order.
fn sent(outcomes: &Outcomes) -> Vec<Nanos> {
    let logs = outcomes.logs.iter();
    let sent = logs.flat_map(|log| {
        let log = log.borrow();
        log.requests.iter().map(|(at, _)| *at).collect::<Vec<_>>()
    });
    let mut sent: Vec<Nanos> = sent.collect();
    sent.sort();
    sent
}

#[test]
fn users_pause_after_each_response() {
    // The requests of one user take 5 ms, and the pauses 100 ms.
    let outcomes = load("-c 1 -d 1s --think 100ms", steady(ms(5), OK));
    let expected: Vec<Nanos> = (0..10).map(|i| ms(105 * i)).collect();
    assert_eq!(sent(&outcomes), expected);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 10)]);
    // A response time does not include the pause.
    assert!((outcomes.record.response_time_us.max - 5000.0).abs() < 10.0);
    assert_eq!(outcomes.connects(), 1);
}

#[test]
fn first_requests_are_spread_over_one_think_time_on_any_number_of_workers() {
    for workers in [1, 3] {
        let spec = spec("-c 10 -d 1s --think 100ms");
        let servers = (0..workers).map(|_| steady(Nanos::ZERO, OK)).collect();
        let outcomes = simulate(&spec, servers);
        // The first requests are spread evenly, so the rate is constant from the start.
        let expected: Vec<Nanos> = (0..100).map(|i| ms(10 * i)).collect();
        assert_eq!(sent(&outcomes), expected, "{workers} workers");
        assert_eq!(outcomes.connects(), 10);
    }
}

#[test]
fn exponential_pauses_are_repeatable_and_depend_on_the_seed() {
    let run = |seed: u64, workers: usize| {
        let words = format!("-c 20 -d 20s --think exp:500ms --seed {seed}");
        let servers = (0..workers).map(|_| steady(Nanos::ZERO, OK)).collect();
        sent(&simulate(&spec(&words), servers))
    };
    let first = run(1, 1);
    assert_eq!(first, run(1, 1));
    assert_eq!(first, run(1, 4));
    assert_ne!(first, run(2, 1));
    // 20 users with a request every 500 ms send 800 in 20 s. The bounds are four standard
    // deviations away.
    assert!(first.len().abs_diff(800) < 114, "{}", first.len());
    // The first two seconds have as many arrivals as any other two seconds.
    let early = first.iter().filter(|at| **at < Nanos::from_secs(2)).count();
    assert!(early.abs_diff(80) < 36, "{early}");
}

#[test]
fn a_limit_on_requests_ends_the_load() {
    let outcomes = load("-c 3 -n 7 --think 50ms", steady(ms(1), OK));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 7)]);
}

#[test]
fn pauses_follow_failures_and_closed_connections() {
    const CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
    let outcomes = load("-c 1 -d 1s --think 100ms", steady(ms(5), CLOSE));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 10)]);
    assert_eq!(outcomes.connects(), 10);
    let silent = responding(|_| reply([]));
    let outcomes = load("-c 1 -d 1s --think 100ms --timeout 100ms", silent);
    assert_eq!(outcomes.all(), [(Outcome::Timeout, 5)]);
}

#[test]
fn a_busy_generator_is_late_and_the_finding_says_so() {
    // Each response costs the generator 3 ms, but the users would send a request each millisecond.
    let spec = spec("-c 1000 -d 3s --think 1s");
    let server = steady(Nanos::ZERO, OK);
    let outcomes = simulate_costly(&spec, vec![server], Nanos(1_500_000), &Control::new(1));
    let record = &outcomes.record;
    assert!(record.generator.late_us.p99 > 2_000.0);
    let mut findings = record.findings.iter();
    assert!(findings.any(|it| it.id.as_str() == "generator-saturated"));
    let quiet = load("-c 10 -d 1s --think 100ms", steady(ms(1), OK)).record;
    assert_eq!(quiet.generator.late_us.p99, 0.0);
    assert_eq!(quiet.findings, []);
}
