//! How many more blocks would decide.

use crate::design::MOST_BLOCKS;
use crate::estimate::{Estimate, Interval, critical};

/// The forecast asks for this chance that the look decides, if the truth is the present estimate:
/// a look that decides with one half would be promised too soon.
const CHANCE: f64 = 0.8;

/// Beyond this many times the plan's blocks no number is sensible.
const HOPELESS: u32 = 10;

/// A look to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// Complete blocks then.
    pub(crate) blocks: u32,
    /// Level of its test, as the hypotheses still open share the error rate.
    pub(crate) shared: f64,
    /// Level of a single interval.
    pub(crate) alone: f64,
}

/// What would hold in a plan with more blocks than this one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Beyond {
    /// The plan's most blocks.
    pub(crate) from: u32,
    /// As in [`Step`].
    pub(crate) shared: f64,
    /// As in [`Step`].
    pub(crate) alone: f64,
}

/// About how many more blocks would decide, if mean and noise stay as they are; `None` when no
/// sensible number would.
pub(crate) fn more_blocks(
    now: Estimate,
    equivalence: Interval,
    planned: impl Iterator<Item = Step>,
    beyond: Beyond,
) -> Option<u32> {
    let most = beyond.from.saturating_mul(HOPELESS).min(MOST_BLOCKS);
    let longer = (beyond.from + 1..=most).map(|blocks| Step {
        blocks,
        shared: beyond.shared,
        alone: beyond.alone,
    });
    planned
        .chain(longer)
        .find(|step| step.blocks > now.blocks && decides(now, equivalence, *step))
        .map(|step| step.blocks - now.blocks)
}

fn decides(now: Estimate, equivalence: Interval, step: Step) -> bool {
    let freedom = step.blocks - 1;
    let error = now.deviation / f64::from(step.blocks).sqrt();
    // One side, so that the chance is CHANCE and not half as much again.
    let spare = critical(2.0 * (1.0 - CHANCE), freedom);
    let apart = now.mean.abs() >= (critical(step.shared, freedom) + spare) * error;
    let inside = (now.mean - equivalence.low).min(equivalence.high - now.mean);
    let same = inside >= (critical(step.alone, freedom) + spare) * error;
    (apart && now.mean != 0.0) || same
}
