//! Tables of two compared runs.

use prony_stats::Metric;
use prony_stats::runs::{RunComparison, RunInfo, RunsDocument};
use prony_wording::Change;
use prony_wording::verdict::word;

use super::change_texts;
use crate::number;
use crate::table::{Table, TableBuilder, TableKind};

/// The origin of each run.
pub(crate) fn sides(document: &RunsDocument) -> Table {
    Table::of([&document.old, &document.new])
        .left("", |it| it.label.as_str())
        .left("from", |it| it.source.as_str())
        .left("experiment", |it| or_dash(Some(&it.name)))
        .left("started", |it| it.started_at.as_str())
        .left("measured", counted)
        .build()
}

fn or_dash(text: Option<&String>) -> &str {
    text.filter(|text| !text.is_empty())
        .map_or("–", String::as_str)
}

fn counted(run: &RunInfo) -> String {
    let many = format!("{}s", run.unit);
    number::plural(run.count.into(), &run.unit, &many)
}

/// The stored facts that differ between the runs; `None` if nothing differs.
pub(crate) fn differences(document: &RunsDocument) -> Option<Table> {
    let table = Table::of(&document.differences)
        .left("", |it| it.part.name())
        .left("what", |it| it.name.as_str())
        .left(&document.old.label, |it| or_dash(it.old.as_ref()))
        .left(&document.new.label, |it| or_dash(it.new.as_ref()))
        .build_as(TableKind::Lookup);
    (!table.is_empty()).then_some(table)
}

/// One metric of each variant in both runs.
pub(crate) fn results(document: &RunsDocument, metric: Metric) -> Table {
    let all = document.comparisons.iter();
    let table = Table::of(all.filter(|between| between.metric == metric)).left("", variant_name);
    value_columns(table, document)
        .right("change", |it| change_texts(it.metric, &it.effect).0)
        .right("95% interval", |it| change_texts(it.metric, &it.effect).1)
        .left("verdict", |it| it.verdict.map_or("", word))
        .build()
}

/// The name of the variant, or `the load`.
pub(crate) fn variant_name(between: &RunComparison) -> &str {
    match between.name.as_str() {
        "" => "the load",
        name => name,
    }
}

/// Adds a column with the values of each run.
fn value_columns<'a>(
    table: TableBuilder<&'a RunComparison>,
    document: &RunsDocument,
) -> TableBuilder<&'a RunComparison> {
    let shown = |it: &RunComparison, value: Option<f64>| {
        value.map_or("–".to_owned(), |value| {
            super::value_text(it.metric, value)
        })
    };
    table
        .right(&document.old.label, |it| shown(it, it.old))
        .right(&document.new.label, |it| shown(it, it.new))
}

/// A table of the metrics without verdicts that changed, and a sentence that names the others.
pub(crate) fn described(document: &RunsDocument) -> (Option<Table>, Option<String>) {
    let all = || document.described.iter();
    let changed: Vec<&RunComparison> = all().filter(|it| has_changed(it)).collect();
    let mut same: Vec<&'static str> = Vec::new();
    for between in all().filter(|it| !has_changed(it)) {
        if !same.contains(&between.metric.noun()) {
            same.push(between.metric.noun());
        }
    }
    let same: Vec<String> = same
        .iter()
        .map(|noun| {
            if changed.iter().any(|it| it.metric.noun() == *noun) {
                format!("{noun} (of the other variants)")
            } else {
                (*noun).to_owned()
            }
        })
        .collect();
    let same =
        (!same.is_empty()).then(|| format!("No change was established in: {}.", same.join(", ")));
    let table = Table::of(changed)
        .left("", variant_name)
        .left("metric", |it| it.metric.noun());
    let table = value_columns(table, document)
        // The interval shares a column with the change, so all columns fit on a page.
        .right("change, 95% interval", |it| {
            match change_texts(it.metric, &it.effect) {
                (change, interval) if interval.is_empty() => change,
                (change, interval) => format!("{change} ({interval})"),
            }
        })
        .build();
    ((!table.is_empty()).then_some(table), same)
}

/// Returns true if a change is established or, without an interval, if there is any change.
fn has_changed(between: &RunComparison) -> bool {
    let change = Change::of(between.metric, &between.effect);
    change.is_some_and(|change| match change.range() {
        Some(_) => change.is_one_sided(),
        None => !change.is_none_at_all(),
    })
}
