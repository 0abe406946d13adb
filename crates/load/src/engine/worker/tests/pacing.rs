//! Tests that requests follow the schedule with any number of connections and workers, and that the
//! record distinguishes intended from actual starts.

use crate::carrier::ByteTransport;
use prony_record::{Nanos, Outcome};

use super::*;
use crate::values::pacing::{ArrivalSchedule, Arrivals, ScheduleEnd};

/// Returns the times at which requests were sent, in order.
fn starts(outcomes: &Outcomes) -> Vec<Nanos> {
    let sent = |log: &Rc<RefCell<Log>>| -> Vec<Nanos> {
        log.borrow().requests.iter().map(|(at, _)| *at).collect()
    };
    let mut all: Vec<Nanos> = outcomes.logs.iter().flat_map(sent).collect();
    all.sort();
    all
}

#[test]
fn starts_follow_the_schedule_for_any_connections_and_workers() {
    let end = ScheduleEnd {
        requests: u64::MAX,
        counted_from: Nanos::ZERO,
        at: Nanos::from_secs(2),
    };
    for (arrivals, words) in [
        (Arrivals::Constant, "--arrivals constant"),
        (Arrivals::Poisson, "--arrivals poisson --seed 5"),
    ] {
        let whole = Shard { worker: 0, of: 1 };
        let schedule: Vec<_> =
            ArrivalSchedule::new(arrivals, &3000.0.into(), 5, whole, end).collect();
        assert!(schedule.len() > 5_500);
        for (connections, workers) in [(1, 1), (10, 1), (1000, 1), (10, 4), (1000, 7)] {
            let spec = spec(&format!("-r 3000 -c {connections} -d 2s {words}"));
            let servers = (0..workers).map(|_| steady(Nanos::ZERO, OK)).collect();
            let outcomes = simulate(&spec, servers);
            let with = format!("{words} -c {connections}, {workers} workers");
            assert!(starts(&outcomes) == schedule, "{with}");
            let record = &outcomes.record;
            assert_eq!(
                record.rate.started_per_s, record.rate.offered_per_s,
                "{with}"
            );
            assert_eq!(record.generator.late_us.max, 0.0, "{with}");
            let gaps = record.generator.start_gaps.as_ref().unwrap();
            assert_eq!(gaps.actual, gaps.intended, "{with}");
        }
    }
}

#[test]
fn starts_follow_a_profile_for_any_connections_and_workers() {
    let warmup = Nanos::from_millis(500);
    let end = ScheduleEnd {
        requests: u64::MAX,
        counted_from: warmup,
        at: Nanos::from_millis(3_500),
    };
    for (arrivals, words) in [
        (Arrivals::Constant, "--arrivals constant"),
        (Arrivals::Poisson, "--arrivals poisson --seed 5"),
    ] {
        let words =
            format!("--stages 400@0s,3000@1s,0@1s,0@500ms,800@500ms --warmup 500ms {words}");
        let rate = LoadSettings::from_flags(&words).rate_profile().unwrap();
        let whole = Shard { worker: 0, of: 1 };
        let schedule: Vec<_> = ArrivalSchedule::new(arrivals, &rate, 5, whole, end).collect();
        // About 200 arrivals are in the warm-up, and about 1,700, 1,500 and 200 in the later
        // stages.
        assert!(schedule.len().abs_diff(3_600) < 200, "{}", schedule.len());
        let counted = schedule.iter().filter(|at| **at >= warmup).count() as u64;
        for (connections, workers) in [(1, 1), (1000, 1), (10, 4)] {
            let servers = (0..workers).map(|_| steady(Nanos::ZERO, OK)).collect();
            let outcomes = simulate(&spec(&format!("{words} -c {connections}")), servers);
            let with = format!("{words} -c {connections}, {workers} workers");
            assert!(starts(&outcomes) == schedule, "{with}");
            let record = &outcomes.record;
            assert_eq!(record.totals.started, counted, "{with}");
            assert_eq!(record.generator.late_us.max, 0.0, "{with}");
            // The time series covers only the measured part. The rate is zero in the fifth slice of
            // the series.
            let offered = record
                .series
                .iter()
                .map(|slice| slice.offered_per_s.unwrap());
            let offered: Vec<u64> = offered.map(|rate| rate.round() as u64).collect();
            assert_eq!(offered, [1_050, 2_350, 2_250, 750, 0, 400], "{with}");
        }
    }
}

