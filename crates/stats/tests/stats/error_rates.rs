//! Checks of the promised error rates, by simulation with fixed seeds. With 2,000 experiments, a
//! share near 5% has a standard error of 0.5 points.

use crate::simulation::{Draws, Noise, Setting, Share};
use prony_stats::{
    Estimate, Evaluation, Look, Trials, Verdict, evaluate, nominal_alphas, spent_share,
};

const EXPERIMENTS: u32 = 2_000;

fn share(of: u32, seed: u64, mut holds: impl FnMut(&mut Draws) -> bool) -> Share {
    let mut draws = Draws::seeded(seed);
    let count = (0..of).filter(|_| holds(&mut draws)).count() as u32;
    Share { count, of }
}

/// Asserts that the share is at most `limit`, with a tolerance of three standard errors of the
/// simulation.
fn assert_at_most(share: Share, limit: f64, what: &str) {
    let error = (limit * (1.0 - limit) / f64::from(share.of)).sqrt();
    println!("{what}: {:.3} ± {error:.3}, at most {limit}", share.value());
    assert!(
        share.value() <= limit + 3.0 * error,
        "{what}: {:.4} of {}",
        share.value(),
        share.of
    );
}

fn any_apart(evaluation: &Evaluation) -> bool {
    let apart = |verdict| matches!(verdict, Verdict::Faster | Verdict::Slower);
    evaluation
        .comparisons
        .iter()
        .any(|comparison| apart(comparison.verdict))
}

/// A setting without any difference. Its margin is so small that it can't hide a false alarm.
fn nothing(variants: usize, blocks: (u32, u32)) -> Setting {
    let mut setting = Setting::new(&vec![1.0; variants], 0.02, blocks);
    setting.margin = 1e-4;
    setting
}

fn covers(evaluation: &Evaluation, comparison: usize, truth: f64) -> bool {
    let effect = &evaluation.comparisons[comparison].effect;
    effect.low.unwrap() <= truth && truth <= effect.high.unwrap()
}

#[test]
fn the_levels_spend_exactly_what_they_may() {
    let blocks = [3_u32, 5, 7, 10, 15];
    let looks = blocks.map(|blocks| Look {
        blocks,
        spent_share: spent_share(f64::from(blocks) / 15.0),
    });
    let alpha = 0.05;
    let levels = nominal_alphas(&looks, alpha);
    let of = 100_000;
    let mut draws = Draws::seeded(1);
    let mut first_passed = [0_u32; 5];
    for _ in 0..of {
        let values: Vec<f64> = (0..15).map(|_| draws.normal()).collect();
        let passes = |&look: &usize| {
            let seen = &values[..blocks[look] as usize];
            Estimate::from_blocks(seen).unwrap().p_value() <= levels[look]
        };
        if let Some(look) = (0..5).find(passes) {
            first_passed[look] += 1;
        }
    }
    let mut before = 0.0;
    for (look, count) in looks.iter().zip(first_passed) {
        let may = alpha * look.spent_share - before;
        let error = (may / f64::from(of)).sqrt();
        let did = f64::from(count) / f64::from(of);
        assert!(
            (did - may).abs() < 4.0 * error,
            "{} blocks: {did} for {may}",
            look.blocks
        );
        before = alpha * look.spent_share;
    }
}

#[test]
fn a_share_of_the_error_rate_never_has_a_higher_level() {
    // This condition makes Holm's procedure a closed test at every look.
    let looks = [5_u32, 7, 10, 15].map(|blocks| Look {
        blocks,
        spent_share: spent_share(f64::from(blocks) / 15.0),
    });
    let mut before = nominal_alphas(&looks, 0.05);
    for sharing in 2..40 {
        let now = nominal_alphas(&looks, 0.05 / f64::from(sharing));
        assert!(
            now.iter().zip(&before).all(|(now, before)| now < before),
            "{sharing}"
        );
        before = now;
    }
}

#[test]
fn false_alarms_with_peeking_are_at_most_five_percent() {
    for (variants, seed) in [(2, 2), (4, 3)] {
        let setting = nothing(variants, (5, 15));
        let alarms = share(EXPERIMENTS, seed, |draws| any_apart(&setting.run(draws)));
        assert_at_most(alarms, 0.05, &format!("{variants} variants"));
    }
}

#[test]
fn false_alarms_stay_rare_when_noise_is_not_normal() {
    for (kind, seed) in [
        (Noise::HeavyTails, 4),
        (Noise::Uneven, 5),
        (Noise::Skewed, 6),
    ] {
        let setting = nothing(4, (5, 15)).with(kind);
        let alarms = share(EXPERIMENTS, seed, |draws| any_apart(&setting.run(draws)));
        assert_at_most(alarms, 0.05, &format!("{kind:?}"));
    }
}

