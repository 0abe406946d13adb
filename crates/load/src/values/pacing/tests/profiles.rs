//! Tests of rates that change over time: arrival times are the inverse of the integrated rate.

use prony_record::{RateStage, StagedRate};

use super::*;

fn profile(stages: &[(f64, f64)]) -> RateProfile {
    let stages = stages.iter().map(|&(rate_per_s, length_s)| RateStage {
        rate_per_s,
        length_s,
    });
    RateProfile::Staged(StagedRate::new(&stages.collect::<Vec<_>>()))
}

/// Up to eight random stages of at most 40 s, including jumps and stages without arrivals.
fn random_stages(seed: u64) -> Vec<(f64, f64)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = |choices: &[f64]| choices[random.random_range(0..choices.len())];
    let count = draw(&[1.0, 2.0, 3.0, 5.0, 8.0]) as usize;
    let stage = |_| {
        let rate_per_s = draw(&[0.0, 0.0, 0.3, 7.0, 250.0, 1_234.5, 3_000.0]);
        (rate_per_s, draw(&[0.0, 0.001, 0.37, 1.0, 2.5, 5.0]))
    };
    (0..count).map(stage).collect()
}

/// Random profiles with at least one arrival, their lengths, and warm-ups.
fn random_profiles() -> impl Iterator<Item = (RateProfile, f64, Nanos)> {
    (0..200).filter_map(|seed| {
        let stages = random_stages(seed);
        let length_s = stages.iter().map(|stage| stage.1).sum();
        let warmup = Nanos::from_millis([0, 0, 400, 1_333][seed as usize % 4]);
        let profile = profile(&stages);
        (profile.arrivals_until(length_s) > 0.0).then_some((profile, length_s, warmup))
    })
}

fn schedule(
    arrivals: Arrivals,
    rate: &RateProfile,
    (worker, of): (u64, u64),
    warmup: Nanos,
) -> ArrivalSchedule {
    let end = ScheduleEnd {
        counted_from: warmup,
        ..FOREVER
    };
    ArrivalSchedule::new(arrivals, rate, 7, Shard { worker, of }, end)
}

#[test]
fn a_linear_rate_has_the_arrivals_of_its_integral() {
    // From 0 to 100 per second in 10 s: t(k) = √(k / 5).
    let rate = profile(&[(100.0, 10.0)]);
    let all: Vec<_> = schedule(Arrivals::Constant, &rate, (0, 1), Nanos::ZERO).collect();
    assert_eq!(all.len(), 500);
    for (number, at) in (0u32..).zip(&all) {
        let exact = (f64::from(number) / 5.0).sqrt();
        assert!((at.as_secs_f64() - exact).abs() < 1e-9, "{number}: {at}");
    }
}

#[test]
fn the_number_of_arrivals_is_the_integral_at_any_time() {
    for (rate, length_s, warmup) in random_profiles() {
        let all: Vec<_> = schedule(Arrivals::Constant, &rate, (0, 1), warmup).collect();
        assert!(all.is_sorted(), "{rate:?}");
        let whole = rate.after_warmup(warmup.as_secs_f64());
        let end_s = length_s + warmup.as_secs_f64();
        for step in 0..=100 {
            let at_s = end_s * f64::from(step) / 100.0;
            let expected = whole.arrivals_until(at_s);
            let found = all.partition_point(|at| at.as_secs_f64() < at_s) as f64;
            assert!(
                (found - expected).abs() <= 1.0,
                "{found} of {expected} until {at_s}: {rate:?}"
            );
        }
        let expected = whole.arrivals_until(end_s);
        assert!((all.len() as f64 - expected).abs() <= 1.0, "{rate:?}");
    }
}

#[test]
fn nothing_arrives_while_the_rate_is_zero() {
    let rate = profile(&[
        (0.0, 2.0),
        (100.0, 0.0),
        (100.0, 1.0),
        (0.0, 0.0),
        (0.0, 3.0),
        (50.0, 4.0),
    ]);
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let all: Vec<_> = schedule(arrivals, &rate, (0, 1), Nanos::ZERO).collect();
        assert!(all.len() > 150);
        for at in all {
            let at_s = at.as_secs_f64();
            let is_busy = (2.0..=3.0).contains(&at_s) || (6.0..=10.0).contains(&at_s);
            assert!(is_busy, "{at}");
        }
    }
}

