//! The tables of interleaved blocks.

use prony_stats::{RoundMetric, VerdictDocument};

use super::DataTable;
use crate::Experiment;

/// A table of the slices of all trials, and one of the comparisons by rounds. Without interleaved
/// blocks, there are no tables.
pub(super) fn of_experiment(experiment: &Experiment) -> Vec<DataTable> {
    if experiment.is_interleaved() {
        vec![slices(experiment), rounds(&experiment.verdict)]
    } else {
        Vec::new()
    }
}

fn slices(experiment: &Experiment) -> DataTable {
    let trials = experiment.trials.iter();
    let rows = trials.flat_map(|trial| trial.slices.iter().map(move |slice| (trial, slice)));
    let variants = &experiment.verdict.variants;
    DataTable::of("slices", rows)
        .column("block", |(trial, _)| trial.block)
        .column("round", |(_, slice)| slice.round.saturating_add(1))
        .column("position", |(_, slice)| slice.position.saturating_add(1))
        .column("variant", |(trial, _)| {
            variants.get(trial.variant).map(|variant| &variant.name)
        })
        .column("length_s", |(_, slice)| slice.length_s)
        .column("ok", |(_, slice)| slice.ok)
        .column("failed", |(_, slice)| slice.failed)
        .column("mean_response_us", |(_, slice)| slice.mean_response_us)
        .column("drain_s", |(_, slice)| slice.drain_s)
        .build()
}

fn rounds(verdict: &VerdictDocument) -> DataTable {
    DataTable::of("rounds", &verdict.rounds)
        .column("variant", |it| &it.name)
        .column("against", |it| &it.against_name)
        .column("metric", |it| match it.metric {
            RoundMetric::RatePerS => "rate_per_s",
            RoundMetric::MeanResponseUs => "mean_response_us",
        })
        .column("blocks", |it| it.blocks)
        .column("rounds", |it| it.rounds)
        .column("rounds_without_ratio", |it| it.rounds_without_ratio)
        .column("ratio", |it| it.effect.ratio)
        .column("low", |it| it.effect.low)
        .column("high", |it| it.effect.high)
        .column("rounds_ratio", |it| it.rounds_ratio)
        .column("rounds_low", |it| it.rounds_low)
        .column("rounds_high", |it| it.rounds_high)
        .column("error_ratio", |it| it.error_ratio)
        .column("text", |it| &it.text)
        .build()
}
