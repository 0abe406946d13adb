//! The CPU by variant.

use prony_stats::{Metric, VerdictDocument};

use crate::chart::{self, Bar, Chart, Measure, palette};
use crate::number;

/// The CPU of the services: for each request, or of one core where an older experiment stored no
/// more.
pub(crate) fn cpu(verdict: &VerdictDocument) -> Option<Chart> {
    let per_request = [
        ("user", Metric::ServerCpuUserUsPerRequest),
        ("system", Metric::ServerCpuSystemUsPerRequest),
        ("softirq", Metric::HostSoftirqUsPerRequest),
    ];
    let of_a_core = [
        ("user", Metric::ServerCpuUserPercent),
        ("system", Metric::ServerCpuSystemPercent),
    ];
    let shares = of_a_core.map(|(_, metric)| metric);
    // Softirq is the whole machine's and no part of what the services used.
    let note = |place: usize, us_first: bool| {
        let us = median(verdict, place, Metric::ServerCpuUsPerRequest).map(number::time);
        let [user, system] = shares.map(|metric| median(verdict, place, metric));
        let percent = user.zip(system).map(|(user, system)| user + system);
        let percent = percent.map(|percent| format!("{}%", number::significant(percent, 2)));
        match (us, percent, us_first) {
            (Some(us), Some(percent), true) => format!("{us}, {percent} of a core"),
            (Some(us), Some(percent), false) => format!("{percent}, {us} a request"),
            (one, other, _) => one.or(other).unwrap_or_default(),
        }
    };
    let of_requests = bars(verdict, &per_request, |place| note(place, true));
    if !of_requests.is_empty() {
        return Some(drawn(of_requests, Measure::PerRequest));
    }
    let of_cores = bars(verdict, &of_a_core, |place| note(place, false));
    (!of_cores.is_empty()).then(|| drawn(of_cores, Measure::OfOneCore))
}

fn median(verdict: &VerdictDocument, place: usize, metric: Metric) -> Option<f64> {
    let summary = verdict.variants[place].metrics.get(&metric)?;
    Some(summary.median)
}

/// A bar for each variant of which the first two parts were measured; the others may lack.
fn bars(
    verdict: &VerdictDocument,
    parts: &[(&'static str, Metric)],
    note: impl Fn(usize) -> String,
) -> Vec<Bar> {
    let bar = |place: usize| {
        let value = |&(name, metric): &(&'static str, Metric)| {
            Some((name, median(verdict, place, metric)?))
        };
        let required: Option<Vec<_>> = parts.iter().take(2).map(value).collect();
        let mut values = required?;
        values.extend(parts.iter().skip(2).filter_map(value));
        Some(Bar {
            name: verdict.variants[place].name.clone(),
            color: palette::variant(place),
            parts: values,
            note: note(place),
        })
    };
    (0..verdict.variants.len()).filter_map(bar).collect()
}

fn drawn(bars: Vec<Bar>, measure: Measure) -> Chart {
    let spoken: Vec<String> = bars
        .iter()
        .map(|bar| {
            let parts = bar.parts.iter();
            let parts = parts.map(|(part, value)| format!("{part} {}", measure.figure(*value)));
            format!("{} {}", bar.name, parts.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let label = format!(
        "CPU of the services {}: {}.",
        measure.words(),
        spoken.join("; ")
    );
    chart::cpu_bars(label, &bars, measure)
}
