//! The tables of an experiment.

use std::collections::BTreeMap;

use prony_record::Outcome;
use prony_stats::gate::GateResult;
use prony_stats::{
    BottleneckKind, Comparison, Effect, EffectKind, FunctionRow, FunctionTable, Levels, Metric,
    MovementRole, VariantSummary, VerdictDocument,
};
use prony_wording::verdict::word;

use super::load::{entry_columns, record_columns, series_columns};
use super::{DataCell, DataTable, DataTableBuilder};
use crate::environment::flattened;
use crate::tables::effect_of;
use crate::tables::entry_comparison::{EntryComparison, EntryStanding};
use crate::tables::load::with_lengths;
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
        DataTable::of("findings", &verdict.findings)
            .finding(|it| it)
            .build(),
        environment(experiment),
        super::runs::gates(gates),
    ];
    if !verdict.functions.is_empty() {
        tables.push(functions(verdict));
    }
    tables.extend(telemetry(experiment));
    tables.extend(super::rounds::of_experiment(experiment));
    tables
}

/// Adds a column for each factor with the variant's level. The columns' names begin with `prefix`.
fn factor_columns<'a, T: Copy>(
    mut table: DataTableBuilder<T>,
    prefix: &str,
    verdict: &VerdictDocument,
    variant: impl Fn(T) -> &'a VariantSummary,
) -> DataTableBuilder<T> {
    let factors = verdict.variants.first().map(|it| it.levels.keys());
    for factor in factors.into_iter().flatten() {
        let level = |it: T| variant(it).levels.get(factor);
        table = table.column(&format!("{prefix}{factor}"), level);
    }
    table
}

/// Joins the levels of several factors in one cell: `a=1, b=2`.
fn joined(levels: &Levels) -> String {
    let each = levels
        .iter()
        .map(|(factor, level)| format!("{factor}={level}"));
    each.collect::<Vec<_>>().join(", ")
}

/// A row of the table of comparisons.
struct ComparedPair<'a> {
    variant: String,
    against: String,
    metric: Metric,
    blocks: u32,
    effect: &'a Effect,
    /// Comparison with its verdict; `None` if the metric has no verdicts.
    judged: Option<&'a Comparison>,
    text: &'a str,
}

/// All comparisons, including those without a verdict.
fn comparisons(verdict: &VerdictDocument) -> DataTable {
    let name = |levels: &Levels| {
        let mut variants = verdict.variants.iter();
        let found = variants.find(|variant| variant.levels == *levels);
        found.map_or_else(|| joined(levels), |variant| variant.name.clone())
    };
    let judged = verdict.comparisons.iter().map(|it| ComparedPair {
        variant: it.name.clone(),
        against: it.against_name.clone(),
        metric: it.metric,
        blocks: it.blocks,
        effect: &it.effect,
        judged: Some(it),
        text: &it.text,
    });
    let described = verdict.described.iter().map(|it| ComparedPair {
        variant: name(&it.levels),
        against: name(&it.against),
        metric: it.metric,
        blocks: it.blocks,
        effect: &it.effect,
        judged: None,
        text: &it.text,
    });
    let all: Vec<_> = judged.chain(described).collect();
    DataTable::of("comparisons", &all)
        .column("variant", |it| &it.variant)
        .column("against", |it| &it.against)
        .column("metric", |it| it.metric.name())
        .column("blocks", |it| it.blocks)
        .effect(|it| it.effect)
        .column("verdict", |it| it.judged.map(|it| word(it.verdict)))
        .column("more_blocks", |it| it.judged.and_then(|it| it.more_blocks))
        .column("text", |it| it.text)
        .build()
}

