//! Within-block differences between two variants, on the log scale or on the plain scale.

use crate::comparison::Unmeasured;
use crate::design::Pair;
use crate::estimate::{Interval, mean};
use crate::metric::{Metric, Scale};
use crate::trials::Block;

/// Within-block differences of one pair of variants on one metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PairedValues {
    /// One difference per block.
    Complete(Vec<f64>),
    /// The pair can't be compared in at least one block. Omitting that block would favor a variant
    /// that sometimes fails, so the pair is not compared in any block.
    Incomplete(Unmeasured),
}

impl PairedValues {
    pub(crate) fn unmeasured(&self) -> Option<&Unmeasured> {
        match self {
            PairedValues::Complete(_) => None,
            PairedValues::Incomplete(unmeasured) => Some(unmeasured),
        }
    }
}

/// Returns the differences of a pair if every block has both values.
pub(crate) fn pair(blocks: &[Block<'_>], pair: Pair, metric: Metric) -> PairedValues {
    let mut values = Vec::with_capacity(blocks.len());
    let mut unmeasured = Unmeasured::default();
    for block in blocks {
        let variant = averaged(block, pair.variant, metric);
        let against = averaged(block, pair.against, metric);
        if variant.is_none() {
            unmeasured.variant.push(block.number);
        }
        if against.is_none() {
            unmeasured.against.push(block.number);
        }
        if let (Some(variant), Some(against)) = (variant, against) {
            values.push(variant - against);
        }
    }
    if values.len() == blocks.len() {
        PairedValues::Complete(values)
    } else {
        PairedValues::Incomplete(unmeasured)
    }
}

/// Returns the differences of a pair in the blocks that have both values.
pub(crate) fn present(blocks: &[Block<'_>], pair: Pair, metric: Metric) -> Vec<f64> {
    blocks
        .iter()
        .filter_map(|block| {
            let variant = averaged(block, pair.variant, metric)?;
            Some(variant - averaged(block, pair.against, metric)?)
        })
        .collect()
}

/// Returns a trial's value on the averaging scale: its logarithm, or the value itself. Returns
/// `None` if the value was not measured or can't be compared.
pub(crate) fn averaged(block: &Block<'_>, variant: usize, metric: Metric) -> Option<f64> {
    let value = block
        .value(variant, metric)
        .filter(|&value| metric.admits(value))?;
    Some(match metric.scale() {
        Scale::Ratio => value.ln(),
        Scale::Difference => value,
    })
}

/// Returns true if a ratio can't be computed because a measured value of the pair is zero.
pub(crate) fn has_zero(blocks: &[Block<'_>], pair: Pair, metric: Metric) -> bool {
    let variants = [pair.variant, pair.against];
    metric.scale() == Scale::Ratio
        && blocks.iter().any(|block| {
            let mut values = variants
                .iter()
                .filter_map(|&variant| block.value(variant, metric));
            values.any(|value| value == 0.0)
        })
}

/// Returns the mean of a variant's measured values, as all output shows it: geometric on the ratio
/// scale, but arithmetic if a value is zero, which has no logarithm. Returns `None` if no value was
/// measured.
pub(crate) fn shown_mean(blocks: &[Block<'_>], variant: usize, metric: Metric) -> Option<f64> {
    let values = blocks
        .iter()
        .filter_map(|block| block.value(variant, metric));
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return None;
    }
    let is_geometric =
        metric.scale() == Scale::Ratio && values.iter().all(|&value| metric.admits(value));
    Some(if is_geometric {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        mean(&logs).exp()
    } else {
        mean(&values)
    })
}

/// Returns the range of changes that count as no difference, on the averaging scale.
pub(crate) fn equivalence(metric: Metric, margin: f64) -> Interval {
    match metric.scale() {
        Scale::Ratio => Interval {
            low: (-margin).ln_1p(),
            high: margin.ln_1p(),
        },
        Scale::Difference => Interval {
            low: -margin,
            high: margin,
        },
    }
}
