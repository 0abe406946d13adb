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

/// The looks to come.
#[derive(Debug, Clone)]
pub(crate) struct Outlook {
    /// Those of the plan.
    pub(crate) planned: Vec<Step>,
    /// The plan's last; a longer plan with a single look would have the same levels.
    pub(crate) longest: Step,
}

impl Outlook {
    /// About how many more blocks would decide, if mean and noise stay as they are; `None` when no
    /// sensible number would.
    pub(crate) fn more_blocks(&self, now: Estimate, equivalence: Interval) -> Option<u32> {
        let planned = self
            .planned
            .iter()
            .find(|step| decides(now, equivalence, **step));
        let blocks = match planned {
            Some(step) => step.blocks,
            None => self.longer_plan(now, equivalence)?,
        };
        blocks.checked_sub(now.blocks).filter(|&more| more > 0)
    }

    /// The shortest longer plan with one look that would decide, by bisection: the more blocks,
    /// the easier.
    fn longer_plan(&self, now: Estimate, equivalence: Interval) -> Option<u32> {
        let with = |blocks| Step {
            blocks,
            ..self.longest
        };
        let mut low = self.longest.blocks;
        let mut high = low.saturating_mul(HOPELESS).min(MOST_BLOCKS);
        if !decides(now, equivalence, with(high)) {
            return None;
        }
        while low + 1 < high {
            let middle = low.midpoint(high);
            if decides(now, equivalence, with(middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(high)
    }
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
