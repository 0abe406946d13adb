//! Tests that, against a steady server, a load in slices has the same results as a load in one
//! piece.

use super::*;
use crate::values::pacing::{ArrivalSchedule, Arrivals, ScheduleEnd};

const SETTLING: Nanos = ms(20);
const LENGTH: Nanos = ms(250);

/// Twelve slices of three seconds in total, with pauses of 600 ms.
fn twelve() -> Vec<Turn> {
    turns(12, SETTLING, LENGTH, ms(600))
}

/// A server that responds after two milliseconds, and closes each connection after one response.
fn closing() -> Box<dyn Server> {
    responding(|_| reply([(ms(2), Step::Send(OK_CLOSE.to_vec())), (ms(2), Step::Close)]))
}

fn steady_2ms() -> Box<dyn Server> {
    steady(ms(2), OK)
}

/// Runs a load in slices and in one piece, and compares the results.
pub(in crate::engine::worker::tests) fn assert_agrees(
    spec: &LoadSpec,
    server: impl Fn() -> Box<dyn Server>,
    workers: usize,
) -> SlicedOutcomes {
    let servers = || (0..workers).map(|_| server()).collect();
    let whole = simulate(spec, servers()).record;
    let sliced = simulate_slices(spec, servers(), &twelve());
    let record = &sliced.outcomes.record;
    assert_eq!(record.totals.elapsed_s, 3.0);
    assert_eq!((whole.totals.failed, record.totals.failed), (0, 0));
    assert_eq!(record.totals.retried, 0);
    let ratio = record.rate.ok_per_s / whole.rate.ok_per_s;
    assert!((0.99..=1.01).contains(&ratio), "{ratio}");
    for (a, b) in [
        (&whole.response_time_us, &record.response_time_us),
        (&whole.service_time_us, &record.service_time_us),
        (&whole.first_byte_us, &record.first_byte_us),
    ] {
        assert_eq!((a.p50, a.p90, a.p99), (b.p50, b.p90, b.p99));
        assert_eq!(a.max, b.max);
    }
    for report in sliced.reports() {
        assert_eq!(report.excess(&[]), Nanos::ZERO);
    }
    sliced
}

#[test]
fn closed_loops_agree() {
    for (words, workers) in [("-c 8", 1), ("-c 1", 1), ("-c 7", 3)] {
        let spec = spec(&format!("{words} -d 3s --warmup 20ms"));
        let sliced = assert_agrees(&spec, steady_2ms, workers);
        // Connections stay open during the pauses, so none is opened twice.
        let connections = u64::from(sliced.outcomes.record.load.connections);
        assert_eq!(sliced.outcomes.connects() as u64, connections, "{words}");
    }
}

#[test]
fn closed_loops_with_a_connection_per_request_agree() {
    let spec = spec("-c 8 -d 3s --warmup 20ms --no-keepalive");
    let sliced = assert_agrees(&spec, closing, 1);
    let totals = &sliced.outcomes.record.totals;
    assert_eq!(totals.connections_opened, totals.started);
}

#[test]
fn open_loops_agree() {
    for arrivals in ["constant", "poisson"] {
        for (keepalive, workers) in [("", 1), ("", 3), ("--no-keepalive", 1)] {
            // With 60 connections, no request waits for a connection.
            let words = format!("-r 1000 -c 60 --arrivals {arrivals} {keepalive}");
            let spec = spec(&format!("{words} -d 3s --warmup 20ms"));
            let server = match keepalive {
                "" => steady_2ms,
                _ => closing,
            };
            let sliced = assert_agrees(&spec, server, workers);
            let rate = &sliced.outcomes.record.rate;
            assert_eq!(Some(rate.ok_per_s), rate.offered_per_s, "{words}");
        }
    }
}

/// Returns the arrivals of a load's schedule that fall into its twelve slices.
fn schedule(arrivals: Arrivals, rate: f64, seed: u64) -> Vec<Nanos> {
    let end = ScheduleEnd {
        requests: u64::MAX,
        counted_from: Nanos::ZERO,
        at: SETTLING + Nanos(LENGTH.0 * 12),
    };
    let whole = Shard { worker: 0, of: 1 };
    let schedule = ArrivalSchedule::new(arrivals, &rate.into(), seed, whole, end);
    schedule.filter(|due| *due >= SETTLING).collect()
}

#[test]
fn an_open_loop_counts_the_requests_of_its_schedule() {
    for (arrivals, name) in [
        (Arrivals::Constant, "constant"),
        (Arrivals::Poisson, "poisson"),
    ] {
        let due = schedule(arrivals, 1000.0, 5);
        for workers in [1, 3] {
            let words = format!("-r 1000 -c 60 --arrivals {name} --seed 5 --warmup 20ms");
            let servers = (0..workers).map(|_| steady_2ms()).collect();
            let sliced = simulate_slices(&spec(&words), servers, &twelve());
            let counted = sliced.counted();
            let mut starts: Vec<_> = counted.map(|(it, _)| (it.intended, it.sent)).collect();
            starts.sort();
            // Each request starts when it is due.
            let expected: Vec<_> = due.iter().map(|due| (*due, *due)).collect();
            assert!(starts == expected, "{words} {workers}");
        }
    }
}

#[test]
fn the_backlog_of_an_overloaded_server_waits_while_the_load_pauses() {
    for (arrivals, name) in [
        (Arrivals::Constant, "constant"),
        (Arrivals::Poisson, "poisson"),
    ] {
        // 1000 requests per second are due, and 800 are served.
        let words = format!("-r 1000 -c 4 --arrivals {name} --seed 5 --warmup 20ms");
        let spec = spec(&words);
        let sliced = simulate_slices(&spec, vec![steady(ms(5), OK)], &twelve());
        let due = schedule(arrivals, 1000.0, 5);
        let intended: Vec<_> = sliced.counted().map(|(it, _)| it.intended).collect();
        assert!(intended == due[..intended.len()], "{words}");
        let totals = &sliced.outcomes.record.totals;
        assert_eq!(totals.started + totals.unstarted, due.len() as u64);
        // Response times don't include the pauses between slices.
        let whole = load(&format!("{words} -d 3s"), steady(ms(5), OK)).record;
        let record = &sliced.outcomes.record;
        for (a, b) in [
            (whole.rate.ok_per_s, record.rate.ok_per_s),
            (whole.response_time_us.p50, record.response_time_us.p50),
            (whole.response_time_us.p99, record.response_time_us.p99),
        ] {
            assert!((a / b - 1.0).abs() < 0.02, "{name} {a} {b}");
        }
    }
}

#[test]
fn a_worker_without_connections_only_waits() {
    let spec = spec("-c 1 --warmup 20ms");
    let sliced = simulate_slices(&spec, vec![steady_2ms(), steady_2ms()], &twelve());
    assert_eq!(sliced.workers[1].reports, [SliceReport::default(); 12]);
    assert_eq!(sliced.outcomes.record.totals.ok, 1500);
}

#[test]
fn a_ramp_of_many_connections_continues_in_the_next_slice() {
    // 16 connection attempts begin per millisecond, so the first slice is too short for all of
    // them.
    let spec = spec("-c 1000 --warmup 10ms");
    let turns = turns(20, ms(10), ms(20), ms(100));
    let sliced = simulate_slices(&spec, vec![steady_2ms()], &turns);
    assert_eq!(sliced.outcomes.connects(), 1000);
    let drains = sliced.reports().map(|report| report.drain);
    assert!(drains.max().unwrap() <= ms(2));
    let last = sliced.workers[0].reports.last().unwrap();
    assert_eq!(last.ok, 10_000);
}
