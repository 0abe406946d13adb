//! Rounds of interleaved blocks: a diagnostic that accompanies the intervals from blocks.
//!
//! In each round of an interleaved block, every variant has one slice of the load. The ratio of two
//! slices of a round is unaffected by anything that slows the machine for longer than a round. The
//! spread of these ratios within blocks gives a second standard error. It doesn't include what
//! differs between blocks, such as the memory layout of freshly started services, so it is shown
//! next to the interval from blocks and never replaces it.

use std::collections::{BTreeMap, BTreeSet};

use crate::comparison::Effect;
use crate::design::{Design, Levels, Pair};
use crate::estimate::{Estimate, Interval, critical, mean};
use crate::evaluate::Evaluation;
use crate::metric::{Metric, Scale};
use crate::round_comparison::{RoundComparison, RoundMetric};

/// Probability that an interval misses the true value.
const MISS: f64 = 0.05;

/// Value of each slice of one variant, by block and round.
pub type RoundValues = BTreeMap<(u32, u32), f64>;

/// Ratio of a variant's slice to its baseline's slice of the same round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundRatio {
    /// The experiment's block number.
    pub block: u32,
    /// Round within the block, from 0.
    pub round: u32,
    /// The variant's value divided by its baseline's.
    pub ratio: f64,
}

/// Returns the ratios of all rounds in which both variants have a value, in the order of blocks and
/// rounds.
pub fn round_ratios(variant: &RoundValues, against: &RoundValues) -> Vec<RoundRatio> {
    let ratios = variant.iter().filter_map(|(&(block, round), value)| {
        let ratio = value / against.get(&(block, round))?;
        let is_ratio = ratio.is_finite() && ratio > 0.0;
        is_ratio.then_some(RoundRatio {
            block,
            round,
            ratio,
        })
    });
    ratios.collect()
}

/// Compares each variant with its baseline by rounds. `values` has one entry for each variant of
/// the design. Skips pairs without a common round.
pub fn compare_rounds(
    design: &Design,
    evaluation: &Evaluation,
    metric: RoundMetric,
    values: &[RoundValues],
) -> Vec<RoundComparison> {
    let pairs = design.pairs().unwrap_or_default();
    let of_pair = |&pair: &Pair| of_pair(design, evaluation, metric, values, pair);
    pairs.iter().filter_map(of_pair).collect()
}

fn of_pair(
    design: &Design,
    evaluation: &Evaluation,
    metric: RoundMetric,
    values: &[RoundValues],
    pair: Pair,
) -> Option<RoundComparison> {
    let (variant, against) = (values.get(pair.variant)?, values.get(pair.against)?);
    let ratios = round_ratios(variant, against);
    let spread = RoundSpread::of(&ratios)?;
    let all: BTreeSet<_> = variant.keys().chain(against.keys()).collect();
    let interval = spread.error.map(|error| {
        let reach = critical(MISS, spread.freedom) * error;
        Interval {
            low: (spread.mean - reach).exp(),
            high: (spread.mean + reach).exp(),
        }
    });
    let levels = [pair.variant, pair.against].map(|side| design.variants[side].clone());
    let [levels, other_levels] = levels;
    let of_rates = match metric {
        RoundMetric::RatePerS => judged_effect(evaluation, &levels, &other_levels),
        RoundMetric::MeanResponseUs => None,
    };
    Some(RoundComparison {
        levels,
        against: other_levels,
        name: design.name_of(pair.variant),
        against_name: design.name_of(pair.against),
        metric,
        effect: of_rates.unwrap_or_else(|| spread.effect_of_blocks()),
        blocks: spread.block_means.len() as u32,
        rounds: ratios.len() as u32,
        rounds_without_ratio: (all.len() - ratios.len()) as u32,
        rounds_ratio: spread.mean.exp(),
        rounds_low: interval.map(|interval| interval.low),
        rounds_high: interval.map(|interval| interval.high),
        error_ratio: spread.error_ratio(),
        text: String::new(),
    })
}

/// Returns the effect on the request rate, as found by the comparison of the blocks.
fn judged_effect(evaluation: &Evaluation, levels: &Levels, against: &Levels) -> Option<Effect> {
    let judged = evaluation.comparisons.iter();
    let judged = judged.map(|it| (it.metric, &it.levels, &it.against, &it.effect));
    let described = evaluation.described.iter();
    let described = described.map(|it| (it.metric, &it.levels, &it.against, &it.effect));
    let wanted = (Metric::RatePerS, levels, against);
    let mut all = judged.chain(described);
    let (_, _, _, effect) = all.find(|&(metric, of, to, _)| (metric, of, to) == wanted)?;
    Some(effect.clone())
}

