//! Measurements of an experiment by block and variant.

use std::collections::{BTreeMap, BTreeSet};

use crate::metric::Metric;

/// Values of one trial by metric. A metric that could not be measured is absent; a value that isn't
/// finite counts as absent.
pub type Values = BTreeMap<Metric, f64>;

/// The trials of an experiment. They can be added and merged in any order, except that a trial
/// replaces an earlier one of the same variant and block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trials {
    blocks: BTreeMap<u32, BTreeMap<usize, Values>>,
    left_out: BTreeSet<usize>,
}

impl Trials {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one trial. `block` is the experiment's block number and `variant` an index in
    /// [`Design::variants`](crate::Design::variants). A second trial of the same variant and block
    /// replaces the first, because an interrupted block is repeated.
    pub fn add(&mut self, block: u32, variant: usize, values: Values) {
        self.blocks
            .entry(block)
            .or_default()
            .insert(variant, values);
    }

    /// Leaves a variant out of all blocks, because something ruled it out before the first block.
    /// Blocks are complete without it, and its comparisons don't share the error rate.
    pub fn leave_out(&mut self, variant: usize) {
        self.left_out.insert(variant);
    }

    /// Returns true if the variant is left out of all blocks.
    pub(crate) fn leaves_out(&self, variant: usize) -> bool {
        self.left_out.contains(&variant)
    }

    /// Adds all trials of `other`. They replace trials of the same variant and block.
    pub fn merge(&mut self, other: Trials) {
        for (block, variants) in other.blocks {
            self.blocks.entry(block).or_default().extend(variants);
        }
        self.left_out.extend(other.left_out);
    }

    /// Returns the number of blocks that have a trial of each of the `variants` variants.
    pub fn complete_blocks(&self, variants: usize) -> u32 {
        u32::try_from(self.complete(variants).len()).unwrap_or(u32::MAX)
    }

    /// Returns the complete blocks in the order of their numbers. A block is complete if it has a
    /// trial of each variant that isn't left out, even if some values are missing.
    pub(crate) fn complete(&self, variants: usize) -> Vec<Block<'_>> {
        self.blocks
            .iter()
            .filter(|(_, trials)| {
                let mut run = (0..variants).filter(|&variant| !self.leaves_out(variant));
                run.all(|variant| trials.contains_key(&variant))
            })
            .map(|(&number, trials)| Block { number, trials })
            .collect()
    }
}

/// A block with a trial of every variant that isn't left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    /// The experiment's block number.
    pub(crate) number: u32,
    trials: &'a BTreeMap<usize, Values>,
}

impl Block<'_> {
    /// Returns a variant's value of a metric if it is finite.
    pub(crate) fn value(&self, variant: usize, metric: Metric) -> Option<f64> {
        let value = *self.trials.get(&variant)?.get(&metric)?;
        value.is_finite().then_some(value)
    }
}
