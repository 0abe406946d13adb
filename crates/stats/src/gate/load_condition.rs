//! Conditions on the record of a single load or on the last seconds of a running load, such as
//! `p99>50ms`, `failed>0.1%` or `rate<1000`.
//!
//! The grammar and the metrics are the same as for a [`Gate`](super::Gate), but there are no
//! variants, references or verdicts. A single load has no confidence interval, so the result
//! depends only on the measured values. If only a lower bound on a percentile is known, that bound
//! is compared with the limit; reports also print the bound.

use std::fmt;

use prony_record::measure::{Amount, Relation};
use prony_record::{ConditionRuling, JudgedCondition, Record, number};

use super::error::GateError;
use super::scope::GateScope;
use super::{Gate, GateLimit, GateRule};
use crate::quantity::Quantity;

/// Condition on the record of one load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCondition {
    /// Text as typed, without spaces.
    typed: String,
    quantity: Quantity,
    /// Relation between metric and limit that makes the record fail. For a requirement, it is the
    /// inverse of the typed relation.
    failing: Relation,
    limit: f64,
    /// True if the limit is a fraction of a total.
    is_share: bool,
    kind: ConditionKind,
}

/// The option that a condition belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionKind {
    FailIf,
    Require,
    AbortIf,
}

/// Result of checking a record against a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadConditionResult {
    /// True if the record fails: a `--fail-if` condition holds, or a `--require` condition does
    /// not.
    pub holds: bool,
    /// Measured value as a clause: `p99 is 61.3 ms`.
    pub text: String,
}

impl LoadCondition {
    /// Parses a `--fail-if` condition.
    ///
    /// # Errors
    ///
    /// Returns the position of the first error and the accepted alternatives.
    pub fn parse(typed: &str) -> Result<LoadCondition, GateError> {
        let gate = Gate::parse(typed, &GateScope::default())?;
        LoadCondition::from_gate(typed, gate, ConditionKind::FailIf)
    }

    fn from_gate(typed: &str, gate: Gate, kind: ConditionKind) -> Result<LoadCondition, GateError> {
        match gate.rule {
            GateRule::Figure {
                quantity,
                relation,
                limit: GateLimit::Fixed { value, is_share },
            } => Ok(LoadCondition {
                typed: typed.chars().filter(|c| !c.is_whitespace()).collect(),
                quantity,
                failing: relation,
                limit: value,
                is_share,
                kind,
            }),
            GateRule::Figure { .. } | GateRule::Verdict { .. } => Err(GateError {
                typed: typed.to_owned(),
                from: 0,
                to: typed.len(),
                what: "a single load can't be compared with another (use `prony report`)"
                    .to_owned(),
            }),
        }
    }

    /// Parses a `--require` condition, which has the opposite meaning of `--fail-if`.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`LoadCondition::parse`].
    pub fn require(typed: &str) -> Result<LoadCondition, GateError> {
        let gate = Gate::require(typed, &GateScope::default())?;
        LoadCondition::from_gate(typed, gate, ConditionKind::Require)
    }

    /// Parses an `--abort-if` condition, which is evaluated while the load runs.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`LoadCondition::parse`], and an error if the metric is known
    /// only at the end of a load.
    pub fn abort(typed: &str) -> Result<LoadCondition, GateError> {
        let condition = LoadCondition::parse(typed)?;
        if condition.quantity.is_known_at_end() {
            let name = condition.name();
            return Err(GateError {
                typed: typed.to_owned(),
                from: 0,
                to: typed.len(),
                what: format!("{name} is known only after the load has ended (use --fail-if)"),
            });
        }
        Ok(LoadCondition {
            kind: ConditionKind::AbortIf,
            ..condition
        })
    }

    /// Returns the option that the condition belongs to.
    pub fn option(&self) -> &'static str {
        match self.kind {
            ConditionKind::FailIf => "--fail-if",
            ConditionKind::Require => "--require",
            ConditionKind::AbortIf => "--abort-if",
        }
    }

    /// Returns the reason why the record fails the condition, as a clause such as `p99 is 61.3 ms`,
    /// or `None` if it doesn't fail.
    ///
    /// If there were no requests, a condition on a percentile fails only if it is a requirement.
    pub fn holds(&self, record: &Record) -> Option<String> {
        match self.judge(record) {
            Some(judged) => judged.holds.then_some(judged.text),
            None => (self.kind == ConditionKind::Require)
                .then(|| format!("{} was not measured", self.name())),
        }
    }

    /// The result for a record, as it is stored.
    pub fn result(&self, record: &Record) -> JudgedCondition {
        let (ruling, text) = match (self.holds(record), self.judge(record)) {
            (Some(reason), _) => (ConditionRuling::Failed, reason),
            (None, Some(judged)) => (ConditionRuling::Passed, judged.text),
            (None, None) => (ConditionRuling::Unknown, "nothing was measured".to_owned()),
        };
        JudgedCondition {
            condition: format!("{} {self}", self.option()),
            ruling,
            text,
        }
    }

    /// Checks a record. Returns `None` if the metric was not measured, for example a percentile if
    /// there were no requests.
    pub fn judge(&self, record: &Record) -> Option<LoadConditionResult> {
        let (value, shown) = match self.quantity.count(record) {
            Some((_, 0)) if self.is_share => return None,
            Some((count, whole)) if self.is_share => {
                let share = count as f64 / whole as f64;
                let (count, whole) = (number::count(count), number::count(whole));
                (
                    share,
                    format!("{} ({count} of {whole})", Amount::Share(share)),
                )
            }
            Some((count, _)) => (count as f64, number::count(count)),
            None => {
                let value = self.quantity.judged_in(record)?;
                (value, self.shown_time(value, record))
            }
        };
        Some(LoadConditionResult {
            holds: self.failing.holds(value, self.limit),
            text: format!("{} is {shown}", self.name()),
        })
    }

    /// Formats a value. If failed requests change a percentile, both values are given with their
    /// names.
    fn shown_time(&self, judged: f64, record: &Record) -> String {
        let failed = record.untimed_failures();
        let plain = self.quantity.value_in(record);
        if failed == 0 || plain == Some(judged) {
            return self.quantity.shown(judged);
        }
        let ended = number::count(record.totals.ok + record.totals.failed);
        let failed = number::count(failed);
        let judged = match judged.is_finite() {
            true => self.quantity.shown(judged),
            false => "beyond every limit".to_owned(),
        };
        let plain = plain.map_or(String::new(), |plain| {
            let plain = self.quantity.shown(plain);
            format!("; {plain} among the successful responses")
        });
        format!("{judged} ({failed} of {ended} requests failed{plain})")
    }

    /// Returns the metric.
    pub(crate) fn quantity(&self) -> &Quantity {
        &self.quantity
    }

    /// Returns the relation between metric and limit that makes the record fail.
    pub(crate) fn failing(&self) -> Relation {
        self.failing
    }

    /// Returns the limit, and whether it is a fraction of a total.
    pub(crate) fn limit(&self) -> (f64, bool) {
        (self.limit, self.is_share)
    }

    /// Returns the name of the metric as typed.
    fn name(&self) -> &str {
        let end = self.typed.find(['<', '>']).unwrap_or(self.typed.len());
        &self.typed[..end]
    }
}

/// Prints the condition as typed, without spaces.
impl fmt::Display for LoadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}
