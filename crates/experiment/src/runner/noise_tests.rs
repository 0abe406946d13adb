//! Tests of verdicts on a crowded machine, with simulated trials in which a variant is slowed down
//! by the fraction of the cores that neighbors use.

use prony_record::RandomSequence;
use prony_stats::{
    AlphaTable, CoreParties, Factor, Levels, Metric, Trials, Values, evaluate, evaluate_with,
};

use super::*;
use crate::runner::resource_use::{CoreUse, ResourceUse};

fn design(blocks: u32) -> Design {
    let levels = |level: &str| Levels::from([("socket".to_owned(), level.to_owned())]);
    Design {
        factors: vec![Factor {
            name: "socket".to_owned(),
            levels: vec!["new".to_owned(), "old".to_owned()],
        }],
        variants: vec![levels("new"), levels("old")],
        baseline: levels("old"),
        margin: 0.02,
        family: vec![Metric::RatePerS, Metric::P99Us],
        blocks_min: blocks,
        blocks_max: blocks,
        alpha: 0.05,
        goals: Vec::new(),
    }
}

/// Returns a trial in which neighbors used the fraction `taken` of the services' core.
fn trial(block: u32, variant: usize, taken: f64) -> TrialResult {
    let parties = CoreParties {
        cores: 1,
        services: 100.0 * (1.0 - taken),
        others: 100.0 * taken,
        named: 100.0 * taken,
        ..CoreParties::default()
    };
    let group = CoreUse {
        services: vec!["web".to_owned()],
        cores: 1,
        parties: Some(parties),
        ..CoreUse::default()
    };
    TrialResult {
        block,
        variant,
        position: variant,
        values: Values::new(),
        telemetry: crate::runner::TrialTelemetry {
            services_cores: 1,
            foreign_percent: 100.0 * taken,
            top_foreign: Some("yes".to_owned()),
            ..Default::default()
        },
        resources: ResourceUse {
            tied: vec![group],
            machine_cores: 2,
            ..ResourceUse::default()
        },
        responses: Default::default(),
        hosts: Default::default(),
        findings: Vec::new(),
        slices: Vec::new(),
        search: None,
        functions: std::collections::BTreeMap::new(),
        waits: std::collections::BTreeMap::new(),
        record: None,
    }
}

/// Reproducible random numbers.
struct Draws(RandomSequence);

impl Draws {
    /// Returns an approximately normal number with a standard deviation of 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.0.next_share()).sum::<f64>() - 6.0
    }
}

/// Simulates an experiment in which `ratio` is the true ratio of the new variant's rate to the old
/// one's. `taken` returns the fraction of the cores that neighbors use in a trial of a variant.
fn experiment(
    blocks: u32,
    ratio: f64,
    draws: &mut Draws,
    mut taken: impl FnMut(&mut Draws, usize) -> f64,
) -> (Trials, Vec<TrialResult>) {
    let (mut trials, mut results) = (Trials::new(), Vec::new());
    for block in 1..=blocks {
        let first = usize::from(draws.0.next_share() < 0.5);
        for variant in [first, 1 - first] {
            let taken = taken(draws, variant);
            let of_variant = [ratio, 1.0][variant];
            let rate = 1_000.0 * of_variant * (1.0 - taken) * (0.01 * draws.normal()).exp();
            let values = [(Metric::RatePerS, rate), (Metric::P99Us, 1e6 / rate)];
            trials.add(block, variant, Values::from(values));
            results.push(trial(block, variant, taken));
        }
    }
    (trials, results)
}

fn judged(
    blocks: u32,
    ratio: f64,
    taken: impl FnMut(&mut Draws, usize) -> f64,
) -> (Evaluation, Vec<NoiseEffect>, Option<ExperimentFinding>) {
    let design = design(blocks);
    let (trials, results) = experiment(blocks, ratio, &mut Draws(RandomSequence::new(7)), taken);
    let mut evaluation = evaluate(&design, &trials, &[]).unwrap();
    let effects = judge(&evaluation, &design, &results);
    apply(&mut evaluation, &effects);
    let found = finding(&results, &effects);
    (evaluation, effects, found)
}

fn verdicts(evaluation: &Evaluation) -> Vec<Verdict> {
    evaluation.comparisons.iter().map(|it| it.verdict).collect()
}

