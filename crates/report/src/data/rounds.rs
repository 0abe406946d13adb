//! The tables of interleaved blocks.

use prony_stats::{RoundMetric, VerdictDocument};

use super::{DataCell, DataTable};
use crate::Experiment;

/// A table of the slices of all trials, and one of the comparisons by rounds. Without interleaved
/// blocks, there are no tables.
pub(super) fn of_experiment(experiment: &Experiment) -> Vec<DataTable> {
    match experiment.is_interleaved() {
        true => vec![slices(experiment), rounds(&experiment.verdict)],
        false => Vec::new(),
    }
}

fn slices(experiment: &Experiment) -> DataTable {
    let columns = [
        "block",
        "round",
        "position",
        "variant",
        "length_s",
        "ok",
        "failed",
        "mean_response_us",
        "drain_s",
    ];
    let mut table = DataTable::new("slices", &columns);
    for trial in &experiment.trials {
        let variant = experiment.verdict.variants.get(trial.variant);
        let variant: DataCell = variant.map(|variant| &variant.name).into();
        for slice in &trial.slices {
            table.push(vec![
                trial.block.into(),
                slice.round.saturating_add(1).into(),
                slice.position.saturating_add(1).into(),
                variant.clone(),
                slice.length_s.into(),
                slice.ok.into(),
                slice.failed.into(),
                slice.mean_response_us.into(),
                slice.drain_s.into(),
            ]);
        }
    }
    table
}

fn rounds(verdict: &VerdictDocument) -> DataTable {
    let columns = [
        "variant",
        "against",
        "metric",
        "blocks",
        "rounds",
        "rounds_without_ratio",
        "ratio",
        "low",
        "high",
        "rounds_ratio",
        "rounds_low",
        "rounds_high",
        "error_ratio",
        "text",
    ];
    let mut table = DataTable::new("rounds", &columns);
    for one in &verdict.rounds {
        let metric = match one.metric {
            RoundMetric::RatePerS => "rate_per_s",
            RoundMetric::MeanResponseUs => "mean_response_us",
        };
        table.push(vec![
            DataCell::from(&one.name),
            (&one.against_name).into(),
            metric.into(),
            one.blocks.into(),
            one.rounds.into(),
            one.rounds_without_ratio.into(),
            one.effect.ratio.into(),
            one.effect.low.into(),
            one.effect.high.into(),
            one.rounds_ratio.into(),
            one.rounds_low.into(),
            one.rounds_high.into(),
            one.error_ratio.into(),
            (&one.text).into(),
        ]);
    }
    table
}
