//! Metrics that changed between a variant and its baseline: the input of an explanation.
//!
//! Every metric that could explain a difference in speed is compared with the baseline within each
//! block. Because many metrics are compared, some would seem to change by chance. A metric
//! therefore counts as moved only if Holm's procedure over all metrics of one comparison rejects
//! equality. docs/method.md documents how moved metrics are ranked.

use crate::comparison::Effect;
use crate::design::{Design, Levels, Pair};
use crate::estimate::{Estimate, Interval};
use crate::metric::{Metric, MetricRole, Scale};
use crate::pairing;
use crate::trials::Block;

/// Amount added to both counts of a ratio before they are divided, because a count may be zero: one
/// per thousand requests.
const COUNT_OFFSET: f64 = 1e-3;

/// Change of one metric from a baseline to a variant.
#[derive(Debug, Clone, PartialEq)]
pub struct Movement {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Metric that may have moved.
    pub metric: Metric,
    /// Size of the change, with its interval.
    pub effect: Effect,
    /// Number of complete blocks in which both variant and baseline have a value.
    pub blocks: u32,
    /// Means of the variant and of its baseline over the blocks, as in their summaries.
    pub means: (f64, f64),
    /// True if equality is rejected while the error rate is controlled over the whole family, which
    /// is all metrics of this comparison.
    pub moved: bool,
    /// True if the whole interval is within the plan's margin, so that the change is negligible
    /// even if it is established.
    pub same: bool,
    /// Smallest change that the interval admits in either direction, as the logarithm of a ratio; 0
    /// if the interval contains "no change". A difference between `a` and `b` is first converted to
    /// the ratio (a + 0.001) / (b + 0.001).
    pub least: f64,
}

impl Movement {
    /// Returns true if the estimate is an increase.
    pub fn is_more(&self) -> bool {
        match (self.effect.ratio, self.effect.difference) {
            (Some(ratio), _) => ratio > 1.0,
            (None, difference) => difference.is_some_and(|difference| difference > 0.0),
        }
    }
}

/// Returns the movements of every pair, ordered by pair, then by metric. `miss` is both the
/// probability that a single interval misses the true value and the error rate shared by the
/// metrics of one pair. Before the first look, `miss` is `None` and there are no movements.
pub(crate) fn movements_of(
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
        let able = metrics.filter(|metric| metric.role() != MetricRole::Result);
        let seen =
            able.filter_map(|metric| established_movement(design, blocks, pair, metric, miss));
        holm(seen.collect(), miss)
    };
    pairs.iter().flat_map(of_pair).collect()
}

/// Returns the movement of one metric and its p-value. The caller sets `moved`. Returns `None` if
/// the metric can't be compared: a ratio over the other blocks would contradict the means, which
/// include a zero.
fn established_movement(
    design: &Design,
    blocks: &[Block<'_>],
    pair: Pair,
    metric: Metric,
    miss: f64,
) -> Option<(f64, Movement)> {
    if pairing::has_zero(blocks, pair, metric) {
        return None;
    }
    let values = pairing::present(blocks, pair, metric);
    let estimate = Estimate::from_blocks(&values)?;
    let interval = estimate.interval(miss);
    let mean = |variant| pairing::shown_mean(blocks, variant, metric);
    let means = (mean(pair.variant)?, mean(pair.against)?);
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
        effect,
    };
    Some((estimate.p_value(), movement))
}

/// Converts an interval on the averaging scale to logarithms of ratios.
fn as_ratio(scale: Scale, interval: Interval, against: f64) -> Interval {
    match scale {
        Scale::Ratio => interval,
        Scale::Difference => {
            let shifted = |value: f64| value.max(0.0) + COUNT_OFFSET;
            interval.map(|by| (shifted(against + by) / shifted(against)).ln())
        }
    }
}

/// Returns the distance of an interval from zero; 0 if the interval contains zero.
fn least(interval: Interval) -> f64 {
    interval.low.max(-interval.high).max(0.0)
}

/// Applies Holm's procedure to the metrics of one pair.
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
        // A count that rises from 0 to 1 per request.
        assert!((count(1.0, 1.0, 0.0) - 1001.0_f64.ln()).abs() < 1e-9);
        assert!((count(-1.0, -1.0, 1.0) - 1001.0_f64.ln()).abs() < 1e-9);
        // One retransmit in ten thousand requests is negligible.
        assert!(count(1e-4, 2e-4, 0.0) < 0.1);
        assert!(
            count(-2.0, -1.5, 1.0).is_finite(),
            "noise makes the interval extend below zero"
        );
    }
}
