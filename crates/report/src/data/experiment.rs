//! The tables of an experiment.

use std::collections::BTreeMap;

use prony_record::Outcome;
use prony_stats::gate::GateResult;
use prony_stats::{BottleneckKind, EffectKind, Levels, Metric, MovementRole, VerdictDocument};

use super::load::{ENTRY_COLUMNS, SERIES, entry_cells, record_cells, record_columns, series_rows};
use super::{DataCell, DataTable};
use crate::environment::flattened;
use crate::tables::entry_comparison::EntryComparison;
use crate::text::severity_name;
use crate::wording::verdict::word;
use crate::{Experiment, Trial};

/// All tables of an experiment.
pub fn experiment(experiment: &Experiment, gates: &[GateResult]) -> Vec<DataTable> {
    let verdict = &experiment.verdict;
    let mut tables = vec![
        comparisons(verdict),
        metrics(verdict),
        effects(verdict),
        moved(verdict),
        limits(verdict),
        scaling(verdict),
        trials(experiment),
        series(experiment),
        outcomes(experiment),
        entries(verdict),
        order(verdict),
        looks(verdict),
        findings(verdict),
        environment(experiment),
        super::runs::gates(gates),
    ];
    tables.extend(telemetry(experiment));
    tables.extend(super::rounds::of_experiment(experiment));
    tables
}

fn factors(verdict: &VerdictDocument) -> Vec<String> {
    let first = verdict.variants.first();
    first.map_or(Vec::new(), |variant| {
        variant.levels.keys().cloned().collect()
    })
}

/// Names of the factors' columns. They are `factor_NAME`, to avoid conflicts with other columns.
fn factor_columns(factors: &[String]) -> impl Iterator<Item = String> + '_ {
    factors.iter().map(|factor| format!("factor_{factor}"))
}

fn level_cells(factors: &[String], levels: &Levels) -> Vec<DataCell> {
    factors
        .iter()
        .map(|factor| levels.get(factor).into())
        .collect()
}

/// Joins several factors in one cell: `a=1, b=2`.
fn joined(levels: &Levels) -> DataCell {
    let each = levels
        .iter()
        .map(|(factor, level)| format!("{factor}={level}"));
    DataCell::Text(each.collect::<Vec<_>>().join(", "))
}

/// All comparisons, including those without a verdict.
fn comparisons(verdict: &VerdictDocument) -> DataTable {
    let columns = [
        "variant",
        "against",
        "metric",
        "blocks",
        "ratio",
        "difference",
        "low",
        "high",
        "verdict",
        "more_blocks",
        "text",
    ];
    let mut table = DataTable::new("comparisons", &columns);
    let name = |levels: &Levels| {
        let mut variants = verdict.variants.iter();
        let found = variants.find(|variant| variant.levels == *levels);
        found.map_or_else(|| joined(levels), |variant| DataCell::from(&variant.name))
    };
    for one in &verdict.comparisons {
        table.push(vec![
            (&one.name).into(),
            (&one.against_name).into(),
            one.metric.name().into(),
            one.blocks.into(),
            one.effect.ratio.into(),
            one.effect.difference.into(),
            one.effect.low.into(),
            one.effect.high.into(),
            word(one.verdict).into(),
            one.more_blocks.into(),
            (&one.text).into(),
        ]);
    }
    for one in &verdict.described {
        table.push(vec![
            name(&one.levels),
            name(&one.against),
            one.metric.name().into(),
            one.blocks.into(),
            one.effect.ratio.into(),
            one.effect.difference.into(),
            one.effect.low.into(),
            one.effect.high.into(),
            DataCell::Empty,
            DataCell::Empty,
            (&one.text).into(),
        ]);
    }
    table
}

/// A row for each variant and entry of its list, with results over all trials. Entries without
/// their own results share one row per variant.
fn entries(verdict: &VerdictDocument) -> DataTable {
    let changes = [
        "ok_per_s_ratio",
        "failed_share_difference",
        "p50_ratio",
        "p99_ratio",
    ];
    let mut table = DataTable::new("entries", &["variant"]);
    let columns = ENTRY_COLUMNS.iter().chain(&changes);
    table.columns.extend(columns.map(|it| (*it).to_owned()));
    let compared = EntryComparison::of(verdict);
    for standing in compared.iter().flat_map(EntryComparison::standings) {
        let mut row = vec![DataCell::from(&verdict.variants[standing.variant].name)];
        row.extend(entry_cells(standing.result));
        let changes = standing.changes.iter();
        row.extend(changes.map(|it| it.as_ref().and_then(|it| it.value()).into()));
        table.push(row);
    }
    table
}

