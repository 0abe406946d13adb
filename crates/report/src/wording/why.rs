//! Sentences about changes that accompany a difference.

use prony_stats::{Explanation, Metric, MovedMetric, MovementRole};

/// The two variants and the metrics that an entry explains: `tcp against unix (request rate)`.
pub(crate) fn heading(why: &Explanation) -> String {
    let metrics: Vec<&str> = why.metrics.iter().map(|metric| metric.noun()).collect();
    let metrics = metrics.join(", ");
    format!("{} against {} ({metrics})", why.name, why.against_name)
}

/// Describes the relation of a change to the difference. Empty if no change in this entry has such
/// a relation.
pub(crate) fn relation(why: &Explanation, moved: &MovedMetric) -> &'static str {
    let any_related = why
        .moved
        .iter()
        .any(|moved| moved.part != MovementRole::Aside);
    match moved.part {
        MovementRole::With => "could explain it",
        MovementRole::Against => "points the other way",
        MovementRole::Aside if any_related => "also changed",
        MovementRole::Aside => "",
    }
}

/// Two sentences: the metrics that did not change, and those that are too noisy to judge. Either is
/// omitted if it would be empty.
pub(crate) fn rest(why: &Explanation) -> Vec<String> {
    let named = |what: &str, metrics: &[Metric]| {
        let nouns: Vec<&str> = metrics.iter().map(|metric| metric.noun()).collect();
        (!nouns.is_empty()).then(|| format!("{what}: {}.", nouns.join(", ")))
    };
    let same = named("Unchanged within the margin", &why.same);
    let unclear = named("Too noisy to judge", &why.unclear);
    [same, unclear].into_iter().flatten().collect()
}
