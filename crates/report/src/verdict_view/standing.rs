//! How each variant stands on a metric: its figure, and its change against its baseline.

use prony_stats::{Change, Comparison, Effect, Metric, VerdictDocument};

use super::word;

/// A value of a metric with its unit.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    metric.unit().shown(value)
}

/// The figure of a variant on a metric: the mean over its blocks, as every output prints it. `–`
/// where it was not measured.
pub(crate) fn figure(verdict: &VerdictDocument, variant: usize, metric: Metric) -> String {
    level(verdict, variant, metric).map_or("–".to_owned(), |level| value(metric, level))
}

/// The mean of a variant's blocks on a metric.
pub(crate) fn level(verdict: &VerdictDocument, variant: usize, metric: Metric) -> Option<f64> {
    let summary = verdict.variants.get(variant)?.metrics.get(&metric)?;
    Some(summary.level(metric))
}

/// One variant on one metric: its figure and how it compares with its baseline.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Standing {
    /// The variant's place.
    pub(crate) variant: usize,
    /// The mean over its blocks, with unit; `–` where it was not measured.
    pub(crate) figure: String,
    /// The change against the baseline; empty for none.
    pub(crate) change: String,
    /// The interval of `change`; empty for a baseline.
    pub(crate) interval: String,
    /// The verdict's word; empty where no verdict was sought.
    pub(crate) verdict: &'static str,
    /// Whether the variant is its own baseline.
    pub(crate) is_reference: bool,
}

impl Standing {
    /// `769 req/s (−3.1%, −4.1% to −2.2%)`.
    pub(crate) fn in_one_cell(&self) -> String {
        match (self.change.as_str(), self.interval.as_str()) {
            _ if self.is_reference => format!("{} (reference)", self.figure),
            ("", _) => self.figure.clone(),
            (change, "") => format!("{} ({change})", self.figure),
            (change, interval) => format!("{} ({change}, {interval})", self.figure),
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
    let each = 0..verdict.variants.len();
    each.map(|variant| {
        let is_reference = is_reference(verdict, variant);
        let compared = effect_of(verdict, variant, metric).filter(|_| !is_reference);
        let change = compared.and_then(|(effect, _)| Change::of(metric, effect));
        let interval = change.as_ref().and_then(Change::signed_range);
        Standing {
            variant,
            figure: figure(verdict, variant, metric),
            change: change.map_or(String::new(), |change| change.signed()),
            interval: interval.unwrap_or_default(),
            verdict: match compared {
                Some((_, Some(comparison))) => word(comparison.verdict),
                _ => "",
            },
            is_reference,
        }
    })
    .collect()
}
