//! The mean of a metric for each variant, and its change against the baseline.

use prony_stats::{Comparison, Effect, Metric, VerdictDocument};
use prony_wording::Change;
use prony_wording::verdict::word;

/// Formats a value of a metric with its unit.
pub(crate) fn value_text(metric: Metric, value: f64) -> String {
    metric.unit().shown(value)
}

/// Formats the mean of a metric over a variant's blocks, as in all output; `–` if the metric was
/// not measured.
pub(crate) fn mean_text(verdict: &VerdictDocument, variant: usize, metric: Metric) -> String {
    level(verdict, variant, metric).map_or("–".to_owned(), |level| value_text(metric, level))
}

/// The mean of a metric over a variant's blocks.
pub(crate) fn level(verdict: &VerdictDocument, variant: usize, metric: Metric) -> Option<f64> {
    let summary = verdict.variants.get(variant)?.metrics.get(&metric)?;
    Some(summary.level(metric))
}

/// Returns true if a metric was measured for any variant.
pub(crate) fn is_measured(verdict: &VerdictDocument, metric: Metric) -> bool {
    let mut variants = verdict.variants.iter();
    variants.any(|variant| variant.metrics.contains_key(&metric))
}

/// Formats an effect as a change and its interval. A string is empty if there is nothing to show.
pub(crate) fn change_texts(metric: Metric, effect: &Effect) -> (String, String) {
    let change = Change::of(metric, effect);
    let interval = change.as_ref().and_then(Change::signed_range);
    let change = change.map_or(String::new(), |change| change.signed());
    (change, interval.unwrap_or_default())
}

/// The result of one variant for one metric, compared with its baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standing {
    /// The variant's index.
    pub(crate) variant: usize,
    /// The mean over the variant's blocks, with its unit; `–` if the metric was not measured.
    pub(crate) figure: String,
    /// The change against the baseline; empty if there is none.
    pub(crate) change: String,
    /// The interval of `change`; empty for a baseline.
    pub(crate) interval: String,
    /// The verdict as a word; empty for a metric without verdicts.
    pub(crate) verdict: &'static str,
    /// True if the variant is a baseline.
    pub(crate) is_reference: bool,
}

impl Standing {
    /// Returns the verdict, or `reference` for a baseline.
    pub(crate) fn word(&self) -> &'static str {
        if self.is_reference {
            "reference"
        } else {
            self.verdict
        }
    }
}

/// Returns true if a variant has the baseline's levels.
fn is_reference(verdict: &VerdictDocument, variant: usize) -> bool {
    let levels = &verdict.variants[variant].levels;
    verdict
        .baseline
        .iter()
        .all(|(factor, level)| levels.get(factor) == Some(level))
}

/// The baseline of a variant; `None` if the variant is itself a baseline.
pub(crate) fn reference_of(verdict: &VerdictDocument, variant: usize) -> Option<usize> {
    let levels = &verdict.variants.get(variant)?.levels;
    let judged = verdict
        .comparisons
        .iter()
        .map(|it| (&it.levels, &it.against));
    let described = verdict.described.iter().map(|it| (&it.levels, &it.against));
    let (_, against) = judged.chain(described).find(|(new, _)| *new == levels)?;
    let mut variants = verdict.variants.iter();
    variants.position(|it| it.levels == *against)
}

/// The effect of a variant against its baseline for a metric, with the comparison if it has a
/// verdict.
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

/// The standing of each variant for a metric, in the order of the variants.
pub(crate) fn standings(verdict: &VerdictDocument, metric: Metric) -> Vec<Standing> {
    let each = 0..verdict.variants.len();
    each.map(|variant| {
        let is_reference = is_reference(verdict, variant);
        let compared = effect_of(verdict, variant, metric).filter(|_| !is_reference);
        let texts = compared.map(|(effect, _)| change_texts(metric, effect));
        let (change, interval) = texts.unwrap_or_default();
        Standing {
            variant,
            figure: mean_text(verdict, variant, metric),
            change,
            interval,
            verdict: match compared {
                Some((_, Some(comparison))) => word(comparison.verdict),
                _ => "",
            },
            is_reference,
        }
    })
    .collect()
}
