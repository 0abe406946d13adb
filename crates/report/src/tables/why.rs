//! Tables of the changes that accompany each difference, and of the CPU time by variant.

use std::collections::BTreeSet;

use prony_stats::{Explanation, Metric, Verdict, VerdictDocument, changed_cost};
use prony_wording::moved_noun;
use prony_wording::why::relation;

use super::standing::{change_texts, is_measured, level, mean_text, value_text};
use crate::table::Table;

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
    let has_cost = |why: &Explanation| {
        let has_functions = !why.functions.is_empty() || !why.waits.is_empty();
        has_functions || changed_cost(&why.moved).is_some()
    };
    all.filter(|why| is_established(why) || has_cost(why))
        .collect()
}

/// Returns a table of at most `rows_max` changes, starting with the likeliest explanations; `None`
/// if nothing changed.
pub(crate) fn moved_table(why: &Explanation, rows_max: usize) -> Option<Table> {
    let table = Table::of(why.moved.iter().take(rows_max))
        .left("what changed", moved_noun)
        .right("variant", |it| value_text(it.metric, it.value))
        .right("baseline", |it| value_text(it.metric, it.against_value))
        .right("change", |it| {
            match change_texts(it.metric, &it.effect).0.as_str() {
                "" => "–".to_owned(),
                change => change.to_owned(),
            }
        })
        .right("95% interval", |it| change_texts(it.metric, &it.effect).1)
        .left("", |it| relation(why, it))
        .build();
    (!table.is_empty()).then_some(table)
}

/// The CPU time per request by variant, with the shares of user and system mode and the part of each
/// service; `None` if it was not measured. Modes are given as shares, because the means of the parts don't add up to the mean
/// of their sum.
pub(crate) fn cpu_table(verdict: &VerdictDocument) -> Option<Table> {
    let modes = [
        Metric::ServerCpuUserUsPerRequest,
        Metric::ServerCpuSystemUsPerRequest,
    ];
    if !is_measured(verdict, modes[0]) {
        return None;
    }
    let of_mode = |place, mode| level(verdict, place, mode).unwrap_or(0.0);
    let share = |place: usize, mode: Metric| {
        let whole: f64 = modes.iter().map(|mode| of_mode(place, *mode)).sum();
        if whole > 0.0 {
            format!("{:.0}%", 100.0 * of_mode(place, mode) / whole)
        } else {
            "–".to_owned()
        }
    };
    let mut table = Table::of(0..verdict.variants.len())
        .left("", |place| verdict.variants[place].name.as_str())
        .right("CPU per request", |place| {
            mean_text(verdict, place, Metric::ServerCpuUsPerRequest)
        })
        .right("user", |place| share(place, modes[0]))
        .right("system", |place| share(place, modes[1]));
    let services: BTreeSet<&String> = verdict
        .variants
        .iter()
        .flat_map(|variant| variant.service_cpu_us_per_request.keys())
        .collect();
    for service in services {
        table = table.right(&format!("of {service}"), |place| {
            let services = &verdict.variants[place].service_cpu_us_per_request;
            services.get(service).map_or("–".to_owned(), |cpu| {
                value_text(modes[0], cpu.level(Metric::ServerCpuUsPerRequest))
            })
        });
    }
    let softirq = Metric::HostSoftirqUsPerRequest;
    if is_measured(verdict, softirq) {
        table = table.right("machine's softirq", |place| {
            mean_text(verdict, place, softirq)
        });
    }
    Some(table.build())
}
