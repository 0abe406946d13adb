//! Charts of two compared runs.

use prony_stats::Metric;
use prony_stats::runs::RunsDocument;
use prony_wording::verdict::{capitalized, word};

use super::titled;
use crate::captions;
use crate::chart::{self, ForestRow, palette};
use crate::document::Figure;
use crate::tables::{change_texts, runs};

/// One metric of the new run against the old one, by variant; `None` if nothing is compared by
/// ratio.
pub(crate) fn of_runs(document: &RunsDocument, metric: Metric) -> Option<Figure> {
    let rows: Vec<ForestRow> = document
        .comparisons
        .iter()
        .filter(|between| between.metric == metric)
        .enumerate()
        .map(|(place, between)| {
            let effect = &between.effect;
            let (change, interval_text) = change_texts(metric, effect);
            ForestRow {
                name: runs::variant_name(between).to_owned(),
                color: palette::variant(place),
                ratio: effect.ratio,
                interval: effect.ratio.and(effect.low.zip(effect.high)),
                change,
                interval_text,
                verdict: between.verdict.map_or("", word).to_owned(),
            }
        })
        .collect();
    rows.iter().any(|row| row.ratio.is_some()).then(|| {
        let label = format!(
            "{} in {} against {}, with 95% intervals.",
            capitalized(metric.noun()),
            document.new.label,
            document.old.label
        );
        let chart = chart::forest(label, &rows, document.margin);
        Figure {
            name: format!("{} of two runs", metric.noun()),
            caption: Some(captions::FOREST_RUNS),
            ..titled(&capitalized(metric.noun()), chart)
        }
    })
}
