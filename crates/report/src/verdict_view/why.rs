//! What moved with each difference, and the CPU by variant, as lines and tables.

use prony_stats::{Effect, Metric, Moved, Part, Unit, VerdictDocument, Why};

use super::standing::value;
use crate::number;
use crate::table::{Align, Table};

/// What stands wherever movements are shown.
pub(crate) const CAVEAT: &str = "What moved along with a difference need not have caused it. In \
    order: what could make the slower one slower, then the rest, each by the least change that its \
    interval admits.";

/// Whom an entry is about: `tcp against unix (request rate)`.
pub(crate) fn heading(why: &Why) -> String {
    let metrics: Vec<&str> = why.metrics.iter().map(|metric| metric.noun()).collect();
    let metrics = metrics.join(", ");
    format!("{} against {} ({metrics})", why.name, why.against_name)
}

/// What moved, the best candidates first, `most` of them; none where nothing did.
pub(crate) fn moved_table(why: &Why, most: usize) -> Option<Table> {
    let title = format!("What moved: {}", heading(why));
    let variant = why.name.as_str();
    let headings = [
        "what moved",
        variant,
        &why.against_name,
        "against",
        "95%",
        "",
    ];
    let mut table = Table::new(&title, &headings);
    table.columns[5].1 = Align::Left;
    for moved in why.moved.iter().take(most) {
        let (effect, interval) = effect(moved.metric, &moved.effect);
        table.push(vec![
            moved.metric.noun().to_owned(),
            value(moved.metric, moved.value),
            value(moved.metric, moved.against_value),
            effect,
            interval,
            part(why, moved).to_owned(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// An effect and its interval: `1.31 ×` and `1.27 to 1.36`; `+0.998` and `0.997 to 0.999`.
fn effect(metric: Metric, effect: &Effect) -> (String, String) {
    let scale = match metric.unit() {
        Unit::Share => 100.0,
        _ => 1.0,
    };
    let figure = |of: f64| number::significant(of * scale, 3);
    let text = match (effect.ratio, effect.difference) {
        (Some(ratio), _) => format!("{} ×", number::significant(ratio, 3)),
        (None, Some(by)) => {
            let sign = if by > 0.0 { "+" } else { "" };
            let points = if scale > 1.0 { " points" } else { "" };
            format!("{sign}{}{points}", figure(by))
        }
        (None, None) => "–".to_owned(),
    };
    let scale = if effect.ratio.is_some() { 1.0 } else { scale };
    let figure = |of: f64| number::significant(of * scale, 3);
    let ends = effect.low.zip(effect.high);
    let interval = ends.map_or(String::new(), |(low, high)| {
        format!("{} to {}", figure(low), figure(high))
    });
    (text, interval)
}

/// How a movement goes with the difference; nothing where it neither does nor doesn't.
fn part(why: &Why, moved: &Moved) -> &'static str {
    let judged = why.moved.iter().any(|moved| moved.part != Part::Aside);
    match moved.part {
        Part::With => "goes with it",
        Part::Against => "speaks against it",
        Part::Aside if judged => "moved, too",
        Part::Aside => "",
    }
}

/// What did not move and what can't be told, in a sentence each.
pub(crate) fn rest(why: &Why) -> Vec<String> {
    let named = |what: &str, metrics: &[Metric]| {
        let nouns: Vec<&str> = metrics.iter().map(|metric| metric.noun()).collect();
        (!nouns.is_empty()).then(|| format!("{what}: {}.", nouns.join(", ")))
    };
    let same = named("The same within the margin", &why.same);
    let unclear = named("Too noisy to say", &why.unclear);
    [same, unclear].into_iter().flatten().collect()
}

/// The CPU time of a request by variant and mode, medians of the trials; none where it was not
/// measured.
pub(crate) fn cpu_table(verdict: &VerdictDocument) -> Option<Table> {
    let parts = [
        ("user", Metric::ServerCpuUserUsPerRequest),
        ("system", Metric::ServerCpuSystemUsPerRequest),
        ("user + system", Metric::ServerCpuUsPerRequest),
        ("softirq of the machine", Metric::HostSoftirqUsPerRequest),
    ];
    let measured = |metric: Metric| {
        let mut variants = verdict.variants.iter();
        variants.any(|variant| variant.metrics.contains_key(&metric))
    };
    if !measured(Metric::ServerCpuUserUsPerRequest) {
        return None;
    }
    let shown: Vec<_> = parts
        .into_iter()
        .filter(|(_, metric)| measured(*metric))
        .collect();
    let headings: Vec<&str> = std::iter::once("")
        .chain(shown.iter().map(|(name, _)| *name))
        .collect();
    let mut table = Table::new("CPU of the services for each request", &headings);
    for variant in &verdict.variants {
        let cell = |metric: Metric| {
            let summary = variant.metrics.get(&metric);
            summary.map_or("–".to_owned(), |summary| value(metric, summary.median))
        };
        let cells = shown.iter().map(|(_, metric)| cell(*metric));
        table.push(std::iter::once(variant.name.clone()).chain(cells).collect());
    }
    Some(table)
}
