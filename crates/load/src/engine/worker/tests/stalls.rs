//! Tests of generators that pause during a load, and of servers that stall.

use crate::carrier::ByteTransport;
use prony_record::{FindingId, Severity};

use super::*;

/// Runs a load with one worker, which is paused for `length` at the time `at`.
fn stopped(words: &str, server: Box<dyn Server>, at: Nanos, length: Nanos) -> Outcomes {
    let spec = spec(words);
    let shard = Shard { worker: 0, of: 1 };
    let sockets = SimulatedSockets::new(spec.connections_max(shard) as usize, server);
    let sockets = sockets.with_stop(at, length);
    let logs = vec![sockets.log()];
    let worked = Worker::new(&spec, shard, ByteTransport(sockets))
        .run(&Control::new(1), &Counter::default());
    let record = merge(&spec, vec![worked], SystemTime::UNIX_EPOCH)
        .unwrap()
        .record;
    Outcomes { record, logs }
}

#[test]
fn a_stopped_generator_is_reported_and_the_server_is_not_blamed() {
    for words in ["-c 1 -r 100 -d 10s", "-c 1 -d 10s", "-c 4 -r 400 -d 10s"] {
        let outcomes = stopped(words, steady(ms(1), OK), ms(3_001), ms(2_000));
        let stalls = outcomes.record.generator.stalls.unwrap();
        assert_eq!(stalls.count, 1, "{words}");
        assert!((1.9..=2.0).contains(&stalls.total_s), "{words} {stalls:?}");
        assert!(
            (3.0..3.1).contains(&stalls.longest_at_s),
            "{words} {stalls:?}"
        );
        let stalled = outcomes.record.findings.iter();
        let stalled = stalled
            .clone()
            .find(|it| it.id == FindingId::GeneratorStalled);
        let finding = stalled.unwrap();
        assert_eq!(finding.severity, Severity::Error);
        let expected = "The generator stalled for 2.0 s, 3.0 s into the measured part. ";
        assert!(
            finding.text.starts_with(expected),
            "{words} {}",
            finding.text
        );
        for finding in &outcomes.record.findings {
            assert!(!finding.text.contains("The server"), "{}", finding.text);
        }
    }
}

#[test]
fn a_generator_that_is_stopped_until_the_end_is_reported() {
    let outcomes = stopped(
        "-c 2 -r 100 -d 5s",
        steady(ms(1), OK),
        ms(4_001),
        ms(60_000),
    );
    let stalls = outcomes.record.generator.stalls.unwrap();
    assert!((0.9..=1.0).contains(&stalls.total_s), "{stalls:?}");
    assert!(outcomes.finding("generator-stalled").is_some());
    let missed = outcomes.finding("schedule-missed").unwrap();
    assert!(missed.contains("The generator stalled"), "{missed}");
}

#[test]
fn neither_a_busy_machine_nor_a_silent_server_is_a_stall() {
    let outcomes = stopped("-c 1 -r 100 -d 10s", steady(ms(1), OK), ms(3_001), ms(400));
    assert_eq!(outcomes.record.generator.stalls, None);
    // In the first load, nothing arrives for seconds while the worker sleeps. In the second load,
    // the worker takes 200 ms for each completion.
    let outcomes = load("-c 1 -d 20s", steady(ms(6_000), OK));
    assert_eq!(outcomes.record.generator.stalls, None);
    let servers = vec![steady(ms(1), OK)];
    let outcomes = simulate_costly(&spec("-c 4 -d 20s"), servers, ms(200), &Control::new(1));
    assert_eq!(outcomes.record.generator.stalls, None);
    assert!(outcomes.finding("generator-stalled").is_none());
}

#[test]
fn a_stall_before_the_measured_part_does_not_count() {
    let outcomes = stopped(
        "-c 1 -d 5s --warmup 4s",
        steady(ms(1), OK),
        ms(1_000),
        ms(2_000),
    );
    assert_eq!(outcomes.record.generator.stalls, None);
}

#[test]
fn requests_in_flight_at_the_end_of_a_healthy_closed_loop_set_no_lower_bound() {
    let record = load("-c 50 -d 2s", steady(ms(30), OK)).record;
    assert_eq!(record.totals.unfinished, 50);
    assert_eq!(record.totals.unfinished_untimed, 50);
    assert_eq!(record.totals.censored, 0);
    assert!(record.response_time_us.at_least.is_empty());
    assert!(record.service_time_us.at_least.is_empty());
}

#[test]
fn a_server_stall_until_the_end_is_visible() {
    // Requests that arrive from 1.5 s on get no response.
    let server = responding(|request| {
        if request.now < ms(1_500) {
            reply([(ms(30), Step::Send(OK.to_vec()))])
        } else {
            Reply::default()
        }
    });
    let record = load("-c 50 -d 2s", server).record;
    assert_eq!(record.totals.unfinished_untimed, 0);
    assert_eq!(record.totals.censored, 50);
    assert!(record.response_time_us.max > 470_000.0);
    assert!(record.response_time_us.at_least.contains(&"p99".to_owned()));
}

/// Returns the lowest and the highest rank, as shares, that a reported value may have among the
/// true response times.
fn ranks(truth: &[u64], value_us: f64) -> (f64, f64) {
    let share = |n: usize| n as f64 / truth.len() as f64;
    let below = |us: f64| truth.partition_point(|&ns| (ns as f64) < us * 1e3);
    // The range allows for the histogram's resolution.
    (
        share(below(value_us * 0.998)),
        share(below(value_us * 1.002)),
    )
}

#[test]
fn leaving_out_recent_requests_biases_percentiles_by_at_most_their_share() {
    use rand::SeedableRng;
    for seed in 0..12 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (usual, heavy, often) = (
            random.random_range(1_000_000..8_000_000u64),
            random.random_range(5_000_000..200_000_000u64),
            random.random_range(0..40),
        );
        let truth: Rc<RefCell<Vec<u64>>> = Rc::default();
        let all = Rc::clone(&truth);
        let server = responding(move |_| {
            let takes = if random.random_range(0..1000) < often {
                random.random_range(usual..usual + heavy)
            } else {
                random.random_range(usual / 2..usual)
            };
            all.borrow_mut().push(takes);
            reply([(Nanos(takes), Step::Send(OK.to_vec()))])
        });
        let record = load("-c 20 -d 2s", server).record;
        let mut truth = truth.borrow().clone();
        truth.sort_unstable();
        let totals = &record.totals;
        assert_eq!(
            totals.censored + totals.unfinished_untimed,
            totals.unfinished
        );
        let bound = totals.unfinished as f64 / totals.started as f64;
        let times = &record.response_time_us;
        for (quantile, name, seen) in [
            (0.5, "p50", times.p50),
            (0.9, "p90", times.p90),
            (0.99, "p99", times.p99),
        ] {
            let (least, most) = ranks(&truth, seen);
            let is_bound = times.at_least.iter().any(|it| it == name);
            assert!(least <= quantile + bound, "{seed} {name} {least} {bound}");
            // If only a lower bound is known, the true value may be higher.
            assert!(
                most >= quantile - bound || is_bound,
                "{seed} {name} {most} {bound}"
            );
        }
    }
}