fn metrics(verdict: &VerdictDocument) -> DataTable {
    let factors = factors(verdict);
    let mut table = DataTable::new("metrics", &["variant"]);
    table.columns.extend(factor_columns(&factors));
    let rest = ["metric", "trials", "median", "low", "high", "best", "mean"];
    table.columns.extend(rest.map(str::to_owned));
    for variant in &verdict.variants {
        for (metric, summary) in &variant.metrics {
            let mut row = vec![DataCell::from(&variant.name)];
            row.extend(level_cells(&factors, &variant.levels));
            row.extend([
                metric.name().into(),
                variant.trials.into(),
                summary.median.into(),
                summary.low.into(),
                summary.high.into(),
                summary.best.into(),
                summary.level(*metric).into(),
            ]);
            table.push(row);
        }
    }
    table
}

fn effects(verdict: &VerdictDocument) -> DataTable {
    let columns = [
        "kind",
        "metric",
        "levels",
        "against",
        "ratio",
        "difference",
        "low",
        "high",
        "text",
    ];
    let mut table = DataTable::new("effects", &columns);
    for one in &verdict.effects {
        let kind = match one.kind {
            EffectKind::Main => "main",
            EffectKind::Interaction => "interaction",
        };
        table.push(vec![
            kind.into(),
            one.metric.name().into(),
            joined(&one.levels),
            joined(&one.against),
            one.effect.ratio.into(),
            one.effect.difference.into(),
            one.effect.low.into(),
            one.effect.high.into(),
            (&one.text).into(),
        ]);
    }
    table
}

/// The metrics that changed together with each difference.
fn moved(verdict: &VerdictDocument) -> DataTable {
    let columns = [
        "variant",
        "against",
        "metric",
        "part",
        "value",
        "against_value",
        "ratio",
        "difference",
        "low",
        "high",
        "text",
    ];
    let mut table = DataTable::new("why", &columns);
    for why in &verdict.why {
        for one in &why.moved {
            let part = match one.part {
                MovementRole::With => "with",
                MovementRole::Aside => "aside",
                MovementRole::Against => "against",
            };
            table.push(vec![
                (&why.name).into(),
                (&why.against_name).into(),
                one.metric.name().into(),
                part.into(),
                one.value.into(),
                one.against_value.into(),
                one.effect.ratio.into(),
                one.effect.difference.into(),
                one.effect.low.into(),
                one.effect.high.into(),
                (&one.text).into(),
            ]);
        }
    }
    table
}

/// The resource that limited each side of a difference.
fn limits(verdict: &VerdictDocument) -> DataTable {
    let columns = ["variant", "against", "name", "limit", "text"];
    let mut table = DataTable::new("limits", &columns);
    for why in &verdict.why {
        for one in &why.limits {
            let kind = match one.kind {
                BottleneckKind::ServerCores => "server_cores",
                BottleneckKind::Machine => "machine",
                BottleneckKind::Generator => "generator",
                BottleneckKind::Link => "link",
                BottleneckKind::Schedule => "schedule",
                BottleneckKind::Waiting => "waiting",
                BottleneckKind::Unknown => "unknown",
            };
            table.push(vec![
                (&why.name).into(),
                (&why.against_name).into(),
                (&one.name).into(),
                kind.into(),
                (&one.text).into(),
            ]);
        }
    }
    table
}

fn scaling(verdict: &VerdictDocument) -> DataTable {
    let columns = [
        "factor",
        "levels",
        "metric",
        "at",
        "median",
        "low",
        "high",
        "in_step_share",
        "slope",
        "straightness",
    ];
    let mut table = DataTable::new("scaling", &columns);
    for line in &verdict.scaling {
        for point in &line.points {
            table.push(vec![
                (&line.factor).into(),
                joined(&line.levels),
                line.metric.name().into(),
                point.at.into(),
                point.median.into(),
                point.low.into(),
                point.high.into(),
                point.in_step.into(),
                line.slope.into(),
                line.straightness.into(),
            ]);
        }
    }
    table
}

/// All trials, including those of incomplete blocks.
fn trials(experiment: &Experiment) -> DataTable {
    let verdict = &experiment.verdict;
    let factors = factors(verdict);
    let measured: Vec<Metric> = Metric::ALL
        .iter()
        .copied()
        .filter(|metric| {
            let mut trials = experiment.trials.iter();
            trials.any(|trial| trial.values.contains_key(metric))
        })
        .collect();
    let mut table = DataTable::new("trials", &["block", "position", "variant"]);
    table.columns.extend(factor_columns(&factors));
    table.columns.extend(record_columns());
    let metrics = measured.iter().map(|metric| format!("metric_{metric}"));
    table.columns.extend(metrics);
    for (trial, variant) in with_variants(experiment) {
        let position = trial.position.map(|position| position as u64 + 1);
        let mut row = vec![trial.block.into(), position.into(), (&variant.name).into()];
        row.extend(level_cells(&factors, &variant.levels));
        row.extend(record_cells(&trial.record));
        let values = measured.iter();
        row.extend(values.map(|metric| DataCell::from(trial.values.get(metric).copied())));
        table.push(row);
    }
    table
}

