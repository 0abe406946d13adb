//! Comparison of two runs.

use prony_stats::gate::GateOutcome;
use prony_stats::runs::{
    Run, RunInfo, RunPairInfo, RunVariant, RunWithheld, RunsDocument, TrialValues, WithheldMetric,
    combined, compare,
};
use prony_stats::{Levels, Metric, Verdict, WithheldBecause};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn about() -> RunPairInfo {
    let one = |label: &str| RunInfo {
        label: label.to_owned(),
        source: format!("runs/{label}"),
        name: "test".to_owned(),
        started_at: String::new(),
        unit: "block".to_owned(),
        count: 0,
    };
    RunPairInfo {
        old: one("A"),
        new: one("B"),
        differences: Vec::new(),
        unrecorded: Vec::new(),
        findings: Vec::new(),
    }
}

fn levels(level: &str) -> Levels {
    [("socket".to_owned(), level.to_owned())].into()
}

/// Returns a run in which `tcp` and `unix` (the baseline) have the given rates, with `blocks`
/// blocks.
fn run(rates: [f64; 2], noise: f64, blocks: u32, random: &mut ChaCha8Rng) -> Run {
    let mut normal = || -> f64 { (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0 };
    let names = ["tcp", "unix"];
    let mut trials = Vec::new();
    for block in 1..=blocks {
        // All trials of a block share this factor.
        let shared = (noise * normal()).exp();
        for (variant, rate) in rates.iter().enumerate() {
            let value = rate * shared * (noise * normal()).exp();
            trials.push(TrialValues {
                block,
                variant,
                values: [(Metric::RatePerS, value), (Metric::P99Us, 1e6 / value)].into(),
            });
        }
    }
    Run {
        variants: names
            .map(|name| RunVariant {
                name: name.to_owned(),
                levels: levels(name),
            })
            .to_vec(),
        baseline: levels("unix"),
        margin: 0.02,
        family: vec![Metric::RatePerS],
        trials,
        doubts: Vec::new(),
        is_series: false,
    }
}

fn verdicts(document: &RunsDocument) -> Vec<Verdict> {
    let each = document.comparisons.iter();
    each.filter_map(|between| between.verdict).collect()
}

#[test]
fn a_slower_variant_is_named_with_its_regression_and_the_others_are_equivalent() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let old = run([900.0, 1_000.0], 0.003, 8, &mut random);
    let new = run([810.0, 1_000.0], 0.003, 6, &mut random);
    let document = compare(about(), &old, &new, None);
    assert_eq!(verdicts(&document), [Verdict::Slower, Verdict::Equivalent]);
    let [tcp, unix] = document.comparisons.as_slice() else {
        panic!("two variants");
    };
    assert_eq!(tcp.regression, Some(GateOutcome::Failed));
    assert_eq!(unix.regression, Some(GateOutcome::Passed));
    assert!((tcp.effect.ratio.unwrap() - 0.9).abs() < 0.01);
    assert_eq!((tcp.old_trials, tcp.new_trials), (8, 6));
    // The ratio to the baseline changed by the same amount as the rate of `tcp`.
    let relative = &document.relative[0];
    assert!((relative.effect.ratio.unwrap() - 0.9).abs() < 0.02);
    assert_eq!(
        (relative.name.as_str(), relative.against_name.as_str()),
        ("tcp", "unix")
    );
    // p99 is outside the family, so it is shown without a verdict.
    assert!(document.described.iter().all(|one| one.verdict.is_none()));
    assert_eq!(document.described[0].metric, Metric::P99Us);
}

#[test]
fn a_wider_margin_rules_out_the_regression() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let old = run([900.0, 1_000.0], 0.003, 8, &mut random);
    let new = run([870.0, 1_000.0], 0.003, 8, &mut random);
    let of = |margin| compare(about(), &old, &new, Some(margin)).comparisons[0].regression;
    assert_eq!(of(0.01), Some(GateOutcome::Failed));
    assert_eq!(of(0.10), Some(GateOutcome::Passed));
}

#[test]
fn one_trial_per_run_has_no_verdict() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let old = run([900.0, 1_000.0], 0.01, 1, &mut random);
    let new = run([800.0, 1_000.0], 0.01, 1, &mut random);
    let document = compare(about(), &old, &new, None);
    let tcp = &document.comparisons[0];
    assert_eq!(tcp.verdict, Some(Verdict::Withheld));
    assert_eq!(tcp.regression, Some(GateOutcome::Unclear));
    assert!(tcp.effect.ratio.is_some() && tcp.effect.low.is_none());
    assert_eq!(tcp.withheld, Some(RunWithheld::TooFew { old: 1, new: 1 }));
    assert_eq!(document.relative, []);
}