/// Mean log ratio of the rounds, and its standard error from the spread within blocks.
struct RoundSpread {
    block_means: Vec<f64>,
    mean: f64,
    /// Standard error of the mean log ratio; `None` if no block has two rounds, or if the ratios
    /// don't vary.
    error: Option<f64>,
    freedom: u32,
}

impl RoundSpread {
    /// Computes the mean and its standard error. Returns `None` if there are no rounds.
    fn of(ratios: &[RoundRatio]) -> Option<RoundSpread> {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for round in ratios {
            let block = blocks.entry(round.block).or_default();
            block.push(round.ratio.ln());
        }
        if blocks.is_empty() {
            return None;
        }
        let block_means: Vec<f64> = blocks.values().map(|logs| mean(logs)).collect();
        let squares: f64 = blocks
            .values()
            .zip(&block_means)
            .flat_map(|(logs, mean)| logs.iter().map(move |log| (log - mean).powi(2)))
            .sum();
        let freedom = (ratios.len() - blocks.len()) as u32;
        // Each block's mean has the same weight, so a round is weighted by the reciprocal of its
        // block's number of rounds.
        let weights: f64 = blocks.values().map(|logs| 1.0 / logs.len() as f64).sum();
        let error = (squares / f64::from(freedom) * weights).sqrt() / blocks.len() as f64;
        Some(RoundSpread {
            mean: mean(&block_means),
            block_means,
            error: (freedom > 0 && error > 0.0).then_some(error),
            freedom,
        })
    }

    fn effect_of_blocks(&self) -> Effect {
        let interval = Estimate::from_blocks(&self.block_means).map(|it| it.interval(MISS));
        Effect::on(Scale::Ratio, Some(self.mean), interval)
    }

    fn error_ratio(&self) -> Option<f64> {
        Some(Estimate::from_blocks(&self.block_means)?.error() / self.error?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(blocks: &[&[f64]]) -> Vec<RoundRatio> {
        let rounds = (1..).zip(blocks).flat_map(|(block, logs)| {
            (0..)
                .zip(*logs)
                .map(move |(round, log): (u32, &f64)| RoundRatio {
                    block,
                    round,
                    ratio: log.exp(),
                })
        });
        rounds.collect()
    }

    #[test]
    fn the_error_is_that_within_blocks() {
        // The standard deviation within each block is √2·0.1. The means of the blocks are far
        // apart.
        let spread = RoundSpread::of(&ratios(&[&[0.9, 1.1], &[1.9, 2.1]])).unwrap();
        assert!((spread.mean - 1.5).abs() < 1e-12);
        assert_eq!(spread.freedom, 2);
        // s² is 0.02, and the mean is over four rounds.
        assert!((spread.error.unwrap() - (0.02_f64 / 4.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn each_block_has_the_same_weight_for_any_number_of_rounds() {
        let spread = RoundSpread::of(&ratios(&[&[1.0], &[0.0, 0.0, 0.2, 0.2]])).unwrap();
        assert!((spread.mean - 0.55).abs() < 1e-12);
        let expected = (0.04_f64 / 3.0 * (1.0 + 0.25)).sqrt() / 2.0;
        assert!((spread.error.unwrap() - expected).abs() < 1e-12);
    }

    #[test]
    fn rounds_without_spread_or_pair_have_no_error() {
        assert!(RoundSpread::of(&[]).is_none());
        assert_eq!(
            RoundSpread::of(&ratios(&[&[1.0], &[1.0]])).unwrap().error,
            None
        );
        let equal = RoundSpread::of(&ratios(&[&[1.0, 1.0], &[1.0]])).unwrap();
        assert_eq!((equal.error, equal.error_ratio()), (None, None));
        let one = RoundValues::from([((1, 0), 5.0), ((1, 1), 0.0), ((2, 0), 4.0)]);
        let other = RoundValues::from([((1, 0), 4.0), ((1, 1), 4.0), ((2, 1), 4.0)]);
        let both = round_ratios(&one, &other);
        assert_eq!(both.len(), 1);
        assert_eq!((both[0].block, both[0].round, both[0].ratio), (1, 0, 1.25));
    }
}
