//! CPU time that other processes and guests took from an experiment, and the verdicts that this
//! loss may have distorted.
//!
//! Noise makes intervals wider, and these intervals are valid: the order of trials is random, so
//! noise affects all variants equally. This module handles three problems that intervals don't
//! show: noise that happened to differ between two variants, too few blocks for valid intervals on
//! a crowded machine, and a crowded machine that may favor one variant. docs/validation.md lists
//! the thresholds with their reasons. All functions here are pure.

use std::collections::BTreeMap;

use prony_record::Severity;
use prony_record::finding::{NoiseMeaning, NoisyMachine, NoisyParts};
use prony_stats::{Comparison, Design, Evaluation, Levels, Metric, Verdict, WithheldBecause};

use super::experiment_finding::{ExperimentFinding, FEW_BLOCKS, median};
use super::trial_result::TrialResult;

/// CPU time, in percent of one core, that a trial may lose to other processes and guests without a
/// finding.
const NOISE_PERCENT: f64 = 5.0;
/// Minimum fraction of the cores, used by neighbors in a variant's median trial, at which the
/// neighbors may have distorted a comparison.
const CROWDED_SHARE: f64 = 0.1;
/// Minimum relevant difference between two variants in the fraction of core time that they lost to
/// other processes.
const DIFFERENCE_MIN: f64 = 0.01;

/// The effect of noise on one comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NoiseEffect {
    /// Noise has no relevant effect.
    Negligible,
    /// The verdict may hold only on a machine with these neighbors. The value is the fraction of
    /// the cores that the neighbors used.
    Doubtful(f64),
    /// The neighbors' CPU usage differs so much between the variants that the verdict depends on
    /// it. The value is the mean relative change of the rate that the difference explains.
    Explains(f64),
    /// The machine was crowded, and there are too few blocks for intervals that account for the
    /// neighbors.
    TooFewBlocks,
}

impl NoiseEffect {
    fn withholds(self) -> bool {
        matches!(self, Self::Explains(_) | Self::TooFewBlocks)
    }
}

/// Determines the effect of noise on each comparison of an evaluation, in the order of the
/// comparisons.
pub(crate) fn judge(
    evaluation: &Evaluation,
    design: &Design,
    results: &[TrialResult],
) -> Vec<NoiseEffect> {
    let lost: Vec<BTreeMap<u32, f64>> = (0..design.variants.len())
        .map(|variant| {
            let trials = results.iter().filter(|result| result.variant == variant);
            trials.map(|it| (it.block, lost_share(it))).collect()
        })
        .collect();
    let place = |levels: &Levels| design.variants.iter().position(|of| of == levels);
    let of_one = |comparison: &Comparison| {
        let sides = (place(&comparison.levels), place(&comparison.against));
        match sides {
            (Some(this), Some(other)) => {
                judge_one(comparison, design.margin, &lost[this], &lost[other])
            }
            _ => NoiseEffect::Negligible,
        }
    };
    evaluation.comparisons.iter().map(of_one).collect()
}

fn judge_one(
    comparison: &Comparison,
    margin: f64,
    this: &BTreeMap<u32, f64>,
    other: &BTreeMap<u32, f64>,
) -> NoiseEffect {
    let is_claim = !matches!(comparison.verdict, Verdict::Undecided | Verdict::Withheld);
    let Some(direction) = direction(comparison.metric).filter(|_| is_claim) else {
        return NoiseEffect::Negligible;
    };
    // If the rate depends on the cores, it is proportional to the fraction of them that neighbors
    // left.
    let explained = this.iter().filter_map(|(block, lost)| {
        let other = other.get(block)?;
        Some(((1.0 - lost) / (1.0 - other)).ln())
    });
    let explained: Vec<f64> = explained.collect();
    let explained = explained.iter().sum::<f64>() / explained.len().max(1) as f64;
    if explained.abs() >= DIFFERENCE_MIN && !survives(comparison, margin, direction * explained) {
        return NoiseEffect::Explains(explained.exp() - 1.0);
    }
    let usual = |lost: &BTreeMap<u32, f64>| median(lost.values().copied().collect());
    let crowded = usual(this).unwrap_or(0.0).max(usual(other).unwrap_or(0.0));
    match crowded >= CROWDED_SHARE {
        true if comparison.blocks < FEW_BLOCKS => NoiseEffect::TooFewBlocks,
        true => NoiseEffect::Doubtful(crowded),
        false => NoiseEffect::Negligible,
    }
}

/// Returns the sign of the correlation between a metric and the CPU time that is left to a variant;
/// `None` for metrics that don't depend on it.
fn direction(metric: Metric) -> Option<f64> {
    match metric {
        metric if metric.is_rate() => Some(1.0),
        metric if metric.is_time() || metric == Metric::TotalTimeUs => Some(-1.0),
        _ => None,
    }
}

