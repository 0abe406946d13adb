//! How each variant stands on a metric: its figure, and what that is of its baseline's.

use prony_stats::{Comparison, Effect, Metric, Unit, VerdictDocument};

use super::word;
use crate::number;

/// A value of a metric with its unit.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    match metric.unit() {
        Unit::PerS => number::rate(value),
        Unit::Micros => number::time(value),
        Unit::Share => number::share(value),
        Unit::Percent => format!("{}%", number::significant(value, 3)),
        Unit::Bytes => number::bytes(value),
        Unit::BitsPerS => number::bits_per_s(value),
        Unit::Count => number::significant(value, 3),
    }
}

/// One variant on one metric: its median and how it stands to its baseline.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Standing {
    /// The variant's place.
    pub(crate) variant: usize,
    /// The median of its trials, with unit; `–` where it was not measured.
    pub(crate) figure: String,
    /// Percent of the baseline, or the difference in percentage points; empty for none.
    pub(crate) relative: String,
    /// The interval of `relative`; empty for a baseline.
    pub(crate) interval: String,
    /// The verdict's word; empty where no verdict was sought.
    pub(crate) verdict: &'static str,
    /// Whether the variant is its own baseline.
    pub(crate) is_reference: bool,
}

impl Standing {
    /// `769 req/s (96.9%, 95.9% to 97.8%)`.
    pub(crate) fn in_one_cell(&self) -> String {
        match (self.relative.as_str(), self.interval.as_str()) {
            ("", _) => self.figure.clone(),
            (relative, "") => format!("{} ({relative})", self.figure),
            (relative, interval) => format!("{} ({relative}, {interval})", self.figure),
        }
    }
}

/// Whether a variant is compared with nothing, on any metric.
fn is_reference(verdict: &VerdictDocument, variant: usize) -> bool {
    let levels = &verdict.variants[variant].levels;
    verdict
        .baseline
        .iter()
        .all(|(factor, level)| levels.get(factor) == Some(level))
}

/// The effect of a variant against its baseline on a metric, judged or described.
pub(crate) fn effect_of(
    verdict: &VerdictDocument,
    variant: usize,
    metric: Metric,
) -> Option<(&Effect, Option<&Comparison>)> {
    let levels = &verdict.variants.get(variant)?.levels;
    let judged = verdict
        .comparisons
        .iter()
        .find(|c| c.metric == metric && c.levels == *levels);
    if let Some(comparison) = judged {
        return Some((&comparison.effect, Some(comparison)));
    }
    let described = verdict
        .described
        .iter()
        .find(|d| d.metric == metric && d.levels == *levels);
    described.map(|description| (&description.effect, None))
}

/// How each variant stands on a metric, in the order of the variants.
pub(crate) fn standings(verdict: &VerdictDocument, metric: Metric) -> Vec<Standing> {
    let each = verdict.variants.iter().enumerate();
    each.map(|(place, variant)| {
        let figure = variant
            .metrics
            .get(&metric)
            .map_or("–".to_owned(), |summary| value(metric, summary.median));
        let is_reference = is_reference(verdict, place);
        let compared = effect_of(verdict, place, metric);
        let (mut relative, interval) = compared
            .map(|(effect, _)| relative(effect))
            .unwrap_or_default();
        if metric == Metric::RatePerS
            && let Some(percent) = variant.relative_percent
        {
            relative = number::percent(percent);
        }
        if is_reference {
            relative = "100%".to_owned();
        }
        Standing {
            variant: place,
            figure,
            relative,
            interval: if is_reference {
                String::new()
            } else {
                interval
            },
            verdict: match compared {
                Some((_, Some(comparison))) => word(comparison.verdict),
                _ => "",
            },
            is_reference,
        }
    })
    .collect()
}

/// An effect and its interval: `96.9%`, `95.9% to 97.8%`; for shares `+0.3 points`.
fn relative(effect: &Effect) -> (String, String) {
    let points = |value: f64| {
        let text = format!("{:+.2}", value * 100.0);
        text.replace('-', "−")
    };
    let ends = effect.low.zip(effect.high);
    match (effect.ratio, effect.difference) {
        (Some(ratio), _) => (
            number::ratio(ratio),
            ends.map_or(String::new(), |(low, high)| {
                format!("{} to {}", number::ratio(low), number::ratio(high))
            }),
        ),
        (None, Some(difference)) => (
            format!("{} points", points(difference)),
            ends.map_or(String::new(), |(low, high)| {
                format!("{} to {}", points(low), points(high))
            }),
        ),
        (None, None) => Default::default(),
    }
}
