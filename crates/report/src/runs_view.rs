//! Two runs against one another as lines and tables, shared by every form that shows them.

use prony_record::Finding;
use prony_stats::gate::{GateResult, Ruling};
use prony_stats::runs::{Between, RunAbout, RunsDocument};
use prony_stats::{Change, Metric, Verdict};

use crate::number;
use crate::table::{Align, Table};
use crate::verdict_view as view;

/// What no interval holds.
pub(crate) const CAVEAT: &str = "The two runs share no block, so nothing is paired: what changed \
    between them besides what is named here (the hour, the room, a neighbour) is in no interval.";

/// `B against A`.
pub(crate) fn title(document: &RunsDocument) -> String {
    let name = match document.new.name.as_str() {
        "" => String::new(),
        name => format!("{name}: "),
    };
    format!(
        "{name}{} against {}",
        document.new.label, document.old.label
    )
}

/// Which run is which.
pub(crate) fn sides(document: &RunsDocument) -> Table {
    let mut table = Table::new(
        "The two runs",
        &["", "from", "experiment", "begun", "measured"],
    );
    for (_, align) in &mut table.columns {
        *align = Align::Left;
    }
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

fn counted(run: &RunAbout) -> String {
    let many = format!("{}s", run.unit);
    number::plural(run.count.into(), &run.unit, &many)
}

/// What else differs; none where nothing does.
pub(crate) fn differences(document: &RunsDocument) -> Option<Table> {
    let (old, new) = (&document.old.label, &document.new.label);
    let mut table = Table::new("What else differs", &["", "what", old, new]);
    for (_, align) in &mut table.columns {
        *align = Align::Left;
    }
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

/// That nothing else differs, as far as anybody wrote it down.
pub(crate) const SAME: &str =
    "Nothing else differs that was stored: neither machine, programs, plan nor load.";

/// The metrics with verdicts, in their order.
pub(crate) fn family(document: &RunsDocument) -> Vec<Metric> {
    let mut family = Vec::new();
    for between in &document.comparisons {
        if !family.contains(&between.metric) {
            family.push(between.metric);
        }
    }
    family
}

/// One metric of the family: each variant then and now.
pub(crate) fn result_table(document: &RunsDocument, metric: Metric) -> Table {
    let (old, new) = (&document.old.label, &document.new.label);
    let mut table = Table::new(
        &format!("{}, then and now", metric.noun()),
        &["", old, new, "change", "95% interval", "verdict"],
    );
    if let Some(last) = table.columns.last_mut() {
        last.1 = Align::Left;
    }
    let all = document.comparisons.iter();
    for between in all.filter(|between| between.metric == metric) {
        table.push(row(between));
    }
    table
}

/// The metrics without verdicts that changed, as one table, and a sentence that names the rest;
/// none of either where there are none.
pub(crate) fn described(document: &RunsDocument) -> (Option<Table>, Option<String>) {
    let (old, new) = (&document.old.label, &document.new.label);
    let mut table = Table::new(
        "Other metrics that changed, without a verdict",
        &["", "metric", old, new, "change, 95% interval"],
    );
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
        // One column less, so that a page holds them all.
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

/// Whether a change is established; without an interval, whether there is any.
fn has_changed(between: &Between) -> bool {
    let change = Change::of(between.metric, &between.effect);
    change.is_some_and(|change| match change.range() {
        Some(_) => change.is_one_sided(),
        None => !change.is_none_at_all(),
    })
}

fn row(between: &Between) -> Vec<String> {
    let shown = |value: Option<f64>| {
        value.map_or("–".to_owned(), |value| view::value(between.metric, value))
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
        between.verdict.map_or("", view::word).to_owned(),
    ]
}

/// Variants that only one of the two has, in a sentence each.
pub(crate) fn unmatched(document: &RunsDocument) -> Vec<String> {
    [
        (&document.old, &document.only_old),
        (&document.new, &document.only_new),
    ]
    .into_iter()
    .filter(|(_, names)| !names.is_empty())
    .map(|(run, names)| format!("Only {} has {}.", run.label, names.join("; ")))
    .collect()
}

/// Each established regression, and each that can't be ruled out, named with its metric.
pub fn regressions(document: &RunsDocument) -> Vec<(&Between, Ruling)> {
    let all = document.comparisons.iter();
    let mut found: Vec<(&Between, Ruling)> = all
        .filter_map(|between| Some((between, between.regression?)))
        .filter(|(_, ruling)| *ruling != Ruling::Passed)
        .collect();
    found.sort_by_key(|(_, ruling)| *ruling);
    found
}

/// Each run's findings, the gravest first; none for a run without any.
pub(crate) fn findings(document: &RunsDocument) -> Vec<(&str, Vec<&Finding>)> {
    let runs = [&document.old.label, &document.new.label].into_iter();
    let each = runs.map(|label| {
        let own = document.findings.iter().filter(|one| one.run == *label);
        let mut own: Vec<&Finding> = own.map(|one| &one.finding).collect();
        own.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        (label.as_str(), own)
    });
    each.filter(|(_, own)| !own.is_empty()).collect()
}

/// The mark before a ruling.
pub(crate) fn mark(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Failed => "×",
        Ruling::Unclear => "?",
        Ruling::Passed => "✓",
    }
}

/// What a ruling is called: `failed`, `can't tell`, `passed`.
pub(crate) fn ruling_word(ruling: Ruling) -> &'static str {
    match ruling {
        Ruling::Failed => "failed",
        Ruling::Unclear => "can't tell",
        Ruling::Passed => "passed",
    }
}

/// The mark before a verdict.
pub(crate) fn verdict_mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "▲",
        Verdict::Slower => "▼",
        Verdict::Equivalent => "=",
        Verdict::Undecided => "?",
        Verdict::Withheld => "×",
    }
}

/// What became of the gates, as a table.
pub(crate) fn gates_table(gates: &[GateResult]) -> Option<Table> {
    let mut table = Table::new("Conditions", &["", "condition", "what was seen"]);
    for (_, align) in &mut table.columns {
        *align = Align::Left;
    }
    for gate in gates {
        table.push(vec![
            format!("{} {}", mark(gate.ruling), ruling_word(gate.ruling)),
            gate.gate.clone(),
            gate.text.clone(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}
