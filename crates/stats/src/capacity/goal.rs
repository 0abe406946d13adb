//! Goals of a capacity search.

use std::fmt;

use prony_record::measure::{AmountKind, Measure, Relation};
use prony_record::{Finding, FindingId, Record, Severity};

use crate::gate::{GateError, LoadCondition};
use crate::observable::ObservableSource;

use super::probe::ProbeResult;
use super::reading::{GoalReading, TailCount};

/// Number of requests beyond a percentile that a probe must contain to judge that percentile.
const TAIL_REQUESTS_MIN: f64 = 10.0;
/// Minimum number of requests that a probe needs, whatever the goal.
const REQUESTS_MIN: f64 = 100.0;
/// Minimum excess of a reading that isn't a share, because zero has no logarithm.
const EXCESS_MIN: f64 = 1e-3;

/// A condition that the server must meet, such as `p99<50ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    condition: LoadCondition,
    measure: Measure,
}

/// Reason why a text is not a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GoalError {
    /// The text is not a condition.
    Condition(GateError),
    /// The condition can't be a goal.
    Refused {
        /// The goal as input.
        input: String,
        /// Why it can't be a goal, with a hint.
        reason: &'static str,
    },
}

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoalError::Condition(error) => error.fmt(f),
            GoalError::Refused { input, reason } => write!(f, "{input}: {reason}"),
        }
    }
}

impl std::error::Error for GoalError {}

impl Goal {
    /// Parses a goal, in the grammar of `--require`.
    ///
    /// # Errors
    ///
    /// Returns an error for a condition that can't be parsed or can't be a goal.
    pub fn parse(input: &str) -> Result<Goal, GoalError> {
        let condition = LoadCondition::require(input).map_err(GoalError::Condition)?;
        let refused = |reason| {
            let input = input.to_owned();
            Err(GoalError::Refused { input, reason })
        };
        let ObservableSource::Measure(measure) = condition.observable().what.clone() else {
            return refused("a goal is a time or a share of failed requests, such as p99<50ms");
        };
        if !matches!(condition.failing(), Relation::Above | Relation::AtLeast) {
            return refused("a goal is an upper limit (write <, such as p99<50ms)");
        }
        let (limit, is_share) = condition.limit();
        match measure.kind() {
            AmountKind::Time if measure.is_extreme() || measure.quantile() == Some(1.0) => {
                return refused(
                    "the minimum and the maximum depend on the length of a probe (use a \
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
                    "a goal can't be about a rate or the generator (use a time or a share of \
                     requests, such as p99<50ms)",
                );
            }
        }
        if limit <= 0.0 {
            return refused("the limit of a goal must be above zero");
        }
        Ok(Goal { condition, measure })
    }

    /// Returns the number of requests that a probe needs to judge the goal: enough that ten of them
    /// may be beyond the percentile or the limit.
    pub fn requests_min(&self) -> f64 {
        let (limit, is_share) = self.condition.limit();
        let share = match self.measure.quantile() {
            Some(quantile) => 1.0 - quantile,
            None if is_share => limit,
            None => 1.0,
        };
        (TAIL_REQUESTS_MIN / share).max(REQUESTS_MIN).round()
    }

    /// Returns the condition that fails if the goal is not met.
    pub fn condition(&self) -> &LoadCondition {
        &self.condition
    }

    /// Returns the limit: microseconds, or a share from 0 to 1.
    pub fn limit(&self) -> f64 {
        self.condition.limit().0
    }

    /// Returns the limit in seconds if the goal is about a time.
    pub fn limit_s(&self) -> Option<f64> {
        let is_time = self.measure.kind() == AmountKind::Time;
        is_time.then(|| self.condition.limit().0 / 1e6)
    }

    /// Returns the longest limit, in seconds, of the goals about times; 0 if there are none.
    pub fn longest_limit_s(goals: &[Goal]) -> f64 {
        goals.iter().filter_map(Goal::limit_s).fold(0.0, f64::max)
    }

