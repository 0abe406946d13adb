//! What else differs between a variant and its baseline, and how surely: what a "why" is made of.
//!
//! Every metric that could bear on a difference in speed is set against the baseline within each
//! block, as the metrics outside the family are. As many are looked at, some would seem to move by
//! chance: a metric counts as moved only where Holm's steps over all of them, for one comparison,
//! reject that it is the same. docs/method.md has the rule by which they are ranked.

use crate::comparison::Effect;
use crate::design::{Design, Levels, Pair};
use crate::estimate::{Estimate, Interval, mean};
use crate::metric::{Bearing, Metric, Scale};
use crate::pairing;
use crate::sentence;
use crate::trials::Block;

/// What is added to a count before it is set in ratio to another, which may be zero: one in a
/// thousand requests.
const ONE_IN_A_THOUSAND: f64 = 1e-3;

/// One metric of one variant against its baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Movement {
    /// The variant.
    pub levels: Levels,
    /// Its baseline.
    pub against: Levels,
    /// What may have moved.
    pub metric: Metric,
    /// By how much, with its interval.
    pub effect: Effect,
    /// Complete blocks in which both have a value.
    pub blocks: u32,
    /// The mean over these blocks, geometric for ratios: of the variant and of its baseline.
    pub means: (f64, f64),
    /// Whether it moved, at the family's error rate over all metrics of this comparison.
    pub moved: bool,
    /// Whether the whole interval lies inside the plan's margin, so that it counts as the same
    /// whether it moved or not.
    pub same: bool,
    /// The least change that the interval admits, whichever its direction, as the logarithm of a
    /// ratio: 0 where it holds no change at all. For differences it is the ratio of both values,
    /// each with one in a thousand added.
    pub least: f64,
    /// The same as a sentence without its end.
    pub text: String,
}

impl Movement {
    /// Whether the estimate lies above none.
    pub fn is_more(&self) -> bool {
        match (self.effect.ratio, self.effect.difference) {
            (Some(ratio), _) => ratio > 1.0,
            (None, difference) => difference.is_some_and(|difference| difference > 0.0),
        }
    }
}

/// The movements of every pair, in the order of pairs, then metrics. `miss` is how often a single
/// interval misses, and the error rate that the metrics of one pair share; none before the first
/// look, when there is nothing to say.
pub(crate) fn of(
    design: &Design,
    pairs: &[Pair],
    blocks: &[Block<'_>],
    miss: Option<f64>,
) -> Vec<Movement> {
    let Some(miss) = miss else {
        return Vec::new();
    };
    let of_pair = |&pair: &Pair| {
        let metrics = Metric::ALL.iter().copied();
        let able = metrics.filter(|metric| metric.bearing() != Bearing::Result);
        let seen = able.filter_map(|metric| seen(design, blocks, pair, metric, miss));
        holm(seen.collect(), miss)
    };
    pairs.iter().flat_map(of_pair).collect()
}

/// A movement whose `moved` is yet to be decided by its p-value.
fn seen(
    design: &Design,
    blocks: &[Block<'_>],
    pair: Pair,
    metric: Metric,
    miss: f64,
) -> Option<(f64, Movement)> {
    let values = pairing::present(blocks, pair, metric);
    let estimate = Estimate::from_blocks(&values)?;
    let interval = estimate.interval(miss);
    let sides = blocks.iter().filter_map(|block| {
        let variant = pairing::averaged(block, pair.variant, metric)?;
        Some((variant, pairing::averaged(block, pair.against, metric)?))
    });
    let (variant, against): (Vec<f64>, Vec<f64>) = sides.unzip();
    let level = |values: &[f64]| match metric.scale() {
        Scale::Ratio => mean(values).exp(),
        Scale::Difference => mean(values),
    };
    let means = (level(&variant), level(&against));
    let range = as_ratio(metric.scale(), interval, means.1);
    let margin = Interval {
        low: (-design.margin).ln_1p(),
        high: design.margin.ln_1p(),
    };
    let effect = Effect::on(metric.scale(), Some(estimate.mean), Some(interval));
    let movement = Movement {
        levels: design.variants[pair.variant].clone(),
        against: design.variants[pair.against].clone(),
        metric,
        blocks: estimate.blocks,
        means,
        moved: false,
        same: range.within(&margin),
        least: least(range),
        text: sentence::movement(metric, &effect, &design.name_of(pair.against)),
        effect,
    };
    Some((estimate.p_value(), movement))
}

/// An interval on the averaging scale as logarithms of ratios.
fn as_ratio(scale: Scale, interval: Interval, against: f64) -> Interval {
    match scale {
        Scale::Ratio => interval,
        Scale::Difference => {
            let shifted = |value: f64| value.max(0.0) + ONE_IN_A_THOUSAND;
            interval.map(|by| (shifted(against + by) / shifted(against)).ln())
        }
    }
}

/// The distance of an interval from zero; 0 where it contains it.
fn least(interval: Interval) -> f64 {
    interval.low.max(-interval.high).max(0.0)
}

/// Holm's steps over the metrics of one pair.
fn holm(mut seen: Vec<(f64, Movement)>, rate: f64) -> Vec<Movement> {
    let mut order: Vec<usize> = (0..seen.len()).collect();
    order.sort_by(|&a, &b| seen[a].0.total_cmp(&seen[b].0));
    for (step, &place) in order.iter().enumerate() {
        if seen[place].0 > rate / (order.len() - step) as f64 {
            break;
        }
        seen[place].1.moved = true;
    }
    seen.into_iter().map(|(_, movement)| movement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_change_is_the_nearer_end_of_the_interval() {
        let interval = |low: f64, high: f64| Interval { low, high };
        assert_eq!(least(interval(-0.1, 0.2)), 0.0);
        assert_eq!(least(interval(0.1, 0.2)), 0.1);
        assert_eq!(least(interval(-0.2, -0.1)), 0.1);
        let count =
            |low, high, against| least(as_ratio(Scale::Difference, interval(low, high), against));
        // From none to one a request: a thousand times as many, and more.
        assert!((count(1.0, 1.0, 0.0) - 1001.0_f64.ln()).abs() < 1e-9);
        assert!((count(-1.0, -1.0, 1.0) - 1001.0_f64.ln()).abs() < 1e-9);
        // One retransmit in ten thousand requests is next to nothing.
        assert!(count(1e-4, 2e-4, 0.0) < 0.1);
        assert!(count(-2.0, -1.5, 1.0).is_finite(), "noise below zero");
    }
}