/// Returns true if a verdict would stay the same without `explained`, the part of the effect (the
/// log of a ratio) that noise explains.
fn survives(comparison: &Comparison, margin: f64, explained: f64) -> bool {
    let effect = &comparison.effect;
    let (Some(ratio), Some(low), Some(high)) = (effect.ratio, effect.low, effect.high) else {
        return true;
    };
    let left = |of: f64| of.ln() - explained;
    let (low, high) = (left(low), left(high));
    match comparison.verdict {
        Verdict::Equivalent => low >= (1.0 - margin).ln() && high <= (1.0 + margin).ln(),
        _ if ratio > 1.0 => low > 0.0,
        _ => high < 0.0,
    }
}

/// Compares the fractions of several sets of cores that neighbors used in a trial, and returns the
/// largest fraction. The sets are the cores of each group of services, the load's cores, and the
/// whole machine if a service may use all of it. Kernel threads don't count as neighbors, because
/// they also work for the experiment.
fn lost_share(trial: &TrialResult) -> f64 {
    let resources = &trial.resources;
    let groups = resources.tied.iter().filter_map(|it| it.parties.as_ref());
    let mut groups = groups.chain(&resources.load_cores).peekable();
    let share = match (groups.peek(), &resources.machine) {
        (Some(_), _) => groups.map(|it| it.taken_share()).fold(0.0, f64::max),
        (None, Some(machine)) => machine.taken_share(),
        (None, None) => lost_percent(trial) / 100.0 / resources.machine_cores.max(1) as f64,
    };
    // A core that neighbors used completely would explain any difference.
    share.clamp(0.0, 0.99)
}

/// Returns the CPU time that other processes and guests used during the trial, in percent of one
/// core.
pub(crate) fn lost_percent(result: &TrialResult) -> f64 {
    result.telemetry.foreign_percent + result.telemetry.steal_percent
}

/// Returns the `noisy-machine` finding.
pub(crate) fn finding(
    results: &[TrialResult],
    effects: &[NoiseEffect],
) -> Option<ExperimentFinding> {
    let noisy: Vec<_> = results
        .iter()
        .filter(|result| lost_percent(result) > NOISE_PERCENT)
        .collect();
    let worst = noisy
        .iter()
        .copied()
        .max_by(|a, b| lost_percent(a).total_cmp(&lost_percent(b)))?;
    let has = |effect: fn(&NoiseEffect) -> bool| effects.iter().any(effect);
    let explains = effects.iter().find_map(|effect| match effect {
        NoiseEffect::Explains(change) => Some(*change),
        _ => None,
    });
    let (severity, meaning) = if let Some(change) = explains {
        (Severity::Error, NoiseMeaning::Explains(change))
    } else if has(|effect| *effect == NoiseEffect::TooFewBlocks) {
        let meaning = NoiseMeaning::TooFewBlocks {
            over_share: CROWDED_SHARE,
            blocks_min: FEW_BLOCKS,
        };
        (Severity::Error, meaning)
    } else if has(|effect| matches!(effect, NoiseEffect::Doubtful(_))) {
        let meaning = NoiseMeaning::Crowded {
            over_share: CROWDED_SHARE,
        };
        (Severity::Warning, meaning)
    } else {
        let severity = if noisy.len() * 2 > results.len() {
            Severity::Warning
        } else {
            Severity::Note
        };
        (severity, NoiseMeaning::Covered)
    };
    let figures = NoisyMachine {
        parts: NoisyParts::Trials(meaning),
        disturbed: noisy.len() as u64,
        all: results.len() as u64,
        processes_percent: worst.telemetry.foreign_percent,
        guests_percent: worst.telemetry.steal_percent,
        mostly: worst.telemetry.top_foreign.clone(),
    };
    Some(ExperimentFinding::of_all(severity, &figures))
}

/// Withholds the verdicts that noise alone could explain, and adds a note to verdicts that may
/// differ in size on a quiet machine.
pub(crate) fn apply(evaluation: &mut Evaluation, effects: &[NoiseEffect]) {
    for (index, effect) in effects.iter().enumerate() {
        let Some(comparison) = evaluation.comparisons.get_mut(index) else {
            break;
        };
        if let NoiseEffect::Doubtful(share) = effect {
            comparison.crowded_share = Some(*share);
        }
    }
    let of = evaluation.comparisons.iter().zip(effects);
    let withheld: Vec<Comparison> = of
        .filter(|(_, effect)| effect.withholds())
        .map(|(comparison, _)| comparison.clone())
        .collect();
    evaluation.withhold(
        |comparison| withheld.contains(comparison),
        &WithheldBecause::Noise,
    );
}

#[cfg(test)]
#[path = "noise_tests.rs"]
mod tests;
