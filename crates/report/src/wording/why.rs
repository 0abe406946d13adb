//! Sentences about what changed along with a difference.

use prony_stats::{Metric, Moved, Part, Why};

/// The two variants and the metrics that an entry explains: `tcp against unix (request rate)`.
pub(crate) fn heading(why: &Why) -> String {
    let metrics: Vec<&str> = why.metrics.iter().map(|metric| metric.noun()).collect();
    let metrics = metrics.join(", ");
    format!("{} against {} ({metrics})", why.name, why.against_name)
}

/// The relation of a change to the difference; empty if no change of this entry has one.
pub(crate) fn relation(why: &Why, moved: &Moved) -> &'static str {
    let any_related = why.moved.iter().any(|moved| moved.part != Part::Aside);
    match moved.part {
        Part::With => "could explain it",
        Part::Against => "points the other way",
        Part::Aside if any_related => "also changed",
        Part::Aside => "",
    }
}

/// A sentence each about the metrics that did not change and about those too noisy to judge.
pub(crate) fn rest(why: &Why) -> Vec<String> {
    let named = |what: &str, metrics: &[Metric]| {
        let nouns: Vec<&str> = metrics.iter().map(|metric| metric.noun()).collect();
        (!nouns.is_empty()).then(|| format!("{what}: {}.", nouns.join(", ")))
    };
    let same = named("Unchanged within the margin", &why.same);
    let unclear = named("Too noisy to judge", &why.unclear);
    [same, unclear].into_iter().flatten().collect()
}
