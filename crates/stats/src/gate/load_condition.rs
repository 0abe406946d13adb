//! Conditions on the record of a single load or on the last seconds of a running load, such as
//! `p99>50ms`, `failed>0.1%` or `rate<1000`.
//!
//! The grammar and the metrics are the same as for a [`Gate`](super::Gate), but there are no
//! variants, references or verdicts. A single load has no confidence interval, so the result
//! depends only on the measured values. If only a lower bound on a percentile is known, that bound
//! is compared with the limit; reports also print the bound.

use std::fmt;

use prony_record::Record;
use prony_record::measure::Relation;

use super::error::GateError;
use super::rule::{Gate, GateLimit, GateRule};
use super::scope::GateScope;
use crate::observable::Observable;

/// Condition on the record of one load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCondition {
    /// Text as input, without spaces.
    input: String,
    observable: Observable,
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

/// A record's value of a condition's metric.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadReading {
    /// True if the record fails: a `--fail-if` condition holds, or a `--require` condition does
    /// not.
    pub holds: bool,
    /// The value that was compared with the limit.
    pub value: MeasuredValue,
}

/// A value of a metric in a record.
#[derive(Debug, Clone, PartialEq)]
pub enum MeasuredValue {
    /// A share of requests.
    Share {
        /// The counted requests.
        count: u64,
        /// All requests.
        whole: u64,
    },
    /// A number of requests.
    Count(u64),
    /// Any other value.
    Value {
        /// Value that was measured.
        observable: Observable,
        /// Value that was compared with the limit. For a percentile, failed requests lie beyond
        /// every limit; it is infinite if there are too many.
        judged: f64,
        /// Value among the successful responses.
        plain: Option<f64>,
        /// Number of failed requests.
        failed: u64,
        /// Number of requests that ended.
        ended: u64,
    },
}

impl LoadCondition {
    /// Parses a `--fail-if` condition.
    ///
    /// # Errors
    ///
    /// Returns the position of the first error and the accepted alternatives.
    pub fn parse(input: &str) -> Result<LoadCondition, GateError> {
        let gate = Gate::parse(input, &GateScope::default())?;
        LoadCondition::from_gate(input, gate, ConditionKind::FailIf)
    }

    fn from_gate(input: &str, gate: Gate, kind: ConditionKind) -> Result<LoadCondition, GateError> {
        match gate.rule {
            GateRule::Figure {
                observable,
                relation,
                limit: GateLimit::Fixed { value, is_share },
            } => Ok(LoadCondition {
                input: without_spaces(input, &observable.name),
                observable,
                failing: relation,
                limit: value,
                is_share,
                kind,
            }),
            GateRule::Figure { .. } | GateRule::Verdict { .. } => Err(GateError {
                input: input.to_owned(),
                from: 0,
                to: input.len(),
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
    pub fn require(input: &str) -> Result<LoadCondition, GateError> {
        let gate = Gate::require(input, &GateScope::default())?;
        LoadCondition::from_gate(input, gate, ConditionKind::Require)
    }

    /// Parses an `--abort-if` condition, which is evaluated while the load runs.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`LoadCondition::parse`], and an error if the metric is known
    /// only at the end of a load.
    pub fn abort(input: &str) -> Result<LoadCondition, GateError> {
        let condition = LoadCondition::parse(input)?;
        if condition.observable.is_known_at_end() {
            let name = condition.name();
            return Err(GateError {
                input: input.to_owned(),
                from: 0,
                to: input.len(),
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

    /// Returns true for a `--require` condition.
    pub fn is_requirement(&self) -> bool {
        self.kind == ConditionKind::Require
    }

    /// Reads the metric from a record. Returns `None` if it was not measured, for example a
    /// percentile if there were no requests.
    pub fn read(&self, record: &Record) -> Option<LoadReading> {
        let (value, measured) = match self.observable.count(record) {
            Some((_, 0)) if self.is_share => return None,
            Some((count, whole)) if self.is_share => {
                let share = count as f64 / whole as f64;
                (share, MeasuredValue::Share { count, whole })
            }
            Some((count, _)) => (count as f64, MeasuredValue::Count(count)),
            None => {
                let judged = self.observable.judged_in(record)?;
                let measured = MeasuredValue::Value {
                    observable: self.observable.clone(),
                    judged,
                    plain: self.observable.value_in(record),
                    failed: record.untimed_failures(),
                    ended: record.totals.ok + record.totals.failed,
                };
                (judged, measured)
            }
        };
        Some(LoadReading {
            holds: self.failing.holds(value, self.limit),
            value: measured,
        })
    }

    /// Returns the metric.
    pub(crate) fn observable(&self) -> &Observable {
        &self.observable
    }

    /// Returns the relation between metric and limit that makes the record fail.
    pub(crate) fn failing(&self) -> Relation {
        self.failing
    }

    /// Returns the limit, and whether it is a fraction of a total.
    pub(crate) fn limit(&self) -> (f64, bool) {
        (self.limit, self.is_share)
    }

    /// Returns the name of the metric as input.
    pub fn name(&self) -> &str {
        let end = self.input.find(['<', '>']).unwrap_or(self.input.len());
        &self.input[..end]
    }
}

/// Returns a condition without its spaces. A space within the name of the metric becomes a dot.
fn without_spaces(input: &str, name: &str) -> String {
    let input: String = input.chars().filter(|c| !c.is_whitespace()).collect();
    let kind = name.split_once('.').map(|(kind, _)| kind);
    let rest = kind.and_then(|kind| Some((kind, input.strip_prefix(kind)?)));
    match rest {
        Some((kind, rest)) if !rest.starts_with('.') => format!("{kind}.{rest}"),
        _ => input,
    }
}

/// Prints the condition as input, without spaces.
impl fmt::Display for LoadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.input)
    }
}
