//! Coverage of the intervals within one run, on simulated queues whose true values are known.

use std::collections::BTreeMap;

use prony_record::{
    Distribution, IntervalRefusal, LoadHistory, Nanos, RandomSequence, coarse_time_of,
};
use prony_stats::within_run::{Precision, PrecisionWatch, RunSample, precision_intervals};

/// A queue with one server and Poisson arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Queue {
    /// Exponential service times.
    Mm1 { load: f64 },
    /// Constant service times.
    Md1 { load: f64 },
    /// Exponential service times. The arrivals pause every second on average, for as long as they
    /// last.
    OnOff,
}

/// Mean service rate of the queues, per second.
const SERVICE_RATE: f64 = 400.0;
const HALF_SECONDS_MAX: usize = 7_200;

const QUEUES: [Queue; 5] = [
    Queue::Mm1 { load: 0.5 },
    Queue::Mm1 { load: 0.8 },
    Queue::Md1 { load: 0.5 },
    Queue::Md1 { load: 0.8 },
    Queue::OnOff,
];

/// A running simulation.
struct Simulation {
    queue: Queue,
    random: RandomSequence,
    /// Time of the last arrival.
    now_s: f64,
    /// Time until which the server is busy.
    busy_until_s: f64,
    /// Arrivals occur until the first time and begin again at the second.
    on: (f64, f64),
    /// A request that ends after the half second.
    next: (f64, f64),
}

impl Simulation {
    fn new(queue: Queue, seed: u64) -> Simulation {
        let mut simulation = Simulation {
            queue,
            random: RandomSequence::new(seed),
            now_s: 0.0,
            busy_until_s: 0.0,
            on: (0.0, 0.0),
            next: (0.0, 0.0),
        };
        simulation.next = simulation.request();
        simulation
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.next_share()).ln()
    }

    /// Returns the end of the next request and its response time.
    fn request(&mut self) -> (f64, f64) {
        let load = match self.queue {
            Queue::Mm1 { load } | Queue::Md1 { load } => load,
            Queue::OnOff => 0.8,
        };
        self.now_s += self.exponential(1.0 / (SERVICE_RATE * load));
        while self.queue == Queue::OnOff && self.now_s > self.on.0 {
            let begin = self.on.1;
            let end = begin + self.exponential(1.0);
            self.on = (end, end + self.exponential(1.0));
            self.now_s = begin + self.exponential(1.0 / (SERVICE_RATE * load));
        }
        let service = match self.queue {
            Queue::Md1 { .. } => 1.0 / SERVICE_RATE,
            _ => self.exponential(1.0 / SERVICE_RATE),
        };
        self.busy_until_s = self.busy_until_s.max(self.now_s) + service;
        (self.busy_until_s, self.busy_until_s - self.now_s)
    }

    /// Adds the half second with the given index.
    fn half_second(&mut self, index: usize, history: &mut LoadHistory, all: &mut Distribution) {
        let mut counts = BTreeMap::<Nanos, u64>::new();
        let mut ok = 0;
        while self.next.0 < (index + 1) as f64 * 0.5 {
            let time = Nanos::from_secs_f64(self.next.1);
            all.record(time);
            *counts.entry(coarse_time_of(time)).or_default() += 1;
            ok += 1;
            self.next = self.request();
        }
        history
            .half_seconds
            .push((ok, counts.into_iter().collect()));
    }
}

/// Returns the true rate, or the true quantile of the response time in microseconds.
fn truth(queue: Queue, metric: &str, long: &Distribution) -> f64 {
    let quantile: f64 = match metric {
        "p50" => 0.5,
        "p99" => 0.99,
        _ => {
            return SERVICE_RATE
                * match queue {
                    Queue::Mm1 { load } | Queue::Md1 { load } => load,
                    Queue::OnOff => 0.4,
                };
        }
    };
    match queue {
        Queue::Mm1 { load } => -(1.0_f64 - quantile).ln() / (SERVICE_RATE * (1.0 - load)) * 1e6,
        _ => long.quantile(quantile).0.as_micros_f64(),
    }
}

/// Result of many simulated loads with one precision.
#[derive(Debug, Default)]
struct Coverage {
    runs: u32,
    covered: u32,
    reached: u32,
    refused: u32,
    seconds: f64,
}

fn simulate(
    queue: Queue,
    precision: &str,
    runs: u64,
    seconds_max: usize,
    long: &Distribution,
) -> Coverage {
    let wanted = [Precision::parse(precision).unwrap()];
    let truth = truth(queue, precision.split(' ').next().unwrap(), long);
    let mut coverage = Coverage::default();
    for run in 0..runs {
        let mut simulation = Simulation::new(queue, 1_000 * run + 17);
        let (mut history, mut all) = (LoadHistory::default(), Distribution::new());
        let mut watch = PrecisionWatch::new(&wanted);
        let half_seconds_max = (2 * seconds_max).min(HALF_SECONDS_MAX);
        let mut is_reached = false;
        while !is_reached && history.half_seconds.len() < half_seconds_max {
            simulation.half_second(history.half_seconds.len(), &mut history, &mut all);
            if watch.is_due(history.half_seconds.len()) {
                let sample = RunSample {
                    history: &history,
                    times: &all,
                    unsuccessful: 0,
                };
                is_reached = watch.evaluate(&sample).is_reached;
            }
        }
        let sample = RunSample {
            history: &history,
            times: &all,
            unsuccessful: 0,
        };
        let interval = precision_intervals(&sample, &wanted).remove(0);
        coverage.seconds += history.half_seconds.len() as f64 / 2.0 / runs as f64;
        coverage.reached += u32::from(is_reached);
        let Some((low, high)) = interval.low.zip(interval.high) else {
            coverage.refused += 1;
            continue;
        };
        coverage.runs += 1;
        coverage.covered += u32::from(low <= truth && truth <= high);
    }
    coverage
}

