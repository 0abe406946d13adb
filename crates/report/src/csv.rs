//! Results as CSV for spreadsheets and scripts: plain numbers without rounding, units in the column
//! names.
//!
//! A load has a row for each half second ([`series`]), and an experiment one for each variant and
//! metric ([`verdict`]). Fields are quoted if they need it (RFC 4180), and lines end with a line
//! feed.

use prony_record::Record;
use prony_stats::runs::RunsDocument;
use prony_stats::{Metric, VerdictDocument};

use crate::csv_text::write;
use crate::tables::effect_of;
use crate::wording::verdict::word;

/// Returns the time series of one load, with a row for each half second, in the format of `prony
/// load --csv`.
pub fn series(record: &Record) -> String {
    crate::data::series(record).to_csv()
}

/// Returns one row for each variant and metric that was measured. The first columns describe the
/// variant, the others its comparison with its baseline. Unknown values are empty; shares have a
/// `difference` instead of a `ratio`.
pub fn verdict(verdict: &VerdictDocument) -> String {
    let factors = factors(verdict);
    let mut headings = vec!["variant"];
    headings.extend(factors.iter().copied());
    headings.extend([
        "metric",
        "trials",
        "median",
        "low",
        "high",
        "best",
        "ratio",
        "difference",
        "effect_low",
        "effect_high",
        "verdict",
        "mean",
    ]);
    let mut rows = Vec::new();
    for (place, variant) in verdict.variants.iter().enumerate() {
        for &metric in Metric::ALL {
            let Some(summary) = variant.metrics.get(&metric) else {
                continue;
            };
            let compared = effect_of(verdict, place, metric);
            let effect = compared.map(|(effect, _)| effect);
            let judged = compared.and_then(|(_, comparison)| comparison);
            let mut cells = vec![variant.name.clone()];
            cells.extend(level_cells(&factors, &variant.levels));
            cells.extend([
                metric.name().to_owned(),
                variant.trials.to_string(),
                summary.median.to_string(),
                optional(summary.low),
                optional(summary.high),
                summary.best.to_string(),
                optional(effect.and_then(|effect| effect.ratio)),
                optional(effect.and_then(|effect| effect.difference)),
                optional(effect.and_then(|effect| effect.low)),
                optional(effect.and_then(|effect| effect.high)),
                judged
                    .map_or("", |comparison| word(comparison.verdict))
                    .to_owned(),
                summary.level(metric).to_string(),
            ]);
            rows.push(cells);
        }
    }
    write(&headings, rows)
}

/// Returns one row for each variant and metric that two runs have in common.
pub fn runs(document: &RunsDocument) -> String {
    let tables = crate::data::runs(document);
    let comparisons = tables.iter().find(|table| table.name == "comparisons");
    comparisons.map_or_else(String::new, crate::data::DataTable::to_csv)
}

fn factors(verdict: &VerdictDocument) -> Vec<&str> {
    let first = verdict.variants.first();
    first.map_or(Vec::new(), |variant| {
        variant.levels.keys().map(String::as_str).collect()
    })
}

fn level_cells(factors: &[&str], levels: &prony_stats::Levels) -> Vec<String> {
    let level = |factor: &&str| levels.get(*factor).cloned().unwrap_or_default();
    factors.iter().map(level).collect()
}

fn optional(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