#[test]
fn a_difference_caused_by_neighbors_is_withheld() {
    // The servers are equal, but the neighbors were busier in the trials of the old variant.
    let (evaluation, effects, found) = judged(10, 1.0, |_, variant| [0.30, 0.38][variant]);
    assert_eq!(verdicts(&evaluation), [Verdict::Withheld; 2]);
    let NoiseEffect::Explains(change) = effects[0] else {
        panic!("{effects:?}");
    };
    assert!((change - 0.129).abs() < 1e-3, "{change}");
    let finding = found.unwrap().finding;
    assert_eq!(finding.severity, Severity::Error);
    let figures: NoisyMachine = finding.figures().unwrap();
    assert_eq!(figures.mostly.as_deref(), Some("yes"));
    assert_eq!(
        figures.parts,
        NoisyParts::Trials(NoiseMeaning::Explains(change))
    );
    let withheld = evaluation.comparisons[0].withheld.as_ref();
    assert_eq!(withheld, Some(&WithheldBecause::Noise));
}

#[test]
fn a_difference_larger_than_the_neighbors_effect_is_kept() {
    let (evaluation, _, _) = judged(10, 2.0, |_, variant| [0.30, 0.38][variant]);
    assert_eq!(verdicts(&evaluation), [Verdict::Faster; 2]);
}

#[test]
fn a_crowded_machine_is_mentioned_in_the_verdicts_sentence() {
    let (evaluation, effects, found) =
        judged(10, 1.5, |draws, _| 0.3 + 0.04 * draws.0.next_share());
    assert_eq!(verdicts(&evaluation), [Verdict::Faster; 2]);
    assert!(
        matches!(effects[0], NoiseEffect::Doubtful(_)),
        "{effects:?}"
    );
    let comparison = &evaluation.comparisons[0];
    let share = comparison.crowded_share.unwrap();
    assert!((0.3..0.4).contains(&share), "{share}");
    assert_eq!(found.unwrap().finding.severity, Severity::Warning);
}

#[test]
fn few_blocks_on_a_crowded_machine_give_no_verdict() {
    let (evaluation, effects, _) = judged(4, 1.5, |draws, _| 0.3 + 0.04 * draws.0.next_share());
    assert_eq!(effects[0], NoiseEffect::TooFewBlocks);
    assert_eq!(verdicts(&evaluation), [Verdict::Withheld; 2]);
    let (evaluation, _, _) = judged(4, 1.5, |_, _| 0.01);
    assert_eq!(verdicts(&evaluation), [Verdict::Faster; 2]);
}

#[test]
fn a_quiet_machine_changes_nothing() {
    let (evaluation, effects, found) = judged(10, 1.5, |draws, _| 0.01 * draws.0.next_share());
    assert_eq!(effects, [NoiseEffect::Negligible; 2]);
    assert_eq!(verdicts(&evaluation), [Verdict::Faster; 2]);
    assert_eq!(evaluation.comparisons[0].crowded_share, None);
    assert_eq!(found, None);
}

/// Simulates equal servers with neighbors that are active in bursts of several trials. The interval
/// alone is wrong in 5% of the experiments. In nearly all of these, the neighbors happened to
/// affect one variant more, and the verdict is withheld. If neighbors always affect the same
/// variant more, the interval alone is nearly always wrong.
#[test]
fn false_verdicts_on_a_crowded_machine_are_rare() {
    const EXPERIMENTS: usize = 300;
    const BLOCKS: u32 = 8;
    let design = design(BLOCKS);
    let mut draws = Draws(RandomSequence::new(42));
    let mut table = AlphaTable::new();
    let mut false_verdicts = |preference: f64| {
        let (mut alone, mut judged) = (0, 0);
        for _ in 0..EXPERIMENTS {
            let mut busy = draws.0.next_share() < 0.5;
            let taken = |draws: &mut Draws, variant: usize| {
                busy ^= draws.0.next_share() < 0.5;
                let burst = if busy {
                    0.3 + 0.1 * draws.0.next_share()
                } else {
                    0.0
                };
                burst + if variant == 0 { preference } else { 0.0 }
            };
            let (trials, results) = experiment(BLOCKS, 1.0, &mut draws, taken);
            let mut evaluation = evaluate_with(&mut table, &design, &trials, &[]).unwrap();
            let is_false = |evaluation: &Evaluation| {
                let apart = [Verdict::Faster, Verdict::Slower];
                verdicts(evaluation).iter().any(|it| apart.contains(it))
            };
            alone += usize::from(is_false(&evaluation));
            let effects = judge(&evaluation, &design, &results);
            apply(&mut evaluation, &effects);
            judged += usize::from(is_false(&evaluation));
        }
        (alone, judged)
    };
    let (alone, judged) = false_verdicts(0.0);
    assert!(alone <= EXPERIMENTS / 10, "{alone}");
    assert!(judged <= EXPERIMENTS / 100, "{judged} of {alone}");
    let (alone, judged) = false_verdicts(0.2);
    assert!(alone >= EXPERIMENTS / 4, "{alone}");
    assert!(judged <= EXPERIMENTS / 50, "{judged} of {alone}");
}
