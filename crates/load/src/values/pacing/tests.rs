mod profiles;

use super::*;

const FOREVER: ScheduleEnd = ScheduleEnd {
    requests: u64::MAX,
    counted_from: Nanos::ZERO,
    at: Nanos::MAX,
};

fn shard_schedule(
    arrivals: Arrivals,
    rate: f64,
    seed: u64,
    worker: u64,
    of: u64,
    end: ScheduleEnd,
) -> ArrivalSchedule {
    ArrivalSchedule::new(arrivals, &rate.into(), seed, Shard { worker, of }, end)
}

fn alone(arrivals: Arrivals, rate: f64, seed: u64, end: ScheduleEnd) -> ArrivalSchedule {
    shard_schedule(arrivals, rate, seed, 0, 1, end)
}

/// Merges the arrivals of all workers in order.
fn together(arrivals: Arrivals, rate: f64, seed: u64, of: u64, end: ScheduleEnd) -> Vec<Nanos> {
    let mut all: Vec<_> = (0..of)
        .flat_map(|worker| shard_schedule(arrivals, rate, seed, worker, of, end))
        .collect();
    all.sort();
    all
}

#[test]
fn constant_arrivals_are_evenly_spaced() {
    let all: Vec<_> = alone(Arrivals::Constant, 1000.0, 0, FOREVER)
        .take(5)
        .collect();
    assert_eq!(all, [0, 1, 2, 3, 4].map(Nanos::from_millis));
    // At 0.3 requests per second, the gap isn't a whole number of nanoseconds.
    let late = alone(Arrivals::Constant, 0.3, 0, FOREVER)
        .nth(3_000_000)
        .unwrap();
    assert_eq!(late, Nanos::from_secs(10_000_000));
}

#[test]
fn constant_arrivals_do_not_drift_in_a_hundred_million_requests() {
    for rate in [13, 20_000, 30_000, 123_457, 1_000_000_007] {
        for number in [1, 999, 1_000_000, 100_000_000, 100_000_001] {
            // The schedule of the second of very many workers.
            let mut schedule =
                shard_schedule(Arrivals::Constant, rate as f64, 0, 0, number, FOREVER);
            let found = schedule.nth(1).unwrap();
            let exact = (u128::from(number) * 2_000_000_000 + rate) / (2 * rate);
            assert_eq!(u128::from(found.0), exact, "{number} at {rate}/s");
        }
    }
}

#[test]
fn workers_share_one_schedule_exactly() {
    let ends = [
        ScheduleEnd {
            requests: 1000,
            counted_from: Nanos::ZERO,
            at: Nanos::from_millis(600),
        },
        ScheduleEnd {
            requests: 100,
            counted_from: Nanos::from_millis(300),
            at: Nanos::MAX,
        },
    ];
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        for end in ends {
            let whole: Vec<_> = alone(arrivals, 1000.0, 7, end).collect();
            assert!(whole.len() > 300);
            for of in [2, 3, 16, 1000] {
                assert_eq!(
                    together(arrivals, 1000.0, 7, of, end),
                    whole,
                    "{of} workers"
                );
            }
        }
    }
}

#[test]
fn a_schedule_ends_at_its_count_or_its_time() {
    let by_count = ScheduleEnd {
        requests: 10,
        ..FOREVER
    };
    assert_eq!(alone(Arrivals::Poisson, 100.0, 1, by_count).count(), 10);
    let by_time = ScheduleEnd {
        at: Nanos::from_secs(1),
        ..FOREVER
    };
    assert_eq!(alone(Arrivals::Constant, 100.0, 1, by_time).count(), 100);
    // A warm-up of half a second, with fifty arrivals, and then ten arrivals.
    let warmed = ScheduleEnd {
        counted_from: Nanos::from_millis(500),
        ..by_count
    };
    assert_eq!(alone(Arrivals::Constant, 100.0, 1, warmed).count(), 60);
    // A warm-up that ends between two arrivals, a third of a second apart.
    let between = ScheduleEnd {
        counted_from: Nanos(333_333_334),
        ..by_count
    };
    assert_eq!(alone(Arrivals::Constant, 3.0, 1, between).count(), 12);
}

