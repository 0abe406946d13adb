//! Tables of two compared runs.

use prony_stats::runs::{RunComparison, RunInfo, RunsDocument};
use prony_stats::{Change, Metric};

use crate::number;
use crate::table::{Align, Table, TableKind};
use crate::wording::verdict::word;

/// The origin of each run.
pub(crate) fn sides(document: &RunsDocument) -> Table {
    let mut table = Table::new(&["", "from", "experiment", "started", "measured"]);
    table.align_all(Align::Left);
    for run in [&document.old, &document.new] {
        table.push(vec![
            run.label.clone(),
            run.source.clone(),
            if run.name.is_empty() {
                "–".to_owned()
            } else {
                run.name.clone()
            },
            run.started_at.clone(),
            counted(run),
        ]);
    }
    table
}

fn counted(run: &RunInfo) -> String {
    let many = format!("{}s", run.unit);
    number::plural(run.count.into(), &run.unit, &many)
}

/// The stored facts that differ between the runs; `None` if nothing differs.
pub(crate) fn differences(document: &RunsDocument) -> Option<Table> {
    let (old, new) = (&document.old.label, &document.new.label);
    let mut table = Table::new(&["", "what", old, new]);
    table.kind = TableKind::Lookup;
    table.align_all(Align::Left);
    let text = |side: &Option<String>| match side.as_deref() {
        None | Some("") => "–".to_owned(),
        Some(text) => text.to_owned(),
    };
    for difference in &document.differences {
        table.push(vec![
            difference.part.name().to_owned(),
            difference.name.clone(),
            text(&difference.old),
            text(&difference.new),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// One metric of each variant in both runs.
pub(crate) fn results(document: &RunsDocument, metric: Metric) -> Table {
    let (old, new) = (&document.old.label, &document.new.label);
    let mut table = Table::new(&["", old, new, "change", "95% interval", "verdict"]);
    if let Some(last) = table.columns.last_mut() {
        last.1 = Align::Left;
    }
    let all = document.comparisons.iter();
    for between in all.filter(|between| between.metric == metric) {
        table.push(row(between));
    }
    table
}

/// A table of the metrics without verdicts that changed, and a sentence that names the others.
pub(crate) fn described(document: &RunsDocument) -> (Option<Table>, Option<String>) {
    let (old, new) = (&document.old.label, &document.new.label);
    let mut table = Table::new(&["", "metric", old, new, "change, 95% interval"]);
    table.columns[1].1 = Align::Left;
    let mut same: Vec<&'static str> = Vec::new();
    let mut changed: Vec<Metric> = Vec::new();
    for between in &document.described {
        if !has_changed(between) {
            if !same.contains(&between.metric.noun()) {
                same.push(between.metric.noun());
            }
            continue;
        }
        changed.push(between.metric);
        let mut cells = row(between);
        cells.pop();
        // The interval shares a column with the change, so all columns fit on a page.
        if let Some(interval) = cells.pop().filter(|interval| !interval.is_empty())
            && let Some(change) = cells.last_mut()
        {
            *change = format!("{change} ({interval})");
        }
        cells.insert(1, between.metric.noun().to_owned());
        table.push(cells);
    }
    let same: Vec<String> = same
        .iter()
        .map(
            |noun| match changed.iter().any(|metric| metric.noun() == *noun) {
                true => format!("{noun} (of the other variants)"),
                false => (*noun).to_owned(),
            },
        )
        .collect();
    let same =
        (!same.is_empty()).then(|| format!("No change was established in: {}.", same.join(", ")));
    ((!table.rows.is_empty()).then_some(table), same)
}

/// Returns true if a change is established or, without an interval, if there is any change.
fn has_changed(between: &RunComparison) -> bool {
    let change = Change::of(between.metric, &between.effect);
    change.is_some_and(|change| match change.range() {
        Some(_) => change.is_one_sided(),
        None => !change.is_none_at_all(),
    })
}

fn row(between: &RunComparison) -> Vec<String> {
    let shown = |value: Option<f64>| {
        value.map_or("–".to_owned(), |value| {
            super::value(between.metric, value)
        })
    };
    let change = Change::of(between.metric, &between.effect);
    let interval = change.as_ref().and_then(Change::signed_range);
    vec![
        match between.name.as_str() {
            "" => "the load".to_owned(),
            name => name.to_owned(),
        },
        shown(between.old),
        shown(between.new),
        change.map_or(String::new(), |change| change.signed()),
        interval.unwrap_or_default(),
        between.verdict.map_or("", word).to_owned(),
    ]
}