    /// Returns the number of failed requests that a goal about failures permits. Only these count
    /// as completed by the server.
    fn permitted_failures(goals: &[Goal], record: &Record) -> f64 {
        let (ok, failed) = match &record.journeys {
            Some(journeys) => (journeys.completed, journeys.failed),
            None => (record.totals.ok, record.totals.failed),
        };
        let failed = failed as f64;
        let ended = ok as f64 + failed;
        let shares = goals
            .iter()
            .filter(|goal| goal.measure.kind() == AmountKind::Count)
            .map(Goal::limit);
        failed.min(shares.fold(0.0, f64::max) * ended)
    }

    /// Reads the goal's metric from the record of a probe. Returns `None` if it was not measured.
    pub fn read(&self, record: &Record) -> Option<GoalReading> {
        let judged = self.condition.read(record)?;
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
        let value = self.measure.judged(record)?.value();
        let tail = match shares {
            Some((_, 0, _)) => return None,
            Some((over, all, allowed_share)) => Some(TailCount {
                over,
                all,
                allowed_share,
            }),
            None => None,
        };
        let (excess, resolution) = match tail {
            Some(tail) => {
                let expected = tail.allowed_of(tail.all as f64);
                (tail.over as f64 / expected, 0.5 / expected)
            }
            None => (value / limit, EXCESS_MIN),
        };
        Some(GoalReading {
            met: !judged.holds,
            excess,
            resolution,
            tail,
            value: match tail {
                Some(tail) if is_share => tail.over as f64 / tail.all as f64,
                _ => value,
            },
        })
    }

    /// Returns true if the service times, which exclude the wait for a free connection, meet the
    /// goal. A goal that isn't about response times is judged by its usual reading.
    pub(super) fn is_met_by_service_times(&self, record: &Record) -> bool {
        let Some(measure) = self.measure.of_service_times() else {
            return self.read(record).is_some_and(|reading| reading.met);
        };
        let (failing, limit) = (self.condition.failing(), self.limit());
        let amount = measure.judged(record);
        amount.is_some_and(|amount| !failing.holds(amount.value(), limit))
    }

    /// Returns the readings of all goals, or none if one of them was not measured.
    pub fn read_all(goals: &[Goal], record: &Record) -> Vec<GoalReading> {
        let readings = goals.iter().map(|goal| goal.read(record));
        readings.collect::<Option<Vec<_>>>().unwrap_or_default()
    }
}

impl ProbeResult {
    /// Reads the result of a probe from its record. `took_s` is the total duration of the probe.
    pub fn read(record: &Record, goals: &[Goal], cut_short: bool, took_s: f64) -> ProbeResult {
        let totals = &record.totals;
        // The rate of journeys is that of their beginnings.
        let (ok, requests, offered_per_s) = match &record.journeys {
            Some(journeys) => (
                journeys.completed,
                journeys.started + journeys.unstarted,
                journeys.offered_per_s,
            ),
            None => (
                totals.ok,
                totals.started + totals.unstarted,
                record.rate.offered_per_s,
            ),
        };
        let completed = ok as f64 + Goal::permitted_failures(goals, record);
        let achieved_per_s = if totals.elapsed_s > 0.0 {
            completed / totals.elapsed_s
        } else {
            0.0
        };
        let is_saturated = |finding: &Finding| {
            finding
                .id
                .known()
                .is_some_and(FindingId::is_generator_limit)
                && finding.severity == Severity::Error
        };
        ProbeResult {
            offered_per_s: offered_per_s.unwrap_or(achieved_per_s),
            achieved_per_s,
            requests,
            limit_s: Goal::longest_limit_s(goals),
            goals: Goal::read_all(goals, record),
            generator_saturated: record.findings.iter().any(is_saturated),
            cut_short,
            took_s,
        }
    }
}

/// Prints the goal as input, without spaces.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}
