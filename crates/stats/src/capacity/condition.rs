//! Conditions on capacities.

use std::fmt;

use prony_record::measure::{AmountKind, Relation};
use prony_record::quantity::QuantityError;

use super::estimate::CapacityEstimate;
use crate::gate_result::GateOutcome;

/// The only metric that conditions on capacities accept.
const METRIC: &str = "capacity";

/// A `--fail-if` condition on a capacity, such as `capacity<8000`.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityCondition {
    input: String,
    relation: Relation,
    limit: f64,
}

/// Reason why a text is not a condition on a capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityConditionError {
    input: String,
    reason: ConditionFault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ConditionFault {
    OtherMetric,
    NoRelation,
    Limit(QuantityError),
}

impl fmt::Display for CapacityConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.input)?;
        match &self.reason {
            ConditionFault::OtherMetric => f.write_str("the only possible metric is capacity")?,
            ConditionFault::NoRelation => {
                f.write_str("the metric must be followed by <, <=, > or >=")?;
            }
            ConditionFault::Limit(error) => error.fmt(f)?,
        }
        f.write_str(" (for example, capacity<8000)")
    }
}

impl std::error::Error for CapacityConditionError {}

impl CapacityCondition {
    /// Parses a condition.
    ///
    /// # Errors
    ///
    /// Returns the reason for the rejection and the accepted form.
    pub fn parse(input: &str) -> Result<CapacityCondition, CapacityConditionError> {
        let compact: String = input.chars().filter(|c| !c.is_whitespace()).collect();
        let refused = |reason| CapacityConditionError {
            input: input.to_owned(),
            reason,
        };
        let Some(rest) = compact.strip_prefix(METRIC) else {
            return Err(refused(ConditionFault::OtherMetric));
        };
        let Some((relation, limit)) = Relation::split(rest) else {
            return Err(refused(ConditionFault::NoRelation));
        };
        let limit = AmountKind::Rate.amount(limit);
        let limit = limit
            .map_err(|error| refused(ConditionFault::Limit(error)))?
            .value();
        Ok(CapacityCondition {
            input: compact,
            relation,
            limit,
        })
    }

    /// Judges an estimate. The condition is established only if it holds for the whole interval, or
    /// for every capacity that the bound allows.
    pub fn judge(&self, estimate: &CapacityEstimate) -> GateOutcome {
        let (low, high) = match *estimate {
            CapacityEstimate::Capacity {
                per_s, interval, ..
            } => match interval {
                Some(interval) => (interval.low, interval.high),
                // Without an interval, a capacity that satisfies the condition is inconclusive.
                None if self.relation.holds(per_s, self.limit) => return GateOutcome::Unclear,
                None => (per_s, per_s),
            },
            CapacityEstimate::AtLeast { per_s, .. } => (per_s, f64::INFINITY),
            CapacityEstimate::Below { per_s } | CapacityEstimate::Unmet { per_s } => (0.0, per_s),
        };
        match [low, high].map(|end| self.relation.holds(end, self.limit)) {
            [true, true] => GateOutcome::Failed,
            [false, false] => GateOutcome::Passed,
            _ => GateOutcome::Unclear,
        }
    }
}

/// Prints the condition as input, without spaces.
impl fmt::Display for CapacityCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Interval;

    #[test]
    fn the_whole_interval_decides() {
        let estimate = |low: f64, high: f64| CapacityEstimate::Capacity {
            per_s: (low * high).sqrt(),
            interval: Some(Interval { low, high }),
            searches: 5,
        };
        let below = CapacityCondition::parse("capacity < 8k").unwrap();
        assert_eq!(below.to_string(), "capacity<8k");
        for (estimate, ruling) in [
            (estimate(7_000.0, 7_900.0), GateOutcome::Failed),
            (estimate(7_000.0, 8_100.0), GateOutcome::Unclear),
            (estimate(8_000.0, 8_100.0), GateOutcome::Passed),
            (CapacityEstimate::Unmet { per_s: 1.0 }, GateOutcome::Failed),
            (CapacityEstimate::Below { per_s: 67.0 }, GateOutcome::Failed),
        ] {
            assert_eq!(below.judge(&estimate), ruling, "{estimate:?}");
        }
        let at_least = |per_s: f64| CapacityEstimate::AtLeast {
            per_s,
            reason: crate::capacity::BoundReason::RateMax,
        };
        assert_eq!(below.judge(&at_least(9e3)), GateOutcome::Passed);
        assert_eq!(below.judge(&at_least(5e3)), GateOutcome::Unclear);
    }

    #[test]
    fn other_metrics_and_forms_are_refused() {
        for input in [
            "p99<50ms",
            "capacity",
            "capacity=8000",
            "capacity<fast",
            "capacity<5ms",
            "",
        ] {
            let error = CapacityCondition::parse(input).expect_err(input);
            assert!(error.to_string().starts_with(input), "{error}");
        }
    }
}