/// Mean of the exponential distribution that the gaps are tested for.
enum Mean {
    /// The mean is known in advance (Stephens's case 0).
    Known(f64),
    /// The mean is estimated from the gaps.
    Estimated,
}

/// Critical values of the Anderson–Darling statistic at 5% and 1%: Stephens, "EDF Statistics for
/// Goodness of Fit and Some Comparisons", JASA 69 (1974), table 1, and for an exponential
/// distribution with estimated mean table 1.3. A simulation of 20,000 samples agrees.
impl Mean {
    fn critical_5(&self) -> f64 {
        match self {
            Mean::Known(_) => 2.492,
            Mean::Estimated => 1.341,
        }
    }

    fn critical_1(&self) -> f64 {
        match self {
            Mean::Known(_) => 3.857,
            Mean::Estimated => 1.957,
        }
    }

    /// Returns the Anderson–Darling statistic A² of the gaps. For an estimated mean, A² is
    /// corrected for the number of gaps.
    fn statistic(&self, gaps: &[f64]) -> f64 {
        let n = gaps.len() as f64;
        let (mean, correction) = match self {
            Mean::Known(mean) => (*mean, 1.0),
            Mean::Estimated => (gaps.iter().sum::<f64>() / n, 1.0 + 0.6 / n),
        };
        let mut uniform: Vec<f64> = gaps.iter().map(|gap| 1.0 - (-gap / mean).exp()).collect();
        uniform.sort_by(f64::total_cmp);
        // Gaps are whole nanoseconds. A gap of zero would have an infinite logarithm.
        let ln = |share: f64| share.max(1e-12).ln();
        let terms = (1u32..).zip(uniform.iter().zip(uniform.iter().rev()));
        let sum: f64 = terms
            .map(|(i, (low, high))| f64::from(2 * i - 1) * (ln(*low) + ln(1.0 - high)))
            .sum();
        (-n - sum / n) * correction
    }
}

fn gaps(arrivals: &[Nanos]) -> Vec<f64> {
    let gap = |pair: &[Nanos]| pair[1].since(pair[0]).as_secs_f64();
    arrivals.windows(2).map(gap).collect()
}

#[test]
fn poisson_gaps_are_exponential() {
    // The test uses seed 0, which is the default seed of a load.
    let rate = 20_000.0;
    let arrivals: Vec<_> = alone(Arrivals::Poisson, rate, 0, FOREVER)
        .take(50_001)
        .collect();
    for mean in [Mean::Known(1.0 / rate), Mean::Estimated] {
        let statistic = mean.statistic(&gaps(&arrivals));
        assert!(statistic < mean.critical_5(), "A² = {statistic}");
    }
}

#[test]
fn poisson_gaps_are_rejected_no_more_often_than_the_level_of_the_test() {
    const SEEDS: u64 = 100;
    for rate in [0.5, 1_000.0, 20_000.0, 150_000.0] {
        let mut beyond = [0; 4];
        for seed in 0..SEEDS {
            // Each rate has its own seeds, because the same seed gives the same uniform numbers.
            let seed = seed + SEEDS * rate as u64;
            let arrivals: Vec<_> = alone(Arrivals::Poisson, rate, seed, FOREVER)
                .take(1_001)
                .collect();
            let gaps = gaps(&arrivals);
            for (place, mean) in [(0, Mean::Known(1.0 / rate)), (2, Mean::Estimated)] {
                let statistic = mean.statistic(&gaps);
                beyond[place] += u32::from(statistic > mean.critical_5());
                beyond[place + 1] += u32::from(statistic > mean.critical_1());
            }
        }
        // Of 100 samples, 5 are expected to be rejected at the 5% level, and 1 at the 1% level.
        // More than 15 rejections, or more than 6, have a probability of 1e-4.
        for (found, most) in beyond.into_iter().zip([15, 6, 15, 6]) {
            assert!(found <= most, "{beyond:?} of {SEEDS} at {rate}/s");
        }
    }
}

