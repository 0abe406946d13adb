//! What moved with each difference, and the CPU by variant, as lines and tables.

use prony_stats::{Change, Metric, Moved, Part, Verdict, VerdictDocument, Why};

use super::standing::{figure, level, value};
use crate::table::{Align, Table};

/// What stands wherever movements are shown.
pub(crate) const CAVEAT: &str = "What changed along with a difference need not have caused it. \
    Metrics that could make the slower variant slower come first, the largest certain change at the \
    top.";

/// The CPU metrics of which a certain change is worth a word even where the rates don't differ.
const CPU: [Metric; 3] = [
    Metric::ServerCpuUsPerRequest,
    Metric::ServerCpuUserUsPerRequest,
    Metric::ServerCpuSystemUsPerRequest,
];

/// The entries that explain something: those of established differences, and those in which the CPU
/// of a request changed beyond doubt.
pub(crate) fn whys(verdict: &VerdictDocument) -> Vec<&Why> {
    let is_established = |why: &Why| {
        verdict.comparisons.iter().any(|comparison| {
            (&comparison.levels, &comparison.against) == (&why.levels, &why.against)
                && why.metrics.contains(&comparison.metric)
                && matches!(comparison.verdict, Verdict::Faster | Verdict::Slower)
        })
    };
    let cpu_changed = |why: &Why| why.moved.iter().any(|moved| CPU.contains(&moved.metric));
    let all = verdict.why.iter();
    all.filter(|why| is_established(why) || cpu_changed(why))
        .collect()
}

/// Whom an entry is about: `tcp against unix (request rate)`.
pub(crate) fn heading(why: &Why) -> String {
    let metrics: Vec<&str> = why.metrics.iter().map(|metric| metric.noun()).collect();
    let metrics = metrics.join(", ");
    format!("{} against {} ({metrics})", why.name, why.against_name)
}

/// The changes, the best candidates first, at most `most` of them; none where there are none.
pub(crate) fn moved_table(why: &Why, most: usize) -> Option<Table> {
    let title = format!("What changed: {}", heading(why));
    let headings = [
        "what changed",
        "variant",
        "baseline",
        "change",
        "95% interval",
        "",
    ];
    let mut table = Table::new(&title, &headings);
    table.columns[5].1 = Align::Left;
    for moved in why.moved.iter().take(most) {
        let change = Change::of(moved.metric, &moved.effect);
        let interval = change.as_ref().and_then(Change::signed_range);
        table.push(vec![
            moved.metric.noun().to_owned(),
            value(moved.metric, moved.value),
            value(moved.metric, moved.against_value),
            change.map_or("–".to_owned(), |change| change.signed()),
            interval.unwrap_or_default(),
            part(why, moved).to_owned(),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// How a movement goes with the difference; nothing where it neither does nor doesn't.
fn part(why: &Why, moved: &Moved) -> &'static str {
    let judged = why.moved.iter().any(|moved| moved.part != Part::Aside);
    match moved.part {
        Part::With => "goes with it",
        Part::Against => "speaks against it",
        Part::Aside if judged => "changed, too",
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
    let unclear = named("Too noisy to judge", &why.unclear);
    [same, unclear].into_iter().flatten().collect()
}

/// The CPU time of a request by variant, and the share of each mode in it; none where it was not
/// measured. Shares, since means of parts don't add up to the mean of their sum.
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
    let mut headings = vec!["", "server CPU", "user", "system"];
    headings.extend(has_softirq.then_some("softirq of the machine"));
    let mut table = Table::new("CPU of the services for each request, means", &headings);
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
