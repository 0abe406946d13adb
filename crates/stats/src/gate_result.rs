//! Result of a gate: the outcome, the numbers that it is based on, and a sentence that describes
//! it.

use serde::{Deserialize, Serialize};

use crate::comparison::WithheldBecause;
use crate::estimate::Interval;
use crate::observable::Observable;

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
    /// Name of the measured value; `verdict` for a gate on verdicts.
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

/// A gate's outcome for one variant, with everything that its sentence says.
#[derive(Debug, Clone, PartialEq)]
pub struct GateJudgement {
    /// The gate as the user wrote it.
    pub gate: String,
    /// Name of the variant; empty for a load.
    pub name: String,
    /// Name of the measured value; `verdict` for a gate on verdicts.
    pub measure: String,
    /// Outcome of the gate.
    pub ruling: GateOutcome,
    /// Basis of the outcome.
    pub basis: GateBasis,
    /// Numbers that were compared, if there are any.
    pub numbers: Option<GateNumbers>,
}

/// Numbers that a gate compares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateNumbers {
    /// Scale of the numbers.
    pub scale: GateScale,
    /// Estimate.
    pub value: f64,
    /// The estimate's 95% interval.
    pub interval: Option<Interval>,
    /// Limit with which the estimate was compared.
    pub limit: f64,
}

/// Unit of a run's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialUnit {
    /// Blocks of an experiment.
    Block,
    /// Single loads.
    Load,
}

/// Basis of a gate's outcome: the measurement, or the reason why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum GateBasis {
    /// A verdict, given by its sentence.
    Verdict(String),
    /// The stored run has no matching variant.
    NoReference,
    /// The run itself withheld its verdict on it.
    Withheld(WithheldBecause),
    /// A share without a denominator, because no request completed.
    NoRequests,
    /// The value was not measured in these trials, or in none if there are no numbers.
    NotMeasured {
        /// Unit of the trials.
        unit: TrialUnit,
        /// Numbers of the trials.
        trials: Vec<u32>,
    },
    /// A percentile is beyond every limit, because requests failed.
    BeyondEveryLimit {
        /// Name of the variant.
        variant: String,
        /// Unit of the trials.
        unit: TrialUnit,
        /// Number of trials in which the percentile is beyond every limit.
        count: usize,
        /// Number of all trials.
        all: usize,
    },
    /// A count of requests, summed over all trials.
    Counted {
        /// The counted requests.
        count: u64,
        /// All requests.
        whole: u64,
        /// True if the limit is a share of all requests.
        is_share: bool,
        /// The limit.
        limit: f64,
    },
    /// A value, compared with a limit in its own unit.
    Value {
        /// Value that was measured.
        observable: Observable,
        /// Number of trials.
        trials: usize,
        /// Unit of the trials.
        unit: TrialUnit,
    },
    /// A value, compared with that of a reference.
    Relative {
        /// Value that was measured.
        observable: Observable,
        /// Name of the reference.
        against: String,
        /// Factor by which the reference's value was multiplied.
        factor: f64,
        /// Number of trials.
        trials: usize,
        /// Unit of the trials.
        unit: TrialUnit,
    },
}