fn with_variants(
    experiment: &Experiment,
) -> impl Iterator<Item = (&Trial, &prony_stats::VariantSummary)> {
    let variants = &experiment.verdict.variants;
    let trials = experiment.trials.iter();
    trials.filter_map(|trial| Some((trial, variants.get(trial.variant)?)))
}

fn series(experiment: &Experiment) -> DataTable {
    let mut table = DataTable::new("series", &["block", "variant"]);
    table.columns.extend(SERIES.map(str::to_owned));
    for (trial, variant) in with_variants(experiment) {
        for row in series_rows(&trial.record) {
            let mut cells = vec![trial.block.into(), DataCell::from(&variant.name)];
            cells.extend(row);
            table.push(cells);
        }
    }
    table
}

/// Requests by outcome, over all trials of a variant.
fn outcomes(experiment: &Experiment) -> DataTable {
    let mut table = DataTable::new("outcomes", &["variant", "outcome", "requests"]);
    for (place, variant) in experiment.verdict.variants.iter().enumerate() {
        let mut sums: BTreeMap<Outcome, u64> = BTreeMap::new();
        for trial in experiment.trials.iter().filter(|t| t.variant == place) {
            for (outcome, count) in &trial.record.outcomes {
                *sums.entry(*outcome).or_default() += count;
            }
        }
        for (outcome, count) in sums {
            table.push(vec![
                (&variant.name).into(),
                outcome.name().into(),
                count.into(),
            ]);
        }
    }
    table
}

fn order(verdict: &VerdictDocument) -> DataTable {
    let mut table = DataTable::new("order", &["block", "position", "variant"]);
    for (block, names) in (1_u64..).zip(&verdict.order) {
        for (position, name) in (1_u64..).zip(names) {
            table.push(vec![block.into(), position.into(), name.into()]);
        }
    }
    table
}

fn looks(verdict: &VerdictDocument) -> DataTable {
    let mut table = DataTable::new("looks", &["blocks", "spent_share"]);
    for look in &verdict.looks {
        table.push(vec![look.blocks.into(), look.spent_share.into()]);
    }
    table
}

fn findings(verdict: &VerdictDocument) -> DataTable {
    let mut table = DataTable::new("findings", &["severity", "id", "text"]);
    for finding in &verdict.findings {
        table.push(vec![
            severity_name(finding.severity).into(),
            finding.id.as_str().into(),
            (&finding.text).into(),
        ]);
    }
    table
}

fn environment(experiment: &Experiment) -> DataTable {
    let mut table = DataTable::new("environment", &["name", "value"]);
    for (name, value) in flattened(&experiment.environment) {
        table.push(vec![
            DataCell::Text(name.replace(" › ", ".")),
            DataCell::Text(value),
        ]);
    }
    table
}

/// All samples of all trials, with the columns as stored; `None` without telemetry.
fn telemetry(experiment: &Experiment) -> Option<DataTable> {
    let mut table = DataTable::new("telemetry", &["block", "variant"]);
    for (trial, variant) in with_variants(experiment) {
        let mut reader = ::csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(trial.telemetry.as_bytes());
        let Ok(headings) = reader.headers().cloned() else {
            continue;
        };
        for heading in &headings {
            if !table.columns.iter().any(|column| column == heading) {
                table.columns.push(heading.to_owned());
            }
        }
        for record in reader.records().flatten() {
            let of_record: BTreeMap<&str, &str> = headings.iter().zip(record.iter()).collect();
            let mut row = vec![trial.block.into(), DataCell::from(&variant.name)];
            let rest = table.columns.iter().skip(2);
            row.extend(rest.map(|column| cell(of_record.get(column.as_str()))));
            table.rows.push(row);
        }
    }
    // A later trial may have added a column.
    let width = table.columns.len();
    for row in &mut table.rows {
        row.resize(width, DataCell::Empty);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Converts the text to a number if it is one.
fn cell(text: Option<&&str>) -> DataCell {
    match text {
        None | Some(&"") => DataCell::Empty,
        Some(text) => match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(count), _) => DataCell::Count(count),
            (_, Ok(number)) if number.is_finite() => DataCell::Number(number),
            _ => DataCell::from(*text),
        },
    }
}