/// A row for each variant and entry of its list, with results over all trials. Entries without
/// their own results share one row per variant.
fn entries(verdict: &VerdictDocument) -> DataTable {
    let compared = EntryComparison::of(verdict);
    let standings = compared.iter().flat_map(EntryComparison::standings);
    let standings: Vec<EntryStanding<'_>> = standings.collect();
    let table = DataTable::of("entries", &standings)
        .column("variant", |it| &verdict.variants[it.variant].name);
    let mut table = entry_columns(table, |it| it.result);
    let changes = [
        "ok_per_s_ratio",
        "failed_share_difference",
        "p50_ratio",
        "p99_ratio",
    ];
    for (place, name) in changes.into_iter().enumerate() {
        table = table.column(name, |it| {
            let change = it.changes[place].as_ref();
            change.and_then(|change| change.value())
        });
    }
    table.build()
}

fn metrics(verdict: &VerdictDocument) -> DataTable {
    let rows = verdict.variants.iter().flat_map(|variant| {
        let metrics = variant.metrics.iter();
        metrics.map(move |(&metric, summary)| (variant, metric, summary))
    });
    let table = DataTable::of("metrics", rows).column("variant", |(variant, ..)| &variant.name);
    factor_columns(table, "factor_", verdict, |(variant, ..)| variant)
        .column("metric", |(_, metric, _)| metric.name())
        .column("trials", |(variant, ..)| variant.trials)
        .column("median", |(.., summary)| summary.median)
        .column("low", |(.., summary)| summary.low)
        .column("high", |(.., summary)| summary.high)
        .column("best", |(.., summary)| summary.best)
        .column("mean", |(_, metric, summary)| summary.level(metric))
        .build()
}

/// A row for each variant and metric that was measured, with its comparison, in the format of
/// `prony report --csv`.
pub(crate) fn compared_metrics(verdict: &VerdictDocument) -> DataTable {
    let variants = verdict.variants.iter().enumerate();
    let rows = variants.flat_map(|(place, variant)| {
        Metric::ALL.iter().filter_map(move |&metric| {
            let summary = variant.metrics.get(&metric)?;
            let compared = effect_of(verdict, place, metric);
            Some((variant, (metric, summary), compared))
        })
    });
    let table = DataTable::of("verdict", rows).column("variant", |(variant, ..)| &variant.name);
    factor_columns(table, "", verdict, |(variant, ..)| variant)
        .column("metric", |(_, (metric, _), _)| metric.name())
        .column("trials", |(variant, ..)| variant.trials)
        .column("median", |(_, (_, summary), _)| summary.median)
        .column("low", |(_, (_, summary), _)| summary.low)
        .column("high", |(_, (_, summary), _)| summary.high)
        .column("best", |(_, (_, summary), _)| summary.best)
        .column("ratio", |(.., it)| it.and_then(|(effect, _)| effect.ratio))
        .column("difference", |(.., it)| {
            it.and_then(|(effect, _)| effect.difference)
        })
        .column("effect_low", |(.., it)| {
            it.and_then(|(effect, _)| effect.low)
        })
        .column("effect_high", |(.., it)| {
            it.and_then(|(effect, _)| effect.high)
        })
        .column("verdict", |(.., it)| {
            let judged = it.and_then(|(_, judged)| judged);
            judged.map(|comparison| word(comparison.verdict))
        })
        .column("mean", |(_, (metric, summary), _)| summary.level(metric))
        .build()
}

fn effects(verdict: &VerdictDocument) -> DataTable {
    DataTable::of("effects", &verdict.effects)
        .column("kind", |it| match it.kind {
            EffectKind::Main => "main",
            EffectKind::Interaction => "interaction",
        })
        .column("metric", |it| it.metric.name())
        .column("levels", |it| joined(&it.levels))
        .column("against", |it| joined(&it.against))
        .effect(|it| &it.effect)
        .column("text", |it| &it.text)
        .build()
}