#[test]
fn gaps_vary_as_the_arrivals_do() {
    let variation = |words: &str, workers: usize| {
        let servers = (0..workers).map(|_| steady(Nanos::ZERO, OK)).collect();
        let spec = spec(&format!("-r 3000 -c 10 -d 5s {words}"));
        let gaps = simulate(&spec, servers)
            .record
            .generator
            .start_gaps
            .unwrap();
        (gaps.intended.mean_us, gaps.intended.variation)
    };
    let close_to = |(mean, variation): (f64, f64), expected: (f64, f64)| {
        assert!(
            (mean / expected.0 - 1.0).abs() < 0.03,
            "{mean} {expected:?}"
        );
        assert!(
            (variation - expected.1).abs() < 0.03,
            "{variation} {expected:?}"
        );
    };
    close_to(variation("--arrivals constant", 1), (333.3, 0.0));
    close_to(variation("--arrivals constant", 4), (1333.3, 0.0));
    close_to(variation("--arrivals poisson", 1), (333.3, 1.0));
    // Each worker has every fourth arrival of a Poisson process. The relative deviation of a sum of
    // four gaps is half as large as that of a single gap.
    close_to(variation("--arrivals poisson", 4), (1333.3, 0.5));
}

#[test]
fn bursts_after_a_server_freeze_are_not_generator_lateness() {
    // No response arrives from 1 s to 2 s. Then all waiting requests are sent without a pause, four
    // at a time.
    let frozen = responding(|request| {
        let thaws = match request.now.0 / 1_000_000_000 {
            1 => Nanos::from_secs(2),
            _ => request.now,
        };
        reply([(thaws.since(request.now), Step::Send(OK.to_vec()))])
    });
    let record = load("-r 1000 -c 4 -d 4s", frozen).record;
    assert_eq!(record.outcomes, [(Outcome::Ok, 4000)].into());
    let gaps = record.generator.start_gaps.unwrap();
    assert_eq!(gaps.intended.variation, 0.0);
    assert!(gaps.actual.max_us > 990_000.0, "{gaps:?}");
    assert!(gaps.actual.variation > 5.0, "{gaps:?}");
    assert_eq!(record.generator.late_us.max, 0.0);
}

#[test]
fn a_generator_that_is_too_slow_is_late() {
    // Each response costs the generator 3 ms, and a request is due every millisecond.
    let words = "-r 1000 -c 1000 -d 1s";
    let server = steady(Nanos::ZERO, OK);
    let cost = Nanos(1_500_000);
    let outcomes = simulate_costly(&spec(words), vec![server], cost, &Control::new(1));
    let record = &outcomes.record;
    assert!(record.generator.late_us.p99 > 2_000.0);
    for id in ["schedule-missed", "generator-saturated"] {
        assert!(record.findings.iter().any(|f| f.id.as_str() == id), "{id}");
    }
}

/// A server that responds after 600 ms. At each request and each response, it records the time up
/// to which results have been published.
struct PublicationObserver {
    control: Rc<Control>,
    seen: Rc<RefCell<Vec<Nanos>>>,
}

impl PublicationObserver {
    fn observe(&self) {
        self.seen.borrow_mut().push(self.control.complete_until());
    }
}

impl Server for PublicationObserver {
    fn connect(&mut self, _now: Nanos) -> Connect {
        Connect::Accept(Nanos::ZERO)
    }

    fn sealed(&mut self, _connection: u64, bytes: Vec<u8>) -> Vec<u8> {
        self.observe();
        bytes
    }

    fn response(&mut self, _request: &ReceivedRequest) -> Reply {
        self.observe();
        reply([(ms(600), Step::Send(OK.to_vec()))])
    }
}

#[test]
fn results_are_published_after_the_starts_that_are_due() {
    let control = Rc::new(Control::new(1));
    control.watch();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let server = Box::new(PublicationObserver {
        control: Rc::clone(&control),
        seen: Rc::clone(&seen),
    });
    let spec = spec("-r 1 -c 1 -d 3s");
    let sockets = SimulatedSockets::new(1, server);
    let worker = Worker::new(&spec, Shard { worker: 0, of: 1 }, ByteTransport(sockets));
    worker.run(&control, control.counter(0).unwrap());
    // Requests start at 0 s, 1 s and 2 s. The results of each half second are published at its end.
    // They are neither delayed until the response 100 ms later, nor published before a request that
    // starts at the same time.
    assert_eq!(*seen.borrow(), [0, 500, 500, 1500, 1500, 2500].map(ms));
}
