//! Result of a gate: the outcome, the numbers that it is based on, and a sentence that describes
//! it.

use serde::{Deserialize, Serialize};

/// Outcome of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateOutcome {
    /// The condition definitely holds, so the result is unacceptable.
    Failed,
    /// The measurement is inconclusive.
    Unclear,
    /// The measurement rules the condition out.
    Passed,
}

impl GateOutcome {
    /// Returns the name in JSON and in reports.
    pub fn name(self) -> &'static str {
        match self {
            GateOutcome::Failed => "failed",
            GateOutcome::Unclear => "unclear",
            GateOutcome::Passed => "passed",
        }
    }
}

/// Outcome of a gate for one variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// The gate as the user wrote it.
    pub gate: String,
    /// Name of the variant; empty for a load.
    pub name: String,
    /// Name of the measured quantity; `verdict` for a gate on verdicts.
    pub measure: String,
    /// Outcome of the gate.
    pub ruling: GateOutcome,
    /// Sentence with the measured value and the limit.
    pub text: String,
    /// Scale of `value`, `low`, `high` and `limit`: a value in the measure's unit, its ratio to the
    /// reference's value, or its difference from it. `None` if these fields are absent.
    pub scale: Option<GateScale>,
    /// Estimate, on the scale given by `scale`.
    pub value: Option<f64>,
    /// Lower end of the 95% interval.
    pub low: Option<f64>,
    /// Upper end of the 95% interval.
    pub high: Option<f64>,
    /// Limit with which `value` was compared.
    pub limit: Option<f64>,
}

/// Scale of the numbers in a gate's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateScale {
    /// A value in the measure's unit: microseconds, per second, 0 to 1, bytes, or a count.
    Value,
    /// Ratio to the reference's value.
    Ratio,
    /// Difference from the reference's value (multiplied by the factor in the gate, if any), in the
    /// measure's unit.
    Difference,
}
