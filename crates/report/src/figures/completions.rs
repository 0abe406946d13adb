//! Charts of completions, for loads that end after a number of requests.

use prony_record::HalfSecond;

use super::titled;
use crate::Experiment;
use crate::chart::{self, VARIANTS_MAX, VariantTrials, palette};
use crate::document::Figure;

/// Completions until all requests finished. `None` if the load ends after a fixed time, or if there
/// are too many variants for one chart.
pub(crate) fn until_done(experiment: &Experiment) -> Option<Figure> {
    let variants = &experiment.verdict.variants;
    let counted = |trial: &crate::Trial| trial.record.load.requests.is_some();
    if variants.len() > VARIANTS_MAX || !experiment.trials.iter().all(counted) {
        return None;
    }
    let mut every_s: f64 = 0.0;
    let mut runs = Vec::with_capacity(variants.len());
    for (place, variant) in variants.iter().enumerate() {
        let trials = experiment.trials_of(place);
        let series = || trials.iter().map(|trial| trial.record.series.as_slice());
        let first = series().filter_map(|series| Some(series.first()?.t_s));
        every_s = first.fold(every_s, f64::max);
        runs.push(VariantTrials {
            name: variant.name.clone(),
            color: palette::variant(place),
            lines: series().map(per_slice).collect(),
        });
    }
    if runs.iter().all(|run| run.lines.is_empty()) {
        return None;
    }
    let label = format!(
        "Line chart of completions over time, all variants overlaid: {}.",
        chart::ends_in_words(&runs)
    );
    let chart = chart::completions(label, &runs, every_s);
    Some(Figure {
        name: "completions until done".to_owned(),
        ..titled("Until all requests were done", chart)
    })
}

/// The end time of each half second and the number of completions in it, preceded by a point at
/// zero.
fn per_slice(series: &[HalfSecond]) -> Vec<(f64, f64)> {
    let half_seconds = series
        .iter()
        .map(|half_second| (half_second.t_s, half_second.ok as f64));
    std::iter::once((0.0, 0.0)).chain(half_seconds).collect()
}
