//! Changes against the reference.

use prony_stats::{Effect, Metric, VerdictDocument};

use crate::chart::{self, Chart, ForestRow, palette};
use crate::verdict_view::{self as view, Standing};

/// The ratios of one metric to the reference, with their intervals; none where shares that may be
/// zero are compared by difference, which have no place on its axis.
pub(crate) fn forest(
    verdict: &VerdictDocument,
    metric: Metric,
    standings: &[Standing],
) -> Option<Chart> {
    let ratios = |effect: &Effect| (effect.ratio, effect.ratio.and(effect.low.zip(effect.high)));
    let shown = |standing: &Standing| match standing.is_reference {
        true => "the reference".to_owned(),
        false => standing.verdict.to_owned(),
    };
    // One reference is a landmark; many would only repeat that they don't change.
    let references = standings.iter().filter(|s| s.is_reference).count();
    let rows: Vec<ForestRow> = standings
        .iter()
        .filter(|standing| references == 1 || !standing.is_reference)
        .map(|standing| {
            let compared = view::effect_of(verdict, standing.variant, metric);
            let (ratio, interval) = compared.map_or((None, None), |(effect, _)| ratios(effect));
            ForestRow {
                name: verdict.variants[standing.variant].name.clone(),
                color: palette::variant(standing.variant),
                ratio,
                interval,
                change: standing.change.clone(),
                interval_text: standing.interval.clone(),
                verdict: shown(standing),
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
            "Changes against the reference, {}, with 95% intervals: {}.",
            metric.noun(),
            spoken.join("; ")
        );
        chart::forest(label, &rows, verdict.margin)
    })
}
