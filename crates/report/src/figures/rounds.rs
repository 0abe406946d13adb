//! Charts of the rounds of interleaved blocks.

use std::collections::BTreeMap;

use prony_stats::{Levels, RoundComparison, RoundMetric};

use crate::chart::{self, RoundBlock, RoundLines, RoundPoint, palette, short};
use crate::document::Figure;
use crate::{Experiment, TrialSlice, number};

/// A variant and its baseline over all rounds; `None` if their slices are missing.
pub(crate) fn rounds(experiment: &Experiment, comparison: &RoundComparison) -> Option<Figure> {
    let place = |levels: &Levels| {
        let mut variants = experiment.verdict.variants.iter();
        variants.position(|variant| variant.levels == *levels)
    };
    let (variant, against) = (place(&comparison.levels)?, place(&comparison.against)?);
    let metric = comparison.metric;
    let of_variant = values(experiment, variant, metric);
    let of_baseline = values(experiment, against, metric);
    let mut blocks: BTreeMap<u32, RoundBlock> = BTreeMap::new();
    for (&(block, round), &value) in &of_variant {
        let Some(&other) = of_baseline.get(&(block, round)) else {
            continue;
        };
        let block = blocks.entry(block).or_insert_with(|| RoundBlock {
            number: block,
            rounds: Vec::new(),
        });
        let is_ratio = value > 0.0 && other > 0.0;
        block.rounds.push(RoundPoint {
            variant: value,
            against: other,
            ratio: if is_ratio { value / other } else { f64::NAN },
        });
    }
    if blocks.is_empty() {
        return None;
    }
    let (unit, mark): (_, fn(f64) -> String) = match metric {
        RoundMetric::RatePerS => ("successes per second", short),
        RoundMetric::MeanResponseUs => ("mean response time", number::time),
    };
    let lines = RoundLines {
        unit,
        mark,
        variant: (comparison.name.clone(), palette::variant(variant)),
        against: (comparison.against_name.clone(), palette::variant(against)),
        blocks: blocks.into_values().collect(),
        interval: comparison.effect.low.zip(comparison.effect.high),
    };
    let label = format!(
        "Line charts over the rounds of all blocks: the {} of {} and {}, and their ratio. {}",
        metric.noun(),
        comparison.name,
        comparison.against_name,
        comparison.text
    );
    let title = format!("{} against {}", comparison.name, comparison.against_name);
    Some(Figure {
        name: format!("rounds {title}"),
        title,
        caption: None,
        chart: chart::rounds(label, &lines),
    })
}

/// Value of each slice of a variant, by block and round. It is NaN if the metric is a time and no
/// request succeeded.
fn values(
    experiment: &Experiment,
    variant: usize,
    metric: RoundMetric,
) -> BTreeMap<(u32, u32), f64> {
    let value = |slice: &TrialSlice| match metric {
        // A slice without a success has a rate of zero, but no ratio can be computed.
        RoundMetric::RatePerS => slice.ok as f64 / slice.length_s,
        RoundMetric::MeanResponseUs => slice.mean_response_us.unwrap_or(f64::NAN),
    };
    let trials = experiment.trials_of(variant).into_iter();
    let slices = trials.flat_map(|trial| trial.slices.iter().map(|slice| (trial.block, slice)));
    let values = slices.map(|(block, slice)| ((block, slice.round), value(slice)));
    values.collect()
}
