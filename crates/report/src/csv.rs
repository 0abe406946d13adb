//! Results as CSV for spreadsheets and scripts: plain numbers without rounding, units in the column
//! names.
//!
//! A load has a row for each half second ([`series`]). An experiment has a row for each variant and
//! metric ([`verdict`]), or for each trial ([`trials`]). Fields are quoted if they need it (RFC
//! 4180), and lines end with a line feed.

use prony_record::Record;
use prony_stats::runs::RunsDocument;
use prony_stats::{Metric, VerdictDocument};

use crate::Experiment;
use crate::csv_text::write;
use crate::tables::effect_of;
use crate::wording::verdict::word;

/// Returns the time series of one load, with a row for each half second, in the format of `prony
/// load --csv`.
pub fn series(record: &Record) -> String {
    crate::data::series(record).to_csv()
}

/// Names of the columns that describe one record as a whole. [`record_cells`] returns their values.
const RECORD_HEADINGS: [&str; 18] = [
    "url",
    "model",
    "connections",
    "elapsed_s",
    "started",
    "ok",
    "failed",
    "unfinished",
    "unstarted",
    "ok_per_s",
    "bytes_in",
    "bytes_out",
    "response_p50_us",
    "response_p90_us",
    "response_p99_us",
    "response_p99_9_us",
    "response_max_us",
    "generator_cpu_s",
];

fn record_cells(record: &Record) -> Vec<String> {
    let (totals, times) = (&record.totals, &record.response_time_us);
    vec![
        record.load.url.clone(),
        record.load.model.clone(),
        record.load.connections.to_string(),
        totals.elapsed_s.to_string(),
        totals.started.to_string(),
        totals.ok.to_string(),
        totals.failed.to_string(),
        totals.unfinished.to_string(),
        totals.unstarted.to_string(),
        record.rate.ok_per_s.to_string(),
        totals.bytes_in.to_string(),
        totals.bytes_out.to_string(),
        times.p50.to_string(),
        times.p90.to_string(),
        times.p99.to_string(),
        times.p99_9.to_string(),
        times.max.to_string(),
        (record.generator.cpu_user_s + record.generator.cpu_system_s).to_string(),
    ]
}

/// Returns one row for each trial of an experiment, in the order of the blocks. Trials of
/// incomplete blocks are included.
pub fn trials(experiment: &Experiment) -> String {
    let variants = &experiment.verdict.variants;
    let factors = factors(&experiment.verdict);
    let mut headings = vec!["block", "variant"];
    headings.extend(factors.iter().copied());
    headings.extend(RECORD_HEADINGS);
    let rows = experiment.trials.iter().filter_map(|trial| {
        let variant = variants.get(trial.variant)?;
        let mut cells = vec![trial.block.to_string(), variant.name.clone()];
        cells.extend(level_cells(&factors, &variant.levels));
        cells.extend(record_cells(&trial.record));
        Some(cells)
    });
    write(&headings, rows)
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