fn long_run(queue: Queue, half_seconds: usize) -> Distribution {
    let mut simulation = Simulation::new(queue, 3);
    let (mut history, mut all) = (LoadHistory::default(), Distribution::new());
    for index in 0..half_seconds {
        simulation.half_second(index, &mut history, &mut all);
        history.half_seconds.clear();
    }
    all
}

#[test]
fn intervals_cover_the_truth_in_simulated_loads() {
    let cases = [
        (Queue::Mm1 { load: 0.5 }, "rate 5%", 40),
        (Queue::Mm1 { load: 0.5 }, "p50 15%", 40),
        (Queue::Mm1 { load: 0.8 }, "p50 20%", 40),
        (Queue::Md1 { load: 0.8 }, "p50 15%", 40),
        (Queue::Md1 { load: 0.5 }, "p99 20%", 20),
        (Queue::OnOff, "p50 20%", 40),
    ];
    for (queue, precision, runs) in cases {
        let long = long_run(queue, 20_000);
        let found = simulate(queue, precision, runs, 600, &long);
        let least = runs * 85 / 100;
        let case = format!("{queue:?} {precision}: {found:?}");
        assert!(u64::from(found.covered) >= least, "{case}");
        assert!(u64::from(found.reached) >= least, "{case}");
    }
}

#[test]
fn a_load_whose_precision_is_far_away_learns_early_what_it_needs() {
    let wanted = [Precision::parse("p99 2%").unwrap()];
    let mut simulation = Simulation::new(Queue::Mm1 { load: 0.5 }, 5);
    let (mut history, mut all) = (LoadHistory::default(), Distribution::new());
    let mut watch = PrecisionWatch::new(&wanted);
    for index in 0..24 {
        simulation.half_second(index, &mut history, &mut all);
    }
    assert!(watch.is_due(24));
    let mut found = |unsuccessful| {
        watch.evaluate(&RunSample {
            history: &history,
            times: &all,
            unsuccessful,
        })
    };
    let enough = found(0);
    assert!(
        !enough.is_reached && enough.needs_s.unwrap() > 100.0,
        "{enough:?}"
    );
    let failed = found(200).intervals.remove(0);
    assert!(matches!(
        failed.refused,
        Some(IntervalRefusal::Failures { .. })
    ));
    // The same queue becomes slower by and by.
    for (index, (_, times)) in history.half_seconds.iter_mut().enumerate() {
        for (time, _) in times.iter_mut() {
            *time = coarse_time_of(Nanos(time.0 * (10 + index as u64) / 10));
        }
    }
    let interval = precision_intervals(
        &RunSample {
            history: &history,
            times: &all,
            unsuccessful: 0,
        },
        &[Precision::parse("p50 5%").unwrap()],
    );
    let refused = interval[0].refused;
    assert!(
        matches!(refused, Some(IntervalRefusal::Drifting { .. })),
        "{refused:?}"
    );
}

#[test]
fn precisions_are_a_metric_and_a_percentage() {
    for good in ["p99 5%", "rate 1%", "p(99.9)  10%", "p50 1.6%"] {
        assert!(Precision::parse(good).is_ok(), "{good}");
    }
    for bad in [
        "p99",
        "p99 5",
        "5%",
        "p99 5% x",
        "p50 1%",
        "rate 0%",
        "failed 5%",
        "service.p50 5%",
        "max 5%",
        "p100 5%",
        "p0 5%",
        "",
    ] {
        assert!(Precision::parse(bad).is_err(), "{bad}");
    }
}

/// The largest simulation takes minutes; `cargo xtask verify` runs it.
#[test]
#[ignore = "takes minutes"]
fn intervals_cover_the_truth_in_many_simulated_loads() {
    let runs = std::env::var("SIMULATED_RUNS").map_or(200, |runs| runs.parse().unwrap());
    let mut failed = Vec::new();
    for queue in QUEUES {
        let long = long_run(queue, 200_000);
        for precision in ["rate 2%", "p50 5%", "p99 10%"] {
            let found = simulate(queue, precision, runs, 3_600, &long);
            let share = f64::from(found.covered) / f64::from(found.runs);
            println!("{queue:?} {precision}: {:.1}% of {found:?}", share * 100.0);
            if !(0.91..=0.995).contains(&share) {
                failed.push(format!("{queue:?} {precision} {share}"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
