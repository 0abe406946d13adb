//! Two variants within each block: the log ratio, or the difference.

use crate::design::Pair;
use crate::metric::{Metric, Scale};
use crate::trials::Block;

/// The blocks of one comparison on one metric.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Paired {
    /// One number a block.
    Complete(Vec<f64>),
    /// Some block can't be compared. Leaving it out would flatter a variant that sometimes fails,
    /// so there is no comparison at all.
    Gap(Gap),
}

/// Where a value lacks, or is zero where only a ratio makes sense.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Gap {
    variant: Vec<u32>,
    against: Vec<u32>,
    metric: &'static str,
}

impl Paired {
    pub(crate) fn gap(&self) -> Option<&Gap> {
        match self {
            Paired::Complete(_) => None,
            Paired::Gap(gap) => Some(gap),
        }
    }
}

impl Gap {
    /// For "verdict withheld: …".
    pub(crate) fn reason(&self, variant: &str, against: &str) -> String {
        let sides: Vec<String> = [(variant, &self.variant), (against, &self.against)]
            .into_iter()
            .filter(|(_, blocks)| !blocks.is_empty())
            .map(|(name, blocks)| {
                let numbers: Vec<String> = blocks.iter().map(u32::to_string).collect();
                let word = if blocks.len() == 1 { "block" } else { "blocks" };
                format!(
                    "{name} has no {} in {word} {}",
                    self.metric,
                    numbers.join(", ")
                )
            })
            .collect();
        format!("{} (zero, or not measured)", sides.join(", and "))
    }
}

/// The metric of a pair in every block.
pub(crate) fn pair(blocks: &[Block<'_>], pair: Pair, metric: Metric) -> Paired {
    let mut values = Vec::with_capacity(blocks.len());
    let mut gap = Gap {
        metric: metric.noun(),
        ..Gap::default()
    };
    for block in blocks {
        let variant = averaged(block, pair.variant, metric);
        let against = averaged(block, pair.against, metric);
        if variant.is_none() {
            gap.variant.push(block.number);
        }
        if against.is_none() {
            gap.against.push(block.number);
        }
        if let (Some(variant), Some(against)) = (variant, against) {
            values.push(variant - against);
        }
    }
    if values.len() == blocks.len() {
        Paired::Complete(values)
    } else {
        Paired::Gap(gap)
    }
}

/// The same in those blocks where both values are there.
pub(crate) fn present(blocks: &[Block<'_>], pair: Pair, metric: Metric) -> Vec<f64> {
    blocks
        .iter()
        .filter_map(|block| {
            let variant = averaged(block, pair.variant, metric)?;
            Some(variant - averaged(block, pair.against, metric)?)
        })
        .collect()
}

/// A trial's value on the scale on which blocks are averaged: its logarithm, or itself. `None`
/// when it was not measured or can't be compared.
pub(crate) fn averaged(block: &Block<'_>, variant: usize, metric: Metric) -> Option<f64> {
    let value = block
        .value(variant, metric)
        .filter(|&value| metric.admits(value))?;
    Some(match metric.scale() {
        Scale::Ratio => value.ln(),
        Scale::Difference => value,
    })
}