/// A row for each metric that changed together with a difference.
fn moved(verdict: &VerdictDocument) -> DataTable {
    let why = verdict.why.iter();
    let rows = why.flat_map(|why| why.moved.iter().map(move |moved| (why, moved)));
    DataTable::of("why", rows)
        .column("variant", |(why, _)| &why.name)
        .column("against", |(why, _)| &why.against_name)
        .column("metric", |(_, moved)| moved.metric.name())
        .column("part", |(_, moved)| match moved.part {
            MovementRole::With => "with",
            MovementRole::Aside => "aside",
            MovementRole::Against => "against",
        })
        .column("value", |(_, moved)| moved.value)
        .column("against_value", |(_, moved)| moved.against_value)
        .effect(|(_, moved)| &moved.effect)
        .column("text", |(_, moved)| &moved.text)
        .build()
}

/// The resource that limited the variant, and the one that limited its baseline, for each
/// difference.
fn limits(verdict: &VerdictDocument) -> DataTable {
    let why = verdict.why.iter();
    let rows = why.flat_map(|why| why.limits.iter().map(move |limit| (why, limit)));
    DataTable::of("limits", rows)
        .column("variant", |(why, _)| &why.name)
        .column("against", |(why, _)| &why.against_name)
        .column("name", |(_, limit)| &limit.name)
        .column("limit", |(_, limit)| match limit.kind {
            BottleneckKind::ServerCores => "server_cores",
            BottleneckKind::Machine => "machine",
            BottleneckKind::Generator => "generator",
            BottleneckKind::Link => "link",
            BottleneckKind::Schedule => "schedule",
            BottleneckKind::Waiting => "waiting",
            BottleneckKind::Unknown => "unknown",
        })
        .column("text", |(_, limit)| &limit.text)
        .build()
}

/// A row for each function and variant of each service with a sampling profile.
fn functions(verdict: &VerdictDocument) -> DataTable {
    let tables = verdict.functions.iter().chain(&verdict.waits);
    let rows = tables.flat_map(|table| {
        let rows = table.functions.iter();
        rows.flat_map(move |row| {
            (0..row.us_per_request.len()).map(move |place| (table, row, place))
        })
    });
    let difference = |(_, row, place): (&FunctionTable, &FunctionRow, usize)| {
        let levels = verdict.variants.get(place).map(|it| it.levels.clone())?;
        let mut differences = row.differences.iter();
        differences.find(|it| it.levels == levels).cloned()
    };
    DataTable::of("functions", rows)
        .column("service", |(table, _, _)| &table.service)
        .column("variant", |(table, _, place)| table.variants.get(place))
        .column("function", |(_, row, _)| &row.function.name)
        .column("module", |(_, row, _)| &row.function.module)
        .column("waits_for", |(_, row, _)| {
            row.function.waits_for.map(|reason| reason.to_string())
        })
        .column("us_per_request", |(_, row, place)| {
            row.us_per_request[place]
        })
        .column("against", move |it| {
            difference(it).map(|it| joined(&it.against))
        })
        .column("difference_us", move |it| difference(it).map(|it| it.us))
        .column("low_us", move |it| difference(it).and_then(|it| it.low_us))
        .column("high_us", move |it| {
            difference(it).and_then(|it| it.high_us)
        })
        .build()
}

fn scaling(verdict: &VerdictDocument) -> DataTable {
    let lines = verdict.scaling.iter();
    let rows = lines.flat_map(|line| line.points.iter().map(move |point| (line, point)));
    DataTable::of("scaling", rows)
        .column("factor", |(line, _)| &line.factor)
        .column("levels", |(line, _)| joined(&line.levels))
        .column("metric", |(line, _)| line.metric.name())
        .column("at", |(_, point)| point.at)
        .column("median", |(_, point)| point.median)
        .column("low", |(_, point)| point.low)
        .column("high", |(_, point)| point.high)
        .column("in_step_share", |(_, point)| point.in_step)
        .column("slope", |(line, _)| line.slope)
        .column("straightness", |(line, _)| line.straightness)
        .build()
}

