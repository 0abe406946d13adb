//! Chart of the CPU time of the services, by variant.

use prony_stats::{Metric, VerdictDocument};

use super::titled;
use crate::chart::{self, Bar, CpuMeasure, palette};
use crate::document::Figure;
use crate::number;
use crate::tables::level;

/// The CPU time of the services per request. Experiments that earlier versions stored lack this
/// metric, so their CPU usage is given in percent of one core.
pub(crate) fn cpu(verdict: &VerdictDocument) -> Option<Figure> {
    // Softirq is omitted, because it belongs to the whole machine and is shown in the table.
    let per_request = [
        ("user", Metric::ServerCpuUserUsPerRequest),
        ("system", Metric::ServerCpuSystemUsPerRequest),
    ];
    let of_a_core = [
        ("user", Metric::ServerCpuUserPercent),
        ("system", Metric::ServerCpuSystemPercent),
    ];
    let shares = of_a_core.map(|(_, metric)| metric);
    let note = |place: usize, us_first: bool| {
        let us = level(verdict, place, Metric::ServerCpuUsPerRequest).map(number::time);
        let [user, system] = shares.map(|metric| level(verdict, place, metric));
        let percent = user.zip(system).map(|(user, system)| user + system);
        let percent = percent.map(|percent| format!("{}%", number::significant(percent, 2)));
        match (us, percent, us_first) {
            (Some(us), Some(percent), true) => format!("{us}, {percent} of a core"),
            (Some(us), Some(percent), false) => format!("{percent}, {us} per request"),
            (one, other, _) => one.or(other).unwrap_or_default(),
        }
    };
    let of_requests = bars(verdict, &per_request, |place| note(place, true));
    if !of_requests.is_empty() {
        return Some(drawn(of_requests, CpuMeasure::PerRequest));
    }
    let of_cores = bars(verdict, &of_a_core, |place| note(place, false));
    (!of_cores.is_empty()).then(|| drawn(of_cores, CpuMeasure::OfOneCore))
}

/// Returns a bar for each variant for which all parts were measured. The means of the parts don't
/// add up to the mean of their sum, so the bar's length is the mean of the sum, if measured.
fn bars(
    verdict: &VerdictDocument,
    parts: &[(&'static str, Metric)],
    note: impl Fn(usize) -> String,
) -> Vec<Bar> {
    let bar = |place: usize| {
        let value =
            |&(name, metric): &(&'static str, Metric)| Some((name, level(verdict, place, metric)?));
        let values: Vec<_> = parts.iter().map(value).collect::<Option<_>>()?;
        let whole = level(verdict, place, Metric::ServerCpuUsPerRequest);
        let is_per_request = parts[0].1 == Metric::ServerCpuUserUsPerRequest;
        let sum = values.iter().map(|(_, value)| value).sum();
        Some(Bar {
            name: verdict.variants[place].name.clone(),
            color: palette::variant(place),
            total: whole.filter(|_| is_per_request).unwrap_or(sum),
            parts: values,
            note: note(place),
        })
    };
    (0..verdict.variants.len()).filter_map(bar).collect()
}

fn drawn(bars: Vec<Bar>, measure: CpuMeasure) -> Figure {
    let spoken: Vec<String> = bars
        .iter()
        .map(|bar| {
            let parts = bar.parts.iter();
            let parts = parts.map(|(part, value)| format!("{part} {}", measure.figure(*value)));
            let total = measure.figure(bar.total);
            let parts = parts.collect::<Vec<_>>().join(", ");
            format!("{} {total} ({parts})", bar.name)
        })
        .collect();
    let label = format!(
        "CPU of the services {}: {}.",
        measure.words(),
        spoken.join("; ")
    );
    let chart = chart::cpu_bars(label, &bars, measure);
    Figure {
        name: "cpu".to_owned(),
        ..titled("CPU of the services", chart)
    }
}
