//! Tables of what changed together with each difference, and of the CPU time by variant.

use prony_stats::{Change, Explanation, Metric, Verdict, VerdictDocument, changed_cost};

use super::standing::{figure, level, value};
use crate::table::{Align, Table};
use crate::wording::why::relation;

/// The explanations of established differences, and of pairs whose CPU time or instructions per
/// request changed.
pub(crate) fn whys(verdict: &VerdictDocument) -> Vec<&Explanation> {
    let is_established = |why: &Explanation| {
        verdict.comparisons.iter().any(|comparison| {
            (&comparison.levels, &comparison.against) == (&why.levels, &why.against)
                && why.metrics.contains(&comparison.metric)
                && matches!(comparison.verdict, Verdict::Faster | Verdict::Slower)
        })
    };
    let all = verdict.why.iter();
    all.filter(|why| is_established(why) || changed_cost(&why.moved).is_some())
        .collect()
}

/// At most `rows_max` changes, the likeliest explanations first; `None` if nothing changed.
pub(crate) fn moved_table(why: &Explanation, rows_max: usize) -> Option<Table> {
    let headings = [
        "what changed",
        "variant",
        "baseline",
        "change",
        "95% interval",
        "",
    ];
    let mut table = Table::new(&headings);
    table.columns[5].1 = Align::Left;
    for moved in why.moved.iter().take(rows_max) {
        let change = Change::of(moved.metric, &moved.effect);
        let interval = change.as_ref().and_then(Change::signed_range);
        table.push(vec![
            moved.metric.noun().to_owned(),
            value(moved.metric, moved.value),
            value(moved.metric, moved.against_value),
            change.map_or("–".to_owned(), |change| change.signed()),
            interval.unwrap_or_default(),
            relation(why, moved).to_owned(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// The CPU time per request by variant, and the share of each mode; `None` if it was not measured.
/// Modes are given as shares, because the means of the parts don't add up to the mean of their sum.
pub(crate) fn cpu_table(verdict: &VerdictDocument) -> Option<Table> {
    let modes = [
        Metric::ServerCpuUserUsPerRequest,
        Metric::ServerCpuSystemUsPerRequest,
    ];
    let measured = |metric: Metric| {
        let mut variants = verdict.variants.iter();
        variants.any(|variant| variant.metrics.contains_key(&metric))
    };
    if !measured(modes[0]) {
        return None;
    }
    let has_softirq = measured(Metric::HostSoftirqUsPerRequest);
    let mut headings = vec!["", "CPU per request", "user", "system"];
    headings.extend(has_softirq.then_some("machine's softirq"));
    let mut table = Table::new(&headings);
    for (place, variant) in verdict.variants.iter().enumerate() {
        let of_modes = modes.map(|mode| level(verdict, place, mode).unwrap_or(0.0));
        let whole: f64 = of_modes.iter().sum();
        let share = |part: f64| match whole > 0.0 {
            true => format!("{:.0}%", 100.0 * part / whole),
            false => "–".to_owned(),
        };
        let mut row = vec![
            variant.name.clone(),
            figure(verdict, place, Metric::ServerCpuUsPerRequest),
        ];
        row.extend(of_modes.map(share));
        row.extend(has_softirq.then(|| figure(verdict, place, Metric::HostSoftirqUsPerRequest)));
        table.push(row);
    }
    Some(table)
}
