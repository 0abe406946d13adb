//! A series of runs as one side of a comparison.

use crate::change_points::change_points;
use crate::design::INTERVAL_BLOCKS_MIN;
use crate::estimate::mean;
use crate::metric::{Metric, Scale};
use crate::trials::Values;

use super::{Run, TrialValues};

/// Combines runs of one plan, oldest first, into a run that has one value for each of them: its
/// mean. So the spread of the result is that between runs, not that between blocks. Runs with
/// withheld verdicts and runs before the last change point are left out. Returns `None` if fewer
/// than three remain.
pub fn combined(runs: &[Run]) -> Option<Run> {
    let usable: Vec<&Run> = runs.iter().filter(|run| run.doubts.is_empty()).collect();
    let newest = *usable.last()?;
    let variants = 0..newest.variants.len();
    let means: Vec<Vec<Values>> = usable
        .iter()
        .map(|run| {
            variants
                .clone()
                .map(|variant| run_means(newest, variant, run))
                .collect()
        })
        .collect();
    let mut start = 0;
    for variant in variants {
        for metric in &newest.family {
            let values = means.iter().map(|run| run[variant].get(metric).copied());
            let values: Option<Vec<f64>> = values.collect();
            let changes = change_points(&values.unwrap_or_default());
            start = changes.last().copied().unwrap_or_default().max(start);
        }
    }
    let kept = &means[start..];
    if kept.len() < INTERVAL_BLOCKS_MIN as usize {
        return None;
    }
    let trials = (1..).zip(kept).flat_map(|(block, run)| {
        let variants = run.iter().enumerate();
        variants.map(move |(variant, values)| TrialValues {
            block,
            variant,
            values: values.clone(),
        })
    });
    Some(Run {
        trials: trials.collect(),
        is_series: true,
        ..newest.clone()
    })
}

/// Returns the means of a run's metrics for a variant of the newest run.
fn run_means(newest: &Run, variant: usize, run: &Run) -> Values {
    let Some(own) = newest.same_in(variant, run) else {
        return Values::new();
    };
    let means = Metric::ALL.iter().filter_map(|&metric| {
        let values = run.averaged(own, metric).into_iter();
        let values: Vec<f64> = values.map(|(_, value)| value).collect::<Option<_>>()?;
        let mean = (!values.is_empty()).then(|| mean(&values))?;
        Some((
            metric,
            match metric.scale() {
                Scale::Ratio => mean.exp(),
                Scale::Difference => mean,
            },
        ))
    });
    means.collect()
}