#[test]
fn the_simulation_sees_naive_peeking() {
    // If each look could spend the whole 5%, the simulation would show it.
    let mut draws = Draws::seeded(7);
    let alarms = (0..EXPERIMENTS)
        .filter(|_| {
            let values: Vec<f64> = (0..15).map(|_| draws.normal()).collect();
            [5, 7, 10, 15]
                .iter()
                .any(|&blocks| Estimate::from_blocks(&values[..blocks]).unwrap().p_value() <= 0.05)
        })
        .count();
    assert!(alarms as f64 / f64::from(EXPERIMENTS) > 0.09, "{alarms}");
}

#[test]
fn intervals_cover_after_peeking() {
    for (truth, seed) in [(1.0, 8), (0.99, 9), (0.97, 10), (0.9, 11)] {
        let setting = Setting::new(&[1.0, truth, 1.0], 0.02, (5, 15));
        let missed = share(EXPERIMENTS, seed, |draws| {
            !covers(&setting.run(draws), 0, truth)
        });
        assert_at_most(missed, 0.05, &format!("truth {truth}"));
    }
}

#[test]
fn an_experiment_cut_short_and_resumed_keeps_its_error_rate() {
    // The experiment stops at an unplanned block for a reason independent of the results, and is
    // resumed.
    let setting = nothing(2, (5, 15));
    let design = setting.design();
    let alarms = share(EXPERIMENTS, 12, |draws| {
        let stop = 3 + (12.0 * draws.uniform()) as u32;
        let mut trials = Trials::new();
        (0..stop).for_each(|block| setting.block(&mut trials, block, draws));
        let cut = evaluate(&design, &trials, &[]).unwrap();
        let was = any_apart(&cut);
        (stop..15).for_each(|block| setting.block(&mut trials, block, draws));
        let end = evaluate(&design, &trials, &cut.looks).unwrap();
        was || any_apart(&end)
    });
    assert_at_most(alarms, 0.05, "cut short and resumed");
}

#[test]
fn more_blocks_than_planned_have_no_error_rate_left() {
    let setting = nothing(2, (5, 15));
    let mut draws = Draws::seeded(13);
    let mut trials = Trials::new();
    (0..15).for_each(|block| setting.block(&mut trials, block, &mut draws));
    let planned = evaluate(&setting.design(), &trials, &[]).unwrap();
    (15..40).for_each(|block| setting.block(&mut trials, block, &mut draws));
    let more = evaluate(&setting.design(), &trials, &planned.looks).unwrap();
    assert_eq!(more.comparisons, planned.comparisons);
    assert_eq!(more.looks, planned.looks);
    assert_eq!(more.blocks, 40);
}

#[test]
fn a_slowdown_is_found() {
    let slower = |rates: &[f64], noise, blocks, seed| {
        let setting = Setting::new(rates, noise, blocks);
        share(400, seed, |draws| {
            setting.run(draws).comparisons[0].verdict == Verdict::Slower
        })
        .value()
    };
    // The true difference is 3%, with 1% and 2% of noise. Even with 2%, it is nearly always found
    // within 15 blocks.
    assert!(slower(&[1.0, 0.97], 0.01, (5, 5), 14) > 0.95);
    assert!(slower(&[1.0, 0.97], 0.02, (5, 15), 15) > 0.95);
    assert!(slower(&[1.0, 0.97, 1.0, 1.0], 0.02, (5, 15), 16) > 0.9);
    // The true difference is 10%, with 2% of noise, four variants and five blocks.
    assert!(slower(&[1.0, 0.9, 1.0, 1.0], 0.02, (5, 5), 17) > 0.98);
}

#[test]
fn five_blocks_of_a_quiet_machine_show_equivalence() {
    let setting = Setting::new(&[1.0, 1.0], 0.005, (5, 15));
    let equivalent = share(400, 18, |draws| {
        setting.run(draws).comparisons[0].verdict == Verdict::Equivalent
    });
    assert!(equivalent.value() > 0.95, "{}", equivalent.value());
}

#[test]
fn a_difference_of_the_margin_is_rarely_called_equivalent() {
    let mut setting = Setting::new(&[1.0, 0.98], 0.01, (5, 15));
    setting.margin = 0.02;
    let wrong = share(EXPERIMENTS, 19, |draws| {
        setting.run(draws).comparisons[0].verdict == Verdict::Equivalent
    });
    assert_at_most(wrong, 0.025, "equivalent at the margin");
}
