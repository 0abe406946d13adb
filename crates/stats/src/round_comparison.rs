//! Comparison of two variants by the rounds of interleaved blocks, as stored in `verdict.json`.

use serde::{Deserialize, Serialize};

use crate::comparison::Effect;
use crate::design::Levels;

/// Number by which the slices of a round are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundMetric {
    /// Successful requests per second of the counted part; for closed loops.
    RatePerS,
    /// Mean response time of the successful requests; for open loops, whose rate is set by the
    /// schedule.
    MeanResponseUs,
}

impl RoundMetric {
    /// Name in sentences.
    pub fn noun(self) -> &'static str {
        match self {
            RoundMetric::RatePerS => "request rate",
            RoundMetric::MeanResponseUs => "mean response time",
        }
    }

    /// Value of a slice; `None` if it can't be part of a ratio.
    pub fn value(self, ok: u64, length_s: f64, mean_response_us: Option<f64>) -> Option<f64> {
        let value = match self {
            RoundMetric::RatePerS => ok as f64 / length_s,
            RoundMetric::MeanResponseUs => mean_response_us?,
        };
        (value.is_finite() && value > 0.0).then_some(value)
    }
}

/// A variant and its baseline, compared by the rounds of all blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundComparison {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of its baseline.
    pub against: Levels,
    /// Name of the variant in sentences.
    pub name: String,
    /// Name of its baseline in sentences.
    pub against_name: String,
    /// Number by which slices are compared.
    pub metric: RoundMetric,
    /// Effect and interval from blocks. For rates, those of the comparison on `rate_per_s`.
    #[serde(flatten)]
    pub effect: Effect,
    /// Blocks with at least one ratio.
    pub blocks: u32,
    /// Rounds in which both have a value.
    pub rounds: u32,
    /// Rounds in which one of the two has no value.
    pub rounds_without_ratio: u32,
    /// Mean of the blocks' geometric means of the rounds' ratios.
    pub rounds_ratio: f64,
    /// Lower end of the 95% interval from the spread of the rounds within their blocks; absent with
    /// one round in each block.
    pub rounds_low: Option<f64>,
    /// Upper end of that interval.
    pub rounds_high: Option<f64>,
    /// Standard error of the mean log ratio from the spread between blocks, divided by that from the
    /// spread of the rounds within blocks. Near 1 if blocks differ by no more than their rounds do.
    pub error_ratio: Option<f64>,
    /// The diagnostic as a few sentences.
    pub text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_without_a_success_has_no_value() {
        assert_eq!(RoundMetric::RatePerS.value(50, 0.25, None), Some(200.0));
        assert_eq!(RoundMetric::RatePerS.value(0, 0.25, None), None);
        assert_eq!(RoundMetric::RatePerS.value(5, 0.0, None), None);
        assert_eq!(RoundMetric::MeanResponseUs.value(0, 0.25, None), None);
        assert_eq!(
            RoundMetric::MeanResponseUs.value(9, 0.25, Some(70.0)),
            Some(70.0)
        );
    }
}
