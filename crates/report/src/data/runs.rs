//! The tables of two compared runs.

use prony_stats::gate::{GateResult, GateScale};
use prony_stats::runs::RunsDocument;
use prony_wording::verdict::word;

use super::DataTable;

/// All tables of two compared runs.
pub fn runs(document: &RunsDocument) -> Vec<DataTable> {
    vec![
        comparisons(document),
        relative(document),
        DataTable::of("differences", &document.differences)
            .column("part", |it| it.part.name())
            .column("name", |it| &it.name)
            .column("old", |it| it.old.as_ref())
            .column("new", |it| it.new.as_ref())
            .build(),
        gates(&document.gates),
        DataTable::of("findings", &document.findings)
            .column("run", |it| &it.run)
            .finding(|it| &it.finding)
            .build(),
    ]
}

/// A row for each variant and metric that two runs have in common.
pub(crate) fn comparisons(document: &RunsDocument) -> DataTable {
    let all = document.comparisons.iter().chain(&document.described);
    DataTable::of("comparisons", all)
        .column("variant", |it| &it.name)
        .column("metric", |it| it.metric.name())
        .column("old", |it| it.old)
        .column("new", |it| it.new)
        .column("old_trials", |it| it.old_trials)
        .column("new_trials", |it| it.new_trials)
        .effect(|it| &it.effect)
        .column("verdict", |it| it.verdict.map(word))
        .column("regression", |it| it.regression.map(|ruling| ruling.name()))
        .column("text", |it| &it.text)
        .build()
}

fn relative(document: &RunsDocument) -> DataTable {
    DataTable::of("relative", &document.relative)
        .column("variant", |it| &it.name)
        .column("against", |it| &it.against_name)
        .column("metric", |it| it.metric.name())
        .column("old", |it| it.old)
        .column("new", |it| it.new)
        .effect(|it| &it.effect)
        .column("text", |it| &it.text)
        .build()
}

/// The results of conditions.
pub(super) fn gates(gates: &[GateResult]) -> DataTable {
    let scale = |scale: GateScale| match scale {
        GateScale::Value => "value",
        GateScale::Ratio => "ratio",
        GateScale::Difference => "difference",
    };
    DataTable::of("gates", gates)
        .column("gate", |it| &it.gate)
        .column("variant", |it| &it.name)
        .column("measure", |it| &it.measure)
        .column("ruling", |it| it.ruling.name())
        .column("scale", |it| it.scale.map(scale))
        .column("value", |it| it.value)
        .column("low", |it| it.low)
        .column("high", |it| it.high)
        .column("limit", |it| it.limit)
        .column("text", |it| &it.text)
        .build()
}