#[test]
fn verdicts_withheld_in_either_run_stay_withheld() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut old = run([900.0, 1_000.0], 0.01, 5, &mut random);
    let mut new = run([800.0, 1_000.0], 0.01, 5, &mut random);
    old.doubts.push(WithheldMetric {
        variant: 0,
        metric: Metric::RatePerS,
        because: WithheldBecause::Noise,
    });
    new.trials[3].values.remove(&Metric::RatePerS);
    let document = compare(about(), &old, &new, None);
    assert_eq!(verdicts(&document), [Verdict::Withheld, Verdict::Withheld]);
    let [tcp, unix] = document.comparisons.as_slice() else {
        panic!("two variants");
    };
    let own = RunWithheld::Own {
        run: "A".to_owned(),
        because: WithheldBecause::Noise,
    };
    assert_eq!(tcp.withheld, Some(own));
    let unmeasured = RunWithheld::Unmeasured {
        run: "B".to_owned(),
        trials: vec![2],
    };
    assert_eq!(unix.withheld, Some(unmeasured));
}

#[test]
fn variants_that_one_run_lacks_are_named() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let old = run([900.0, 1_000.0], 0.01, 5, &mut random);
    let mut new = run([900.0, 1_000.0], 0.01, 5, &mut random);
    new.variants[0] = RunVariant {
        name: "quic".to_owned(),
        levels: levels("quic"),
    };
    let document = compare(about(), &old, &new, None);
    assert_eq!(
        (document.only_old, document.only_new),
        (vec!["tcp".into()], vec!["quic".into()])
    );
    assert_eq!(document.comparisons.len(), 1);
}

/// If nothing changed, at most one run in twenty reports a difference, and the intervals contain
/// the true value. False regressions are much rarer.
#[test]
fn false_alarms_are_at_most_five_percent() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let (runs, mut alarms, mut regressions, mut covered) = (4_000, 0, 0, 0);
    for _ in 0..runs {
        let old = run([900.0, 1_000.0], 0.02, 5, &mut random);
        let new = run([900.0, 1_000.0], 0.02, 7, &mut random);
        let document = compare(about(), &old, &new, None);
        let differs = |verdict: &Verdict| matches!(verdict, Verdict::Faster | Verdict::Slower);
        alarms += u32::from(verdicts(&document).iter().any(differs));
        let mut each = document.comparisons.iter();
        regressions += u32::from(each.any(|one| one.regression == Some(GateOutcome::Failed)));
        let effect = &document.comparisons[0].effect;
        let ends = effect.low.zip(effect.high).unwrap();
        covered += u32::from(ends.0 <= 1.0 && 1.0 <= ends.1);
    }
    let share = |count: u32| f64::from(count) / f64::from(runs);
    assert!(share(alarms) < 0.062, "false alarms: {}", share(alarms));
    assert!(
        share(regressions) < 0.02,
        "false regressions: {}",
        share(regressions)
    );
    assert!(
        (0.938..0.965).contains(&share(covered)),
        "coverage: {}",
        share(covered)
    );
}

#[test]
fn a_run_is_judged_by_the_spread_of_earlier_runs() {
    // The runs differ by more than their blocks do.
    const RUNS: usize = 400;
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let mut false_alarms = 0;
    for _ in 0..RUNS {
        let mut drawn = || -> Run {
            let day: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            let rate = 10_000.0 * (0.03 * day).exp();
            run([rate, rate], 0.002, 5, &mut random)
        };
        let earlier: Vec<Run> = (0..8).map(|_| drawn()).collect();
        let series = combined(&earlier).unwrap();
        let document = compare(about(), &series, &drawn(), Some(0.001));
        let found = document.comparisons.iter();
        false_alarms += usize::from(
            found
                .into_iter()
                .any(|it| matches!(it.verdict, Some(Verdict::Slower | Verdict::Faster))),
        );
    }
    // 5% at most, and the sampling error of 400 draws.
    assert!(false_alarms <= 33, "{false_alarms} of {RUNS}");

    let earlier: Vec<Run> = (0..8)
        .map(|_| run([1_000.0, 1_000.0], 0.01, 5, &mut random))
        .collect();
    let slower = run([800.0, 1_000.0], 0.01, 5, &mut random);
    let series = combined(&earlier).unwrap();
    let document = compare(about(), &series, &slower, None);
    assert_eq!(document.comparisons[0].verdict, Some(Verdict::Slower));
    assert_eq!(combined(&earlier[..2]), None);

    // Runs before the last change are left out.
    let after = (0..9).map(|_| run([800.0, 1_000.0], 0.01, 5, &mut random));
    let both: Vec<Run> = earlier.into_iter().chain(after).collect();
    assert_eq!(combined(&both).unwrap().trials.len(), 2 * 9);
}
