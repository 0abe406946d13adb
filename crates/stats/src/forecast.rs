//! Forecast of the number of additional blocks needed to decide a comparison.

use crate::design::BLOCKS_MAX;
use crate::estimate::{Estimate, Interval, critical};

/// Required probability that the predicted look decides the comparison if the current estimate is
/// the true value. A probability of one half would make the forecast too optimistic.
const DECISION_PROBABILITY: f64 = 0.8;

/// Forecasts above this multiple of the planned number of blocks are not reported.
const PLAN_FACTOR_MAX: u32 = 10;

/// Planned or hypothetical look in the future.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FutureLook {
    /// Number of complete blocks at the look.
    pub(crate) blocks: u32,
    /// Significance level of each test at this look if the error rate is split among the hypotheses
    /// that are still open.
    pub(crate) shared: f64,
    /// Significance level of a single interval.
    pub(crate) alone: f64,
}

/// Future looks of a design.
#[derive(Debug, Clone)]
pub(crate) struct Outlook {
    /// Remaining looks of the plan.
    pub(crate) planned: Vec<FutureLook>,
    /// Last look of the plan. The single look of a hypothetical longer plan has the same
    /// significance levels.
    pub(crate) longest: FutureLook,
}

impl Outlook {
    /// Returns the approximate number of additional blocks needed for a decision if the mean and
    /// the noise stay the same, or `None` if no reasonable number would be enough.
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

    /// Finds the smallest number of blocks, larger than the plan allows, at which a single look
    /// would decide the comparison. Bisection works because more blocks never make a decision
    /// harder.
    fn longer_plan(&self, now: Estimate, equivalence: Interval) -> Option<u32> {
        let with = |blocks| FutureLook {
            blocks,
            ..self.longest
        };
        let mut low = self.longest.blocks;
        let mut high = low.saturating_mul(PLAN_FACTOR_MAX).min(BLOCKS_MAX);
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

fn decides(now: Estimate, equivalence: Interval, step: FutureLook) -> bool {
    let freedom = step.blocks - 1;
    let error = now.deviation / f64::from(step.blocks).sqrt();
    // The test is one-sided, so the probability is DECISION_PROBABILITY.
    let spare = critical(2.0 * (1.0 - DECISION_PROBABILITY), freedom);
    let apart = now.mean.abs() >= (critical(step.shared, freedom) + spare) * error;
    let inside = (now.mean - equivalence.low).min(equivalence.high - now.mean);
    let same = inside >= (critical(step.alone, freedom) + spare) * error;
    (apart && now.mean != 0.0) || same
}
