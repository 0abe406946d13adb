//! The tables of two compared runs.

use prony_stats::gate::GateResult;
use prony_stats::runs::{RunComparison, RunsDocument};

use super::{DataCell, DataTable};
use crate::text::severity_name;
use crate::wording::verdict::word;

/// All tables of two compared runs.
pub fn runs(document: &RunsDocument) -> Vec<DataTable> {
    let mut differences = DataTable::new("differences", &["part", "name", "old", "new"]);
    for one in &document.differences {
        differences.push(vec![
            one.part.name().into(),
            (&one.name).into(),
            one.old.as_ref().into(),
            one.new.as_ref().into(),
        ]);
    }
    let mut findings = DataTable::new("findings", &["run", "severity", "id", "text"]);
    for one in &document.findings {
        findings.push(vec![
            (&one.run).into(),
            severity_name(one.finding.severity).into(),
            one.finding.id.as_str().into(),
            (&one.finding.text).into(),
        ]);
    }
    let all = document.comparisons.iter().chain(&document.described);
    vec![
        comparisons(all),
        relative(document),
        differences,
        gates(&document.gates),
        findings,
    ]
}

fn comparisons<'a>(all: impl Iterator<Item = &'a RunComparison>) -> DataTable {
    let columns = [
        "variant",
        "metric",
        "old",
        "new",
        "old_trials",
        "new_trials",
        "ratio",
        "difference",
        "low",
        "high",
        "verdict",
        "regression",
        "text",
    ];
    let mut table = DataTable::new("comparisons", &columns);
    for between in all {
        let effect = &between.effect;
        table.push(vec![
            (&between.name).into(),
            between.metric.name().into(),
            between.old.into(),
            between.new.into(),
            between.old_trials.into(),
            between.new_trials.into(),
            effect.ratio.into(),
            effect.difference.into(),
            effect.low.into(),
            effect.high.into(),
            between.verdict.map(word).into(),
            between.regression.map(|ruling| ruling.name()).into(),
            (&between.text).into(),
        ]);
    }
    table
}

fn relative(document: &RunsDocument) -> DataTable {
    let columns = [
        "variant",
        "against",
        "metric",
        "old",
        "new",
        "ratio",
        "difference",
        "low",
        "high",
        "text",
    ];
    let mut table = DataTable::new("relative", &columns);
    for one in &document.relative {
        table.push(vec![
            (&one.name).into(),
            (&one.against_name).into(),
            one.metric.name().into(),
            one.old.into(),
            one.new.into(),
            one.effect.ratio.into(),
            one.effect.difference.into(),
            one.effect.low.into(),
            one.effect.high.into(),
            (&one.text).into(),
        ]);
    }
    table
}

/// The results of conditions.
pub(super) fn gates(gates: &[GateResult]) -> DataTable {
    let columns = [
        "gate", "variant", "measure", "ruling", "scale", "value", "low", "high", "limit", "text",
    ];
    let mut table = DataTable::new("gates", &columns);
    for gate in gates {
        let scale = gate.scale.map(|scale| match scale {
            prony_stats::gate::GateScale::Value => "value",
            prony_stats::gate::GateScale::Ratio => "ratio",
            prony_stats::gate::GateScale::Difference => "difference",
        });
        table.push(vec![
            (&gate.gate).into(),
            (&gate.name).into(),
            (&gate.measure).into(),
            gate.ruling.name().into(),
            scale.into(),
            gate.value.into(),
            gate.low.into(),
            gate.high.into(),
            gate.limit.into(),
            DataCell::from(&gate.text),
        ]);
    }
    table
}