#[test]
fn workers_divide_a_profile_exactly() {
    for (rate, _, warmup) in random_profiles().take(60) {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let whole: Vec<_> = schedule(arrivals, &rate, (0, 1), warmup).collect();
            for of in [2, 3, 16] {
                let mut all: Vec<_> = (0..of)
                    .flat_map(|worker| schedule(arrivals, &rate, (worker, of), warmup))
                    .collect();
                all.sort();
                assert_eq!(all, whole, "{of} workers: {rate:?}");
            }
        }
    }
}

#[test]
fn arrivals_of_a_profile_are_counted_like_drawn_ones() {
    for (seed, (rate, _, warmup)) in (0..).zip(random_profiles()) {
        let end = ScheduleEnd {
            requests: [u64::MAX, 50][seed % 2],
            counted_from: warmup,
            at: [Nanos::MAX, Nanos::from_millis(4_321)][seed / 2 % 2],
        };
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let of = 1 + seed as u64 % 5;
            let expected: Vec<u64> = (0..of)
                .map(|worker| ArrivalSchedule::new(arrivals, &rate, 7, Shard { worker, of }, end))
                .map(|schedule| schedule.filter(|at| *at >= end.counted_from).count() as u64)
                .collect();
            let found = arrivals_by_worker(arrivals, &rate, 7, of as u32, end);
            assert_eq!(found, Some(expected), "{arrivals:?} {rate:?} {end:?}");
        }
    }
}

#[test]
fn a_level_profile_has_the_constant_schedule() {
    for rate in [0.7, 1_000.0, 12_345.0] {
        let level = profile(&[(rate, 0.0), (rate, 20.0)]);
        for warmup in [Nanos::ZERO, Nanos::from_millis(1_500)] {
            let found = schedule(Arrivals::Constant, &level, (0, 1), warmup);
            let expected = schedule(Arrivals::Constant, &rate.into(), (0, 1), warmup);
            for (found, expected) in found.zip(expected) {
                assert!(found.0.abs_diff(expected.0) <= 1, "{found} {expected}");
            }
        }
    }
}

/// If arrivals are an inhomogeneous Poisson process, their times on the scale of the integrated
/// rate are a Poisson process of rate 1, so their gaps are exponential with mean 1.
#[test]
fn time_rescaled_gaps_of_poisson_profiles_are_exponential() {
    const SEEDS: u64 = 60;
    let whole = Shard { worker: 0, of: 1 };
    let profiles = [
        vec![(4_000.0, 2.0)],
        vec![(50.0, 0.0), (2_000.0, 1.5), (2_000.0, 0.5), (0.0, 3.0)],
        vec![
            (0.0, 1.0),
            (800.0, 0.0),
            (800.0, 2.0),
            (3_000.0, 0.0),
            (100.0, 1.0),
        ],
    ];
    for stages in profiles {
        let rate = profile(&stages);
        let mut beyond = [0; 2];
        for seed in 0..SEEDS {
            let all = ArrivalSchedule::new(Arrivals::Poisson, &rate, seed, whole, FOREVER);
            let rescaled: Vec<f64> = all
                .map(|at| rate.arrivals_until(at.as_secs_f64()))
                .collect();
            assert!(rescaled.len() > 1_000);
            // The number of gaps is fixed, because the end of the profile would cut off the last
            // gap.
            let gaps = rescaled.windows(2).map(|pair| pair[1] - pair[0]);
            let gaps: Vec<f64> = gaps.take(1_000).collect();
            let mean = Mean::Known(1.0);
            let statistic = mean.statistic(&gaps);
            beyond[0] += u32::from(statistic > mean.critical_5());
            beyond[1] += u32::from(statistic > mean.critical_1());
        }
        // Of 60 samples, 3 are expected to be rejected at the 5% level, and 0.6 at the 1% level.
        // More than 11 rejections, or more than 5, have a probability of 1e-4. The seeds are fixed.
        for (found, most) in beyond.into_iter().zip([11, 5]) {
            assert!(found <= most, "{beyond:?} of {SEEDS}: {stages:?}");
        }
        // The test rejects gaps that aren't rescaled.
        let all = ArrivalSchedule::new(Arrivals::Poisson, &rate, 0, whole, FOREVER);
        let raw = gaps(&all.collect::<Vec<_>>());
        assert!(Mean::Estimated.statistic(&raw) > Mean::Estimated.critical_1());
    }
}