/// All trials, including those of incomplete blocks.
fn trials(experiment: &Experiment) -> DataTable {
    let table = DataTable::of("trials", with_variants(experiment))
        .column("block", |(trial, _)| trial.block)
        .column("position", |(trial, _)| {
            trial.position.map(|position| position as u64 + 1)
        })
        .column("variant", |(_, variant)| &variant.name);
    let verdict = &experiment.verdict;
    let table = factor_columns(table, "factor_", verdict, |(_, variant)| variant);
    let mut table = record_columns(table, |(trial, _)| &trial.record);
    for metric in Metric::ALL {
        let mut trials = experiment.trials.iter();
        if trials.any(|trial| trial.values.contains_key(metric)) {
            table = table.column(&format!("metric_{metric}"), |(trial, _)| {
                trial.values.get(metric).copied()
            });
        }
    }
    table.build()
}

fn with_variants(experiment: &Experiment) -> impl Iterator<Item = (&Trial, &VariantSummary)> {
    let variants = &experiment.verdict.variants;
    let trials = experiment.trials.iter();
    trials.filter_map(|trial| Some((trial, variants.get(trial.variant)?)))
}

fn series(experiment: &Experiment) -> DataTable {
    let rows = with_variants(experiment).flat_map(|(trial, variant)| {
        let slices = with_lengths(&trial.record.series);
        slices.map(move |slice| (trial, variant, slice))
    });
    let table = DataTable::of("series", rows)
        .column("block", |(trial, ..)| trial.block)
        .column("variant", |(_, variant, _)| &variant.name);
    series_columns(table, |(.., slice)| slice).build()
}

/// Requests by outcome, over all trials of a variant.
fn outcomes(experiment: &Experiment) -> DataTable {
    let mut sums: BTreeMap<(usize, Outcome), u64> = BTreeMap::new();
    for (trial, _) in with_variants(experiment) {
        for (outcome, count) in &trial.record.outcomes {
            *sums.entry((trial.variant, *outcome)).or_default() += count;
        }
    }
    let variants = &experiment.verdict.variants;
    DataTable::of("outcomes", &sums)
        .column("variant", |((variant, _), _)| &variants[*variant].name)
        .column("outcome", |((_, outcome), _)| outcome.name())
        .column("requests", |(_, count)| *count)
        .build()
}

fn order(verdict: &VerdictDocument) -> DataTable {
    let blocks = (1_u64..).zip(&verdict.order);
    let rows = blocks.flat_map(|(block, names)| {
        let places = (1_u64..).zip(names);
        places.map(move |(position, name)| (block, position, name))
    });
    DataTable::of("order", rows)
        .column("block", |(block, ..)| block)
        .column("position", |(_, position, _)| position)
        .column("variant", |(.., name)| name)
        .build()
}

fn looks(verdict: &VerdictDocument) -> DataTable {
    DataTable::of("looks", &verdict.looks)
        .column("blocks", |it| it.blocks)
        .column("spent_share", |it| it.spent_share)
        .build()
}

fn environment(experiment: &Experiment) -> DataTable {
    DataTable::of("environment", &flattened(&experiment.environment))
        .column("name", |(name, _)| name.replace(" › ", "."))
        .column("value", |(_, value)| value)
        .build()
}

/// All samples of all trials, with the columns as stored; `None` without telemetry.
fn telemetry(experiment: &Experiment) -> Option<DataTable> {
    let mut table = DataTable {
        name: "telemetry",
        columns: vec!["block".to_owned(), "variant".to_owned()],
        rows: Vec::new(),
    };
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
            row.extend(rest.map(|column| number_cell(of_record.get(column.as_str()))));
            table.rows.push(row);
        }
    }
    // A later trial may have columns that the first one lacks.
    let width = table.columns.len();
    for row in &mut table.rows {
        row.resize(width, DataCell::Empty);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Converts text to a number if it represents one.
fn number_cell(text: Option<&&str>) -> DataCell {
    match text {
        None | Some(&"") => DataCell::Empty,
        Some(text) => match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(count), _) => DataCell::Count(count),
            (_, Ok(number)) if number.is_finite() => DataCell::Number(number),
            _ => DataCell::from(*text),
        },
    }
}
