//! Goals of a capacity search.

use std::fmt;

use prony_record::Record;
use prony_record::measure::{AmountKind, Measure, Relation};

use crate::gate::LoadCondition;
use crate::quantity::QuantitySource;

/// Requests beyond a percentile that a probe needs to judge it.
const TAIL_REQUESTS_MIN: f64 = 10.0;
/// Requests that a probe needs for any goal.
const REQUESTS_MIN: f64 = 100.0;
/// Smallest excess of a reading that isn't a share, so that it has a logarithm.
const EXCESS_MIN: f64 = 1e-3;

/// A condition that the server must meet, such as `p99<50ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    condition: LoadCondition,
    measure: Measure,
}

/// The value of a goal's metric in one probe, relative to the limit.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalReading {
    /// True if the probe meets the goal.
    pub met: bool,
    /// For a percentile or a share of requests: the share of requests beyond the limit divided by
    /// the allowed share. For other metrics: value / limit. The goal's edge is at 1.
    pub excess: f64,
    /// Excess of half a request; the resolution of a reading of zero.
    pub resolution: f64,
    /// The measured value as a clause: `p99 is 61.3 ms`.
    pub text: String,
}

impl Goal {
    /// Parses a goal, in the grammar of `--require`.
    ///
    /// # Errors
    ///
    /// Fails for conditions that can't be read, and for those that can't be a goal.
    pub fn parse(typed: &str) -> Result<Goal, String> {
        let condition = LoadCondition::require(typed).map_err(|error| error.to_string())?;
        let refused = |reason: &str| Err(format!("{typed}: {reason}"));
        let QuantitySource::Measure(measure) = condition.quantity().what else {
            return refused("a goal is a time or a share of failed requests, such as p99<50ms");
        };
        if !matches!(condition.failing(), Relation::Above | Relation::AtLeast) {
            return refused("a goal is an upper limit (write <, such as p99<50ms)");
        }
        let (limit, is_share) = condition.limit();
        match measure.kind() {
            AmountKind::Time if measure.is_extreme() || measure.quantile() == Some(1.0) => {
                return refused(
                    "the longest and the shortest time depend on the length of a probe (use a \
                     percentile, such as p99.9)",
                );
            }
            AmountKind::Time => {}
            AmountKind::Count if is_share => {}
            AmountKind::Count => {
                return refused(
                    "probes differ in length, so a count can't be a goal (write a share, such as \
                     failed<0.1%)",
                );
            }
            AmountKind::Rate | AmountKind::Share => {
                return refused(
                    "a goal can't be about the rate or the generator (use a time or a share of \
                     requests, such as p99<50ms)",
                );
            }
        }
        if limit <= 0.0 {
            return refused("the limit of a goal is above zero");
        }
        Ok(Goal { condition, measure })
    }

    /// Requests that a probe needs to judge the goal: ten beyond the percentile or the limit.
    pub fn requests_min(&self) -> f64 {
        let (limit, is_share) = self.condition.limit();
        let share = match self.measure.quantile() {
            Some(quantile) => 1.0 - quantile,
            None if is_share => limit,
            None => 1.0,
        };
        (TAIL_REQUESTS_MIN / share).max(REQUESTS_MIN).round()
    }

    /// Reads the goal's metric in the record of a probe; `None` if it was not measured.
    pub fn read(&self, record: &Record) -> Option<GoalReading> {
        let judged = self.condition.judge(record)?;
        let (limit, is_share) = self.condition.limit();
        let shares = match self.measure.quantile() {
            Some(quantile) => {
                let counted = self.measure.count_from(limit, record);
                counted.map(|(over, all)| (over, all, 1.0 - quantile))
            }
            None if is_share => {
                let counted = self.measure.count(record);
                counted.map(|(count, all)| (count, all, limit))
            }
            None => None,
        };
        let (excess, resolution) = match shares {
            Some((_, 0, _)) => return None,
            Some((over, all, allowed)) => {
                let expected = all as f64 * allowed;
                (over as f64 / expected, 0.5 / expected)
            }
            None => (self.measure.amount(record)?.value() / limit, EXCESS_MIN),
        };
        Some(GoalReading {
            met: !judged.holds,
            excess,
            resolution,
            text: judged.text,
        })
    }
}

/// The goal as typed, without spaces.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}
