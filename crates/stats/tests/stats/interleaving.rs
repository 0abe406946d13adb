//! Interleaved and sequential blocks on simulated machines whose speed changes. docs/validation.md
//! contains the results, which `cargo test -p prony-stats interleaving -- --nocapture` prints.

use crate::simulation::machine::{BlockMode, MachineExperiment, MachineKind, MachineResult};
use crate::simulation::{Draws, Setting, Share};
use prony_stats::{
    AlphaTable, Comparison, Design, Evaluation, RoundMetric, Verdict, compare_rounds, evaluate_with,
};

const EXPERIMENTS: u32 = 2_000;
/// Relative rate of the second server, whose requests need 8% more work.
const SLOWER: f64 = 1.0 / 1.08;
const COVERAGE_MIN: f64 = 0.93;

/// Results of many experiments of one kind.
struct Simulated {
    covered: Share,
    /// Share of experiments with the verdict `faster` or `slower`.
    apart: Share,
    /// Mean width of the intervals: the mean logarithm of high / low.
    width: f64,
    /// Mean error of the estimated log ratios.
    bias: f64,
}

fn design(mode: BlockMode) -> Design {
    let blocks = (mode.blocks(), mode.blocks());
    let mut setting = Setting::new(&[1.0, 1.0], 0.0, blocks);
    // The margin is so small that it can't hide a false alarm.
    setting.margin = 1e-6;
    setting.design()
}

fn simulate(experiment: MachineExperiment, seed: u64) -> Simulated {
    let (design, mut table) = (design(experiment.mode), AlphaTable::new());
    let mut draws = Draws::seeded(seed);
    let (mut covered, mut apart, mut width, mut bias) = (0, 0, 0.0, 0.0);
    for _ in 0..EXPERIMENTS {
        let result = experiment.run(&mut draws);
        let evaluation = evaluate_with(&mut table, &design, &result.trials, &[]).unwrap();
        let comparison = &evaluation.comparisons[0];
        let (low, high) = interval(comparison);
        covered += u32::from(low <= experiment.ratio && experiment.ratio <= high);
        let verdict = comparison.verdict;
        apart += u32::from(matches!(verdict, Verdict::Faster | Verdict::Slower));
        width += (high / low).ln();
        bias += (comparison.effect.ratio.unwrap() / experiment.ratio).ln();
    }
    let share = |count| Share {
        count,
        of: EXPERIMENTS,
    };
    let simulated = Simulated {
        covered: share(covered),
        apart: share(apart),
        width: width / f64::from(EXPERIMENTS),
        bias: bias / f64::from(EXPERIMENTS),
    };
    println!(
        "{experiment:?}: covers {:.1}%, apart {:.1}%, interval ±{:.2}%, bias {:+.3}%",
        100.0 * simulated.covered.value(),
        100.0 * simulated.apart.value(),
        50.0 * simulated.width,
        100.0 * simulated.bias
    );
    simulated
}

fn interval(comparison: &Comparison) -> (f64, f64) {
    let effect = &comparison.effect;
    (effect.low.unwrap(), effect.high.unwrap())
}

/// Simulates both modes with a known difference. Returns the width of the interleaved intervals
/// divided by the width of the sequential intervals.
fn relative_width(kind: MachineKind, seed: u64) -> f64 {
    let modes = [BlockMode::Sequential, BlockMode::Interleaved];
    let [sequential, interleaved] = modes.map(|mode| {
        let experiment = MachineExperiment {
            kind,
            mode,
            ratio: SLOWER,
        };
        let simulated = simulate(experiment, seed);
        assert!(simulated.covered.value() >= COVERAGE_MIN, "{experiment:?}");
        simulated
    });
    assert!(interleaved.bias.abs() < 0.001, "{}", interleaved.bias);
    interleaved.width / sequential.width
}

#[test]
fn intervals_cover_and_narrow_next_to_a_bursty_neighbor() {
    let relative = relative_width(MachineKind::Neighbor, 101);
    assert!(relative <= 1.0 / 3.0, "{relative}");
}

#[test]
fn intervals_cover_and_narrow_on_a_drifting_machine() {
    let relative = relative_width(MachineKind::Drifting, 102);
    assert!(relative <= 1.0 / 3.0, "{relative}");
}

#[test]
fn intervals_cover_and_narrow_on_a_jumping_machine() {
    let relative = relative_width(MachineKind::Jumping, 103);
    assert!(relative <= 1.0 / 3.0, "{relative}");
}

#[test]
fn interleaving_costs_little_on_a_quiet_machine() {
    let relative = relative_width(MachineKind::Quiet, 104);
    assert!(relative <= 1.1, "{relative}");
}

/// Short blocks follow each other without a restart, so their values could be correlated.
#[test]
fn intervals_of_short_blocks_cover_on_machines_that_change() {
    let kinds = [
        MachineKind::Quiet,
        MachineKind::Drifting,
        MachineKind::Jumping,
        MachineKind::Neighbor,
    ];
    for (kind, seed) in kinds.into_iter().zip(201..) {
        let experiment = MachineExperiment {
            kind,
            mode: BlockMode::Running,
            ratio: SLOWER,
        };
        let covered = simulate(experiment, seed).covered.value();
        assert!(
            (COVERAGE_MIN..=0.97).contains(&covered),
            "{experiment:?} {covered}"
        );
    }
}

#[test]
fn equal_servers_rarely_get_a_verdict() {
    for (mode, seed) in [(BlockMode::Sequential, 105), (BlockMode::Interleaved, 106)] {
        let experiment = MachineExperiment {
            kind: MachineKind::Neighbor,
            mode,
            ratio: 1.0,
        };
        let apart = simulate(experiment, seed).apart;
        let error = (0.05 * 0.95 / f64::from(apart.of)).sqrt();
        assert!(
            apart.value() <= 0.05 + 3.0 * error,
            "{experiment:?}: {apart:?}"
        );
    }
}

/// The rounds of a block share the start of its services, so their spread doesn't include
/// differences between starts.
#[test]
fn the_interval_from_rounds_alone_misses_too_often() {
    let (design, mut table) = (design(BlockMode::Interleaved), AlphaTable::new());
    let experiment = MachineExperiment {
        kind: MachineKind::Quiet,
        mode: BlockMode::Interleaved,
        ratio: SLOWER,
    };
    let mut draws = Draws::seeded(107);
    let mut covered = 0;
    for _ in 0..500 {
        let MachineResult { trials, rounds } = experiment.run(&mut draws);
        let evaluation: Evaluation = evaluate_with(&mut table, &design, &trials, &[]).unwrap();
        let compared = compare_rounds(&design, &evaluation, RoundMetric::RatePerS, &rounds);
        let [compared] = &compared[..] else {
            panic!("{compared:?}");
        };
        // For rates, the effect from blocks equals the effect in the verdict.
        assert_eq!(compared.effect, evaluation.comparisons[0].effect);
        assert!(
            (compared.rounds_ratio / compared.effect.ratio.unwrap())
                .ln()
                .abs()
                < 0.01
        );
        let (low, high) = (compared.rounds_low.unwrap(), compared.rounds_high.unwrap());
        covered += u32::from(low <= SLOWER && SLOWER <= high);
    }
    println!(
        "the intervals from rounds alone cover the difference in {covered} of 500 experiments"
    );
    assert!(covered < 450, "{covered} of 500");
}
