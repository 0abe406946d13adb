//! The picture of loads that end with their last request.

use prony_record::Slice;

use crate::Experiment;
use crate::chart::{self, Chart, MOST_RUNS, Run, palette};

/// Completions until all requests were done; none where the load ends by the clock, or where there
/// are more variants than one picture can hold.
pub(crate) fn until_done(experiment: &Experiment) -> Option<Chart> {
    let variants = &experiment.verdict.variants;
    let counted = |trial: &crate::Trial| trial.record.load.requests.is_some();
    if variants.len() > MOST_RUNS || !experiment.trials.iter().all(counted) {
        return None;
    }
    let mut every_s: f64 = 0.0;
    let mut runs = Vec::with_capacity(variants.len());
    for (place, variant) in variants.iter().enumerate() {
        let trials = experiment.trials_of(place);
        let series = || trials.iter().map(|trial| trial.record.series.as_slice());
        let first = series().filter_map(|series| Some(series.first()?.t_s));
        every_s = first.fold(every_s, f64::max);
        runs.push(Run {
            name: variant.name.clone(),
            color: palette::variant(place),
            lines: series().map(since_the_last).collect(),
        });
    }
    if runs.iter().all(|run| run.lines.is_empty()) {
        return None;
    }
    let label = format!(
        "Line chart of completions over time, all variants over one another: {}.",
        chart::ends_in_words(&runs)
    );
    Some(chart::completions(label, &runs, every_s))
}

/// Where each slice ended and what was completed within it, from the beginning on.
fn since_the_last(series: &[Slice]) -> Vec<(f64, f64)> {
    let slices = series.iter().map(|slice| (slice.t_s, slice.ok as f64));
    std::iter::once((0.0, 0.0)).chain(slices).collect()
}
