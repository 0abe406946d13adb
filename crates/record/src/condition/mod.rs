//! Conditions on a record, such as `p99>50ms`, `failed>0.1%` or `rate<1000`. A record fails if a
//! condition of `--fail-if` holds, or if a condition of `--require` does not.
//!
//! A condition is a metric, a comparison (`>`, `>=`, `<`, `<=`) and a value:
//!
//! | metric | value | meaning |
//! |---|---|---|
//! | `min`, `mean`, `max`, `p50`, `p99.9`, any `pN` or `p(N)` | a time: `250us`, `50ms`, `1.5s`, `2m` | response time |
//! | `service.pN` and so on | a time | service time |
//! | `first_byte.`, `connect.`, `tls.`, `late.` before `min`, `mean`, `p50`, `p90`, `p99`, `p99.9`, `max` | a time | times to the first byte, of connects, of TLS handshakes; lateness of starts |
//! | `rate` | a number: `1000`, `20k` | successful requests per second |
//! | `started`, `ok`, `failed`, or the name of an outcome such as `timeout` | a count, or a share: `10`, `0.1%` | requests; the share is of those that ended |
//! | `unfinished`, `unstarted` | a count or a share | requests; the share is of all that were due |
//! | `retried` | a count or a share | requests sent again; the share is of those started |
//! | `busy` | a share | the generator's busiest worker |
//! | `partial`, `agent-lost` | none, or a count | whether the load by agents has this finding |
//!
//! A percentile that is a lower bound is compared by its printed value.

use std::fmt;
use std::str::FromStr;

use crate::{Record, number};

mod measure;

pub use measure::{Amount, AmountKind, MEASURES, Measure, Relation, finding};

/// A condition on a record: see the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    typed: String,
    measure: Measure,
    /// The relation that fails the record: for a requirement, the inverse of the typed one.
    sign: Relation,
    limit: Amount,
    is_required: bool,
}

/// The result of checking a record against a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionResult {
    /// The record fails: a `--fail-if` holds, or a `--require` does not.
    pub holds: bool,
    /// The measured value as a clause: `p99 is 61.3 ms`.
    pub text: String,
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    ///
    /// A message that names the invalid part and what is expected.
    pub fn parse(typed: &str) -> Result<Condition, String> {
        let compact: String = typed.chars().filter(|c| !c.is_whitespace()).collect();
        let unreadable = || {
            format!(
                "\"{typed}\" is not a condition; write a metric, a comparison (>, >=, <, <=) and a \
                 value, such as p99>50ms, failed>0.1% or rate<1000"
            )
        };
        if finding(&compact).is_some() {
            let measure = Measure::parse(&compact)?;
            return Ok(Condition {
                typed: compact,
                measure,
                sign: Relation::Above,
                limit: Amount::Number(0.0),
                is_required: false,
            });
        }
        let at = compact.find(['<', '>']).ok_or_else(unreadable)?;
        let (name, rest) = compact.split_at(at);
        let (sign, value) = Relation::split(rest).ok_or_else(unreadable)?;
        if name.is_empty() || value.is_empty() {
            return Err(unreadable());
        }
        let measure = Measure::parse(name).map_err(|error| format!("\"{typed}\": {error}"))?;
        let limit = measure
            .kind()
            .amount(value)
            .map_err(|expected| format!("\"{typed}\": {expected}"))?;
        Ok(Condition {
            typed: compact,
            measure,
            sign,
            limit,
            is_required: false,
        })
    }

    /// Parses a requirement: a condition with the opposite meaning.
    ///
    /// # Errors
    ///
    /// The same as [`Condition::parse`].
    pub fn require(typed: &str) -> Result<Condition, String> {
        let condition = Condition::parse(typed)?;
        Ok(Condition {
            sign: condition.sign.inverse(),
            is_required: true,
            ..condition
        })
    }

    /// The option that the condition belongs to.
    pub fn option(&self) -> &'static str {
        match self.is_required {
            true => "--require",
            false => "--fail-if",
        }
    }

    /// The reason why the record fails the condition, as a clause such as `p99 is 61.3 ms`; `None` if it
    /// does not fail.
    ///
    /// A percentile without any requests fails only a requirement.
    pub fn holds(&self, record: &Record) -> Option<String> {
        match self.judge(record) {
            Some(judged) => judged.holds.then_some(judged.text),
            None => self
                .is_required
                .then(|| format!("{} was not measured", self.name())),
        }
    }

    /// Checks a record; `None` if the metric was not measured, such as a percentile without any requests.
    pub fn judge(&self, record: &Record) -> Option<ConditionResult> {
        let (seen, said) = match (self.measure.count(record), self.limit) {
            (Some((_, 0)), Amount::Share(_)) => return None,
            (Some((count, whole)), Amount::Share(_)) => {
                let share = count as f64 / whole as f64;
                let said = format!(
                    "{} ({} of {})",
                    Amount::Share(share),
                    number::count(count),
                    number::count(whole)
                );
                (share, said)
            }
            (Some((count, _)), _) => (count as f64, number::count(count)),
            (None, _) => {
                let amount = self.measure.amount(record)?;
                let said = match amount {
                    Amount::Number(per_s) => number::rate(per_s),
                    _ => amount.to_string(),
                };
                (amount.value(), said)
            }
        };
        Some(ConditionResult {
            holds: self.sign.holds(seen, self.limit.value()),
            text: format!("{} is {said}", self.name()),
        })
    }

    /// The name of the metric as typed.
    fn name(&self) -> &str {
        let end = self.typed.find(['<', '>']).unwrap_or(self.typed.len());
        &self.typed[..end]
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(typed: &str) -> Result<Condition, String> {
        Condition::parse(typed)
    }
}

/// The condition as typed, without spaces.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

#[cfg(test)]
mod tests;
