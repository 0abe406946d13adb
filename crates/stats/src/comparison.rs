//! Comparison of a variant with its baseline on one metric, and its verdict.

use prony_record::FindingName;
use serde::{Deserialize, Serialize};

use crate::design::Levels;
use crate::metric::{Metric, Scale};

/// Conclusion about a variant on one metric, relative to its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The variant is better on the metric.
    Faster,
    /// The variant is worse on the metric.
    Slower,
    /// The whole interval is within the margin. Takes precedence over `Faster` and `Slower`.
    Equivalent,
    /// The data so far do not support a verdict.
    Undecided,
    /// A finding indicates that the measurement can't support a verdict.
    Withheld,
}

/// An estimate with its interval, as stored in JSON. No field is ever NaN or infinite: a value that
/// can't be computed is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The variant's value divided by the baseline's; absent on the difference scale.
    pub ratio: Option<f64>,
    /// The variant's value minus the baseline's; on the difference scale only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Lower end of the 95% interval, on the same scale as the estimate.
    pub low: Option<f64>,
    /// Upper end of the 95% interval.
    pub high: Option<f64>,
}

/// Largest magnitude of an effect. Anything larger is not a measurement and could overflow when
/// printed as a percentage.
const EFFECT_MAX: f64 = 1e300;

impl Effect {
    /// Effect without an estimate.
    pub(crate) const NONE: Effect = Effect {
        ratio: None,
        difference: None,
        low: None,
        high: None,
    };

    /// Returns the estimate: a ratio or a difference.
    pub fn estimate(&self) -> Option<f64> {
        self.ratio.or(self.difference)
    }

    /// Converts a mean and its interval from the averaging scale (logarithms of ratios, or
    /// differences). Values that JSON can't represent are omitted.
    pub(crate) fn on(scale: Scale, mean: Option<f64>, interval: Option<crate::Interval>) -> Effect {
        let shown = |value: f64| {
            let value = match scale {
                Scale::Ratio => value.exp(),
                Scale::Difference => value,
            };
            (value.abs() < EFFECT_MAX).then_some(value)
        };
        let (ratio, difference) = match scale {
            Scale::Ratio => (mean.and_then(shown), None),
            Scale::Difference => (None, mean.and_then(shown)),
        };
        Effect {
            ratio,
            difference,
            low: interval.and_then(|interval| shown(interval.low)),
            high: interval.and_then(|interval| shown(interval.high)),
        }
    }
}

/// Reason why a verdict is withheld.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithheldBecause {
    /// Blocks lack a value, or the value is zero although the comparison is a ratio.
    Unmeasured(Unmeasured),
    /// A finding indicates that the measurement can't support the verdict.
    Finding(FindingName),
    /// Other processes or guests used so much CPU time that it could cause the difference.
    Noise,
    /// A reason in words: a phrase that completes "verdict withheld: …". Earlier versions stored
    /// no other form.
    Stated(String),
}

/// Blocks without a usable value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmeasured {
    /// Numbers of the blocks in which the variant has no value.
    pub variant: Vec<u32>,
    /// Numbers of the blocks in which its baseline has no value.
    pub against: Vec<u32>,
}

/// Comparison of a variant with its baseline on one metric of the family, with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Metric on which they are compared.
    pub metric: Metric,
    /// Estimate from all blocks used, with its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// Verdict that follows from the interval.
    pub verdict: Verdict,
    /// Reason why the verdict is withheld. `None` for all other verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<WithheldBecause>,
    /// The comparison as one sentence, composed from the other fields; empty until then.
    pub text: String,
    /// Number of complete blocks used.
    pub blocks: u32,
    /// For `undecided`: approximate number of additional blocks needed for a decision if the
    /// estimate and the noise don't change. Absent if no reasonable number would be enough.
    #[serde(default)]
    pub more_blocks: Option<u32>,
    /// Fraction of the cores that other processes used, if it is so large that the difference may
    /// not be the same on a quiet machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowded_share: Option<f64>,
    /// Reason why the verdict might not apply to another environment, composed from
    /// `crowded_share`. It is also appended to `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// Name of the variant in sentences.
    pub name: String,
    /// Name of the variant's baseline in sentences.
    pub against_name: String,
}

/// Comparison on a metric outside the family. It is shown with its interval but never judged,
/// because it has no share of the error rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Metric on which they are compared.
    pub metric: Metric,
    /// Estimate with its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// Number of complete blocks in which both variant and baseline have a value.
    pub blocks: u32,
    /// The comparison as one sentence, composed from the other fields; empty until then.
    pub text: String,
}

impl Comparison {
    /// Withdraws the verdict because the measurement can't support it. The estimate is kept as a
    /// description.
    pub fn withhold(&mut self, because: WithheldBecause) {
        self.verdict = Verdict::Withheld;
        self.withheld = Some(because);
        self.more_blocks = None;
        self.crowded_share = None;
    }
}
