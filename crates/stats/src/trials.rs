//! What the trials yielded, by block and variant.

use std::collections::BTreeMap;

use crate::metric::Metric;

/// The metrics of one trial. A metric that could not be measured is absent; one that is not a
/// finite number counts as absent.
pub type Values = BTreeMap<Metric, f64>;

/// The trials of an experiment. The order of adding and merging does not matter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trials {
    blocks: BTreeMap<u32, BTreeMap<usize, Values>>,
}

impl Trials {
    /// No trials yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one trial: `block` as numbered by the experiment, `variant` its place in
    /// [`Design::variants`](crate::Design::variants). A second trial of the same variant in the
    /// same block takes the place of the first (a block that was interrupted is run again).
    pub fn add(&mut self, block: u32, variant: usize, values: Values) {
        self.blocks
            .entry(block)
            .or_default()
            .insert(variant, values);
    }

    /// Adds all trials of `other`; where both have the same one, that of `other` stays.
    pub fn merge(&mut self, other: Trials) {
        for (block, variants) in other.blocks {
            self.blocks.entry(block).or_default().extend(variants);
        }
    }

    /// How many blocks have a trial of each of `variants` variants.
    pub fn complete_blocks(&self, variants: usize) -> u32 {
        u32::try_from(self.complete(variants).len()).unwrap_or(u32::MAX)
    }

    /// The complete blocks, in the order of their numbers. Whether the variants are complete is
    /// all that decides, never what was measured.
    pub(crate) fn complete(&self, variants: usize) -> Vec<Block<'_>> {
        self.blocks
            .iter()
            .filter(|(_, trials)| (0..variants).all(|variant| trials.contains_key(&variant)))
            .map(|(&number, trials)| Block { number, trials })
            .collect()
    }
}

/// One complete block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    /// As numbered by the experiment.
    pub(crate) number: u32,
    trials: &'a BTreeMap<usize, Values>,
}

impl Block<'_> {
    /// What a variant's trial measured, when it is a finite number.
    pub(crate) fn value(&self, variant: usize, metric: Metric) -> Option<f64> {
        let value = *self.trials.get(&variant)?.get(&metric)?;
        value.is_finite().then_some(value)
    }
}
