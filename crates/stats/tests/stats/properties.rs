//! Estimators compared with naive implementations, and invariants for arbitrary trials.

use std::collections::BTreeMap;

use prony_stats::{
    Comparison, Design, Estimate, ExperimentInfo, Factor, INTERVAL_BLOCKS_MIN, Levels, Metric,
    Trials, Verdict, VerdictDocument, critical, evaluate,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn design(variants: usize, blocks: (u32, u32), margin: f64, family: &[Metric]) -> Design {
    let levels: Vec<String> = (0..variants).map(|place| format!("v{place}")).collect();
    let named = |level: &String| Levels::from([("stack".to_owned(), level.clone())]);
    Design {
        variants: levels.iter().map(named).collect(),
        baseline: named(&levels[0]),
        factors: vec![Factor {
            name: "stack".to_owned(),
            levels,
        }],
        margin,
        family: family.to_vec(),
        blocks_min: blocks.0,
        blocks_max: blocks.1,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

/// Returns trials with one metric. `blocks` contains the values by block, then by variant.
fn trials(blocks: &[Vec<f64>]) -> Trials {
    let mut trials = Trials::new();
    for (block, variants) in (0..).zip(blocks) {
        for (variant, &value) in variants.iter().enumerate() {
            trials.add(block, variant, BTreeMap::from([(Metric::RatePerS, value)]));
        }
    }
    trials
}

/// Probability that |t| exceeds `t`, computed by summing the density in small steps.
fn naive_p(t: f64, freedom: u32) -> f64 {
    let v = f64::from(freedom);
    let density = |x: f64| (1.0 + x * x / v).powf(-(v + 1.0) / 2.0);
    // Integrates over s with x = s / (1 - s²), which maps 0..1 to 0..∞.
    let sum = |from: f64| {
        let steps = 20_000;
        let width = (1.0 - from) / f64::from(steps);
        (0..steps)
            .map(|step| {
                let s = from + (f64::from(step) + 0.5) * width;
                let x = s / (1.0 - s * s);
                density(x) * (1.0 + s * s) / (1.0 - s * s).powi(2) * width
            })
            .sum::<f64>()
    };
    let from = if t == 0.0 {
        0.0
    } else {
        ((1.0 + 4.0 * t * t).sqrt() - 1.0) / (2.0 * t)
    };
    sum(from) / sum(0.0)
}

/// Holm's procedure as in the paper: sorted p-values against alpha / (m - i), until one fails.
fn naive_holm(p_values: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut rejected = vec![false; p_values.len()];
    for (place, &hypothesis) in order.iter().enumerate() {
        if p_values[hypothesis] > alpha / (p_values.len() - place) as f64 {
            break;
        }
        rejected[hypothesis] = true;
    }
    rejected
}

fn rates(variants: usize, blocks: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<f64>>> {
    let block = prop::collection::vec(900.0..1_100.0, variants);
    prop::collection::vec(block, blocks)
}

/// Generates any value that a broken trial might yield.
fn anything() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        4 => (0.9..1.1_f64).prop_map(Some),
        1 => Just(Some(1.0)),
        1 => prop_oneof![
            Just(None),
            Just(Some(0.0)),
            Just(Some(-1.0)),
            Just(Some(f64::NAN)),
            Just(Some(f64::INFINITY)),
            Just(Some(f64::MAX)),
            Just(Some(f64::MIN_POSITIVE)),
        ],
    ]
}

#[test]
fn tables_of_student() {
    for (miss, freedom, t) in [
        (0.05, 2, 4.302_653),
        (0.05, 4, 2.776_445),
        (0.05, 14, 2.144_787),
        (0.01, 4, 4.604_095),
        (0.001, 7, 5.407_883),
        (0.05, 100, 1.983_972),
    ] {
        assert!(
            (critical(miss, freedom) - t).abs() < 1e-5,
            "{miss} {freedom}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn interval_and_p_value_are_the_naive_ones(
        values in prop::collection::vec(-1.0..1.0_f64, 3..20),
        miss in 0.0005..0.2_f64,
    ) {
        let estimate = Estimate::from_blocks(&values).unwrap();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares = values.iter().map(|value| value * value).sum::<f64>() - n * mean * mean;
        let error = (squares / (n - 1.0) / n).sqrt();
        prop_assert!((estimate.mean - mean).abs() < 1e-12);
        prop_assert!((estimate.error() - error).abs() < 1e-9);
        let freedom = values.len() as u32 - 1;
        let naive = naive_p((mean / error).abs(), freedom);
        prop_assert!((estimate.p_value() - naive).abs() < 1e-4, "{} {naive}", estimate.p_value());
        // The interval misses with the requested probability.
        let reach = (estimate.interval(miss).high - mean) / error;
        prop_assert!((naive_p(reach, freedom) / miss - 1.0).abs() < 1e-2);
    }

    #[test]
    fn a_fixed_design_equals_the_paired_t_test_with_holm(
        blocks in rates(5, 3..12),
        shift in 0.8..1.0_f64,
    ) {
        let mut blocks = blocks;
        for block in &mut blocks {
            block[1] *= shift;
            block[2] *= shift.sqrt();
        }
        let count = blocks.len() as u32;
        // The margin is so small that no verdict is `equivalent`.
        let design = design(5, (count, count), 1e-9, &[Metric::RatePerS]);
        let evaluation = evaluate(&design, &trials(&blocks), &[]).unwrap();
        let p_values: Vec<f64> = (1..5)
            .map(|variant| {
                let logs: Vec<f64> =
                    blocks.iter().map(|block| (block[variant] / block[0]).ln()).collect();
                let estimate = Estimate::from_blocks(&logs).unwrap();
                let effect = &evaluation.comparisons[variant - 1].effect;
                let plain = estimate.interval(0.05);
                assert!((effect.ratio.unwrap().ln() - estimate.mean).abs() < 1e-12);
                assert!((effect.low.unwrap().ln() - plain.low).abs() < 1e-12);
                assert!((effect.high.unwrap().ln() - plain.high).abs() < 1e-12);
                estimate.p_value()
            })
            .collect();
        let decided: Vec<bool> = evaluation
            .comparisons
            .iter()
            .map(|comparison| comparison.verdict != Verdict::Undecided)
            .collect();
        prop_assert_eq!(decided, naive_holm(&p_values, 0.05));
    }

    #[test]
    fn summaries_are_the_naive_ones(blocks in rates(2, 3..12)) {
        let count = blocks.len() as u32;
        let design = design(2, (count, count), 0.02, &[Metric::RatePerS]);
        let evaluation = evaluate(&design, &trials(&blocks), &[]).unwrap();
        for variant in 0..2 {
            let mut values: Vec<f64> = blocks.iter().map(|block| block[variant]).collect();
            values.sort_by(f64::total_cmp);
            let middle = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
            let summary = &evaluation.variants[variant].metrics[&Metric::RatePerS];
            prop_assert!((summary.median - middle).abs() < 1e-9);
            prop_assert_eq!(summary.best, values[values.len() - 1]);
            prop_assert!(summary.low.unwrap() < summary.high.unwrap());
        }
        let ratio = evaluation.comparisons[0].effect.ratio.unwrap();
        let percent = evaluation.variants[1].relative_percent.unwrap();
        prop_assert!((percent - 100.0 * ratio).abs() < 1e-9);
        prop_assert_eq!(evaluation.variants[0].relative_percent, Some(100.0));
    }

    #[test]
    fn the_order_of_adding_and_merging_does_not_matter(
        blocks in rates(3, 1..8),
        order in Just((0..24_usize).collect::<Vec<_>>()).prop_shuffle(),
        half in prop::collection::vec(any::<bool>(), 24),
    ) {
        let all = trials(&blocks);
        let (mut one, mut other) = (Trials::new(), Trials::new());
        for place in order {
            let (block, variant) = (place / 3, place % 3);
            if let Some(variants) = blocks.get(block) {
                let part = if half[place] { &mut one } else { &mut other };
                let values = BTreeMap::from([(Metric::RatePerS, variants[variant])]);
                part.add(block as u32, variant, values);
            }
        }
        one.merge(other);
        prop_assert_eq!(&one, &all);
    }

    #[test]
    fn an_incomplete_block_changes_nothing(blocks in rates(3, 3..8), missing in 0..3_usize) {
        let design = design(3, (5, 15), 0.02, &[Metric::RatePerS]);
        let whole = trials(&blocks);
        let mut more = whole.clone();
        for variant in (0..3).filter(|&variant| variant != missing) {
            more.add(99, variant, BTreeMap::from([(Metric::RatePerS, 5.0)]));
        }
        prop_assert_eq!(
            evaluate(&design, &whole, &[]).unwrap(),
            evaluate(&design, &more, &[]).unwrap()
        );
    }

    #[test]
    fn swapping_the_sides_inverts_the_verdict(blocks in rates(2, 5..6), shift in 0.7..1.3_f64) {
        let forth: Vec<Vec<f64>> =
            blocks.iter().map(|block| vec![block[0], block[1] * shift]).collect();
        let back: Vec<Vec<f64>> =
            forth.iter().map(|block| vec![block[1], block[0]]).collect();
        let design = design(2, (5, 15), 0.02, &[Metric::RatePerS]);
        let verdict = |blocks: &[Vec<f64>]| {
            evaluate(&design, &trials(blocks), &[]).unwrap().comparisons[0].verdict
        };
        let turned = match verdict(&forth) {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            // ±2% of a ratio is a slightly different range from ±2% of its inverse.
            Verdict::Equivalent => return Ok(()),
            same => same,
        };
        prop_assume!(verdict(&back) != Verdict::Equivalent);
        prop_assert_eq!(verdict(&back), turned);
    }

    #[test]
    fn documents_never_contain_nan_or_infinity(
        blocks in prop::collection::vec(prop::collection::vec(
            (anything(), anything(), anything()), 3), 0..9),
    ) {
        let family = [Metric::RatePerS, Metric::FailedShare];
        let design = design(3, (3, 8), 0.02, &family);
        let mut trials = Trials::new();
        for (block, variants) in (0..).zip(&blocks) {
            for (variant, &(rate, failed, memory)) in variants.iter().enumerate() {
                let values = [
                    (Metric::RatePerS, rate),
                    (Metric::FailedShare, failed),
                    (Metric::ServerMemoryBytes, memory),
                ];
                let values = values.into_iter().filter_map(|(metric, value)| Some((metric, value?)));
                trials.add(block, variant, values.collect());
            }
        }
        let evaluation = evaluate(&design, &trials, &[]).unwrap();
        prop_assert_eq!(evaluation.comparisons.len(), 4);
        for comparison in &evaluation.comparisons {
            let effect = &comparison.effect;
            for value in [effect.ratio, effect.low, effect.high].into_iter().flatten() {
                prop_assert!(value.is_finite());
            }
            let judged = matches!(
                comparison.verdict,
                Verdict::Faster | Verdict::Slower | Verdict::Equivalent
            );
            prop_assert!(!judged || comparison.blocks >= INTERVAL_BLOCKS_MIN);
            prop_assert!(!judged || comparison.effect.low.is_some());
        }
        let document = VerdictDocument::new(ExperimentInfo::default(), &design, evaluation, Vec::new());
        let json = serde_json::to_string(&document).unwrap();
        // serde_json would print NaN and infinity as null, which can't be read back as a number.
        let back: VerdictDocument = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(back.comparisons.len(), document.comparisons.len());
    }

    #[test]
    fn evaluating_at_each_look_equals_evaluating_once(blocks in rates(3, 15..16)) {
        let design = design(3, (5, 15), 0.02, &[Metric::RatePerS]);
        let mut earlier = Vec::new();
        let mut before: Vec<Comparison> = Vec::new();
        for look in design.planned_looks() {
            let seen = trials(&blocks[..look as usize]);
            let step = evaluate(&design, &seen, &earlier).unwrap();
            prop_assert_eq!(&step, &evaluate(&design, &seen, &[]).unwrap());
            for (before, now) in before.iter().zip(&step.comparisons) {
                // A verdict may be refined to `equivalent`. It is revoked only if later blocks
                // contradict it, which means that their mean is outside the range that the earlier
                // looks allowed.
                let ratio = now.effect.ratio.unwrap();
                let allowed = before.effect.low.unwrap()..=before.effect.high.unwrap();
                prop_assert!(
                    before.verdict == Verdict::Undecided
                        || now.verdict == before.verdict
                        || now.verdict == Verdict::Equivalent
                        || !allowed.contains(&ratio),
                    "{:?} became {:?} at {look} blocks",
                    before.verdict,
                    now.verdict
                );
            }
            before = step.comparisons;
            earlier = step.looks;
        }
        prop_assert_eq!(earlier.len(), 4);
        prop_assert!((earlier[3].spent_share - 1.0).abs() < 1e-12);
    }
}
