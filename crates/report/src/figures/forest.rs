//! Forest plots of changes relative to the reference.

use prony_stats::{Effect, Metric, VerdictDocument};
use prony_wording::verdict::capitalized;

use super::titled;
use crate::captions;
use crate::chart::{self, ForestRow, palette};
use crate::document::Figure;
use crate::tables::{Standing, effect_of};

/// Each variant's ratio to its reference for one metric, with its interval; `None` for shares,
/// which are compared by difference.
pub(crate) fn forest(
    verdict: &VerdictDocument,
    metric: Metric,
    standings: &[Standing],
) -> Option<Figure> {
    let ratios = |effect: &Effect| (effect.ratio, effect.ratio.and(effect.low.zip(effect.high)));
    // The reference is shown only if there is just one. Rows for several references would all show
    // "no change".
    let references = standings.iter().filter(|s| s.is_reference).count();
    let rows: Vec<ForestRow> = standings
        .iter()
        .filter(|standing| references == 1 || !standing.is_reference)
        .map(|standing| {
            let compared = effect_of(verdict, standing.variant, metric);
            let (ratio, interval) = compared.map_or((None, None), |(effect, _)| ratios(effect));
            ForestRow {
                name: verdict.variants[standing.variant].name.clone(),
                color: palette::variant(standing.variant),
                ratio,
                interval,
                change: standing.change.clone(),
                interval_text: standing.interval.clone(),
                verdict: standing.word().to_owned(),
            }
        })
        .collect();
    rows.iter().any(|row| row.ratio.is_some()).then(|| {
        let spoken: Vec<String> = standings
            .iter()
            .map(|s| {
                let name = &verdict.variants[s.variant].name;
                format!("{name} {} {}", s.change, s.interval)
                    .trim_end()
                    .to_owned()
            })
            .collect();
        let label = format!(
            "Changes relative to the reference, {}, with 95% intervals: {}.",
            metric.noun(),
            spoken.join("; ")
        );
        let chart = chart::forest(label, &rows, verdict.margin);
        Figure {
            name: format!("{} against the reference", metric.noun()),
            caption: Some(captions::FOREST),
            ..titled(&capitalized(metric.noun()), chart)
        }
    })
}
