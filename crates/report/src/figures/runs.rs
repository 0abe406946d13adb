//! Two compared runs.

use prony_stats::runs::{RunComparison, RunsDocument};
use prony_stats::{Change, Metric};

use super::titled;
use crate::chart::{self, ForestRow, palette};
use crate::document::Figure;
use crate::wording::captions;
use crate::wording::verdict::{capitalized, word};

/// One metric of the new run against the old one, by variant; `None` if nothing is compared by
/// ratio.
pub(crate) fn of_runs(document: &RunsDocument, metric: Metric) -> Option<Figure> {
    let rows: Vec<ForestRow> = document
        .comparisons
        .iter()
        .filter(|between| between.metric == metric)
        .enumerate()
        .map(|(place, between)| ForestRow {
            name: match between.name.as_str() {
                "" => "the load".to_owned(),
                name => name.to_owned(),
            },
            color: palette::variant(place),
            ratio: between.effect.ratio,
            interval: between
                .effect
                .ratio
                .and(between.effect.low.zip(between.effect.high)),
            change: change_of(between).map_or(String::new(), |change| change.signed()),
            interval_text: change_of(between)
                .and_then(|change| change.signed_range())
                .unwrap_or_default(),
            verdict: between.verdict.map_or("", word).to_owned(),
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

fn change_of(between: &RunComparison) -> Option<Change> {
    Change::of(between.metric, &between.effect)
}