#[test]
fn consecutive_poisson_gaps_are_independent() {
    let arrivals: Vec<_> = alone(Arrivals::Poisson, 20_000.0, 3, FOREVER)
        .take(50_001)
        .collect();
    let gaps = gaps(&arrivals);
    let (n, mean) = (
        gaps.len() as f64,
        gaps.iter().sum::<f64>() / gaps.len() as f64,
    );
    let moment = |lag: usize| -> f64 {
        let pairs = gaps.iter().zip(&gaps[lag..]);
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
    };
    for lag in [1, 2, 10] {
        let correlation = moment(lag) / moment(0);
        assert!(correlation.abs() < 4.0 / n.sqrt(), "{correlation} at {lag}");
    }
}

#[test]
fn poisson_gaps_of_several_workers_are_exponential_together() {
    let rate = 20_000.0;
    let end = ScheduleEnd {
        requests: 20_001,
        ..FOREVER
    };
    for of in [2, 3, 7] {
        let all = together(Arrivals::Poisson, rate, of, of, end);
        let statistic = Mean::Known(1.0 / rate).statistic(&gaps(&all));
        assert!(statistic < 2.492, "A² = {statistic}, {of} workers");
    }
}

/// A single worker has every *n*-th arrival, so its gaps are sums of *n* exponential gaps. The test
/// must reject them, which demonstrates its power.
#[test]
fn the_test_rejects_other_distributions() {
    let rate = 20_000.0;
    let schedule = |arrivals, of| shard_schedule(arrivals, rate, 1, 0, of, FOREVER);
    let rejected = |mean: Mean, gaps: &[f64]| {
        let statistic = mean.statistic(gaps);
        assert!(statistic > mean.critical_1(), "A² = {statistic}");
    };
    let every_second: Vec<_> = schedule(Arrivals::Poisson, 2).take(1_001).collect();
    rejected(Mean::Known(2.0 / rate), &gaps(&every_second));
    rejected(Mean::Estimated, &gaps(&every_second));
    let even: Vec<_> = schedule(Arrivals::Constant, 1).take(1_001).collect();
    rejected(Mean::Estimated, &gaps(&even));
    let all: Vec<_> = schedule(Arrivals::Poisson, 1).take(20_001).collect();
    // The test also rejects a mean that is 3% off, and gaps that are cut off at three times the
    // mean.
    rejected(Mean::Known(1.03 / rate), &gaps(&all));
    let cut: Vec<f64> = gaps(&all).iter().map(|gap| gap.min(3.0 / rate)).collect();
    rejected(Mean::Estimated, &cut);
}

#[test]
fn arrivals_by_worker_are_those_of_their_schedules() {
    let ends = [
        (1000, 0, 600),
        (u64::MAX, 0, 2_345),
        (u64::MAX, 500, 1_501),
        (77, 250, 60_000),
        (5, 0, 1),
    ];
    for (requests, counted_from, at) in ends {
        let end = ScheduleEnd {
            requests,
            counted_from: Nanos::from_millis(counted_from),
            at: Nanos::from_millis(at),
        };
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            for (rate, of) in [(333.3, 1), (1000.0, 3), (9.5, 16)] {
                let expected: Vec<u64> = (0..of)
                    .map(|worker| shard_schedule(arrivals, rate, 7, worker, of, end))
                    .map(|schedule| schedule.filter(|at| *at >= end.counted_from).count() as u64)
                    .collect();
                let found = arrivals_by_worker(arrivals, &rate.into(), 7, of as u32, end);
                assert_eq!(found, Some(expected), "{arrivals:?} {rate} {end:?}");
            }
        }
    }
    let end = ScheduleEnd {
        requests: 10,
        counted_from: Nanos::ZERO,
        at: Nanos::MAX,
    };
    let found = arrivals_by_worker(Arrivals::Constant, &2.0.into(), 0, 3, end);
    assert_eq!(found, Some(vec![4, 3, 3]));
    // Drawing the arrivals of a week would take too long.
    let found = arrivals_by_worker(Arrivals::Poisson, &1e6.into(), 0, 3, FOREVER);
    assert_eq!(found, None);
}
