//! Comparison of two variants by the rounds of interleaved blocks, as stored in `verdict.json`.

use serde::{Deserialize, Serialize};

use crate::comparison::Effect;
use crate::design::Levels;

/// Value that is compared between the slices of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundMetric {
    /// Successful requests per second in the counted part of a slice; for closed loops.
    RatePerS,
    /// Mean response time of the successful requests; for open loops, whose rate is set by the
    /// schedule.
    MeanResponseUs,
}

impl RoundMetric {
    /// Returns the name in sentences.
    pub fn noun(self) -> &'static str {
        match self {
            RoundMetric::RatePerS => "request rate",
            RoundMetric::MeanResponseUs => "mean response time",
        }
    }

    /// Returns the value of a slice, or `None` if the value can't be used in a ratio.
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
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Name of the variant in sentences.
    pub name: String,
    /// Name of the variant's baseline in sentences.
    pub against_name: String,
    /// Value that is compared between slices.
    pub metric: RoundMetric,
    /// Effect and interval computed from blocks. For rates, these are copied from the comparison on
    /// `rate_per_s`.
    #[serde(flatten)]
    pub effect: Effect,
    /// Number of blocks with at least one ratio.
    pub blocks: u32,
    /// Number of rounds in which both variants have a value.
    pub rounds: u32,
    /// Number of rounds in which one of the two variants has no value.
    pub rounds_without_ratio: u32,
    /// Mean ratio: the geometric mean of the rounds in each block, averaged over the blocks.
    pub rounds_ratio: f64,
    /// Lower end of the 95% interval, computed from the spread of the rounds within their blocks;
    /// absent if each block has only one round.
    pub rounds_low: Option<f64>,
    /// Upper end of the interval from the rounds.
    pub rounds_high: Option<f64>,
    /// Ratio of two standard errors of the mean log ratio: the one from the spread between blocks
    /// divided by the one from the spread of rounds within blocks. It is near 1 if blocks differ by
    /// no more than their rounds do.
    pub error_ratio: Option<f64>,
    /// The diagnostic in a few sentences, composed from the other fields; empty until then.
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
