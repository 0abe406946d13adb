//! One variant against its baseline on one metric, and the verdict on it.

use serde::{Deserialize, Serialize};

use crate::design::Levels;
use crate::metric::{Metric, Scale};
use crate::sentence;

/// What can be said of a variant against its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The variant is better on the metric.
    Faster,
    /// The variant is worse on the metric.
    Slower,
    /// The whole interval lies inside the margin. Wins where it and another would hold.
    Equivalent,
    /// The blocks so far don't tell.
    Undecided,
    /// The measurement can't carry a verdict: a finding says why.
    Withheld,
}

/// An estimate with its interval, in the form in which JSON carries it. Nothing in it is ever NaN
/// or infinite: what can't be had is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The variant's value over the baseline's; absent on the difference scale.
    pub ratio: Option<f64>,
    /// The variant's share less the baseline's, on the difference scale only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// Lower end of the 95% interval, on the scale of whichever of the two is given.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// What is larger is no measurement, and might overflow when it is printed as percent.
const LARGEST: f64 = 1e300;

impl Effect {
    /// No estimate at all.
    pub(crate) const NONE: Effect = Effect {
        ratio: None,
        difference: None,
        low: None,
        high: None,
    };

    /// From values on the scale in which blocks are averaged: logarithms of ratios, or
    /// differences. Values that a number can't hold are left out.
    pub(crate) fn on(scale: Scale, mean: Option<f64>, interval: Option<crate::Interval>) -> Effect {
        let shown = |value: f64| {
            let value = match scale {
                Scale::Ratio => value.exp(),
                Scale::Difference => value,
            };
            (value.abs() < LARGEST).then_some(value)
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

/// One comparison of the family, with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The variant.
    pub levels: Levels,
    /// Its baseline.
    pub against: Levels,
    /// What is compared.
    pub metric: Metric,
    /// The estimate from all blocks used, and its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// What can be said.
    pub verdict: Verdict,
    /// The same as one sentence.
    pub text: String,
    /// Complete blocks used.
    pub blocks: u32,
    /// For `undecided`: about how many more blocks would decide, if the estimate and the noise
    /// stay as they are. Absent when no sensible number would.
    #[serde(default)]
    pub more_blocks: Option<u32>,
    /// Why the verdict may be another one elsewhere; it ends `text`, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    /// What sentences call the variant.
    pub name: String,
    /// What they call its baseline.
    pub against_name: String,
}

impl Comparison {
    /// Adds a doubt to the verdict and its sentence. The verdict stands.
    pub fn doubt(&mut self, doubt: &str) {
        self.text = format!("{}; {doubt}", self.text);
        self.doubt = Some(doubt.to_owned());
    }

    /// Takes the verdict back, as the measurement can't carry it. The estimate stays, as a
    /// description. `reason` completes the sentence "verdict withheld: …".
    pub fn withhold(&mut self, reason: &str) {
        self.verdict = Verdict::Withheld;
        self.more_blocks = None;
        self.doubt = None;
        self.text = sentence::withheld(self, reason);
    }
}

/// One comparison outside the family: shown with its interval, never judged, as no part of the
/// error rate is kept for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// The variant.
    pub levels: Levels,
    /// Its baseline.
    pub against: Levels,
    /// What is compared.
    pub metric: Metric,
    /// The estimate and its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// Complete blocks in which both have a value.
    pub blocks: u32,
    /// The same as one sentence.
    pub text: String,
}
