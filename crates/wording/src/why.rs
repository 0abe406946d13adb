//! Sentences about changes that accompany a difference.

use prony_record::number;
use prony_stats::{
    ChangedFunction, Comparison, Effect, Explanation, Metric, MovedMetric, MovementRole, Verdict,
    changed_cost, is_request_cost,
};

use crate::change::Change;
use crate::comparisons::undecided_cost;

/// An explanation without its text, and what its text depends on besides.
#[derive(Debug, Clone, Copy)]
pub struct WhyFacts<'a> {
    /// The explanation.
    pub explanation: &'a Explanation,
    /// The comparisons that it explains.
    pub comparisons: &'a [&'a Comparison],
    /// True if one of the two variants is slower, by a verdict or by the interval.
    pub has_slower: bool,
    /// True if the verdicts are withheld.
    pub is_withheld: bool,
    /// True if any other metric was measured in enough blocks.
    pub any_measured: bool,
}

/// Returns the summary of an explanation, in a few sentences.
pub fn sentences(facts: &WhyFacts<'_>) -> String {
    facts.sentences()
}

impl WhyFacts<'_> {
    /// Composes the explanation from a few sentences.
    fn sentences(&self) -> String {
        let mut text = self.best();
        if self.is_withheld {
            text = format!("The verdict is withheld; this describes what was measured. {text}");
        }
        if let Some(parts) = self.parts() {
            text = format!("{text} {parts}");
        }
        let (functions, waits) = (&self.explanation.functions, &self.explanation.waits);
        for (by, changed) in [("By function", functions), ("Waiting", waits)] {
            if let Some(sentence) = named(by, changed) {
                text = format!("{text} {sentence}");
            }
        }
        for finding in &self.explanation.findings {
            text = format!(
                "{text} Only {} has the finding {}.",
                finding.name, finding.id
            );
        }
        text
    }

    /// Describes the best candidate for an explanation, or the reason why there is none.
    fn best(&self) -> String {
        let moved = &self.explanation.moved;
        if !self.any_measured {
            return "No other metric was measured in enough blocks to show what changed."
                .to_owned();
        }
        if moved.is_empty() && !self.explanation.unclear.is_empty() {
            return "The other measurements are too noisy to show what else changed.".to_owned();
        }
        if moved.is_empty() {
            return "No other measured metric changed.".to_owned();
        }
        let best = &moved[0];
        match (self.has_slower, best.part) {
            (false, _) => {
                let cost = changed_cost(moved).unwrap_or(best);
                if self.is_withheld {
                    return format!("Another metric clearly changed: {}.", cost.text);
                }
                self.undecided_text(cost).unwrap_or_else(|| {
                    format!(
                        "No difference in speed is established, but another metric clearly \
                        changed: {}.",
                        cost.text
                    )
                })
            }
            (true, MovementRole::With) => {
                format!("The largest change that could explain it: {}.", best.text)
            }
            _ => "No measured change could explain the difference; see what limited the slower \
                  variant."
                .to_owned(),
        }
    }

    /// Describes a changed cost if the verdict on speed is undecided, but not if it is withheld.
    fn undecided_text(&self, cost: &MovedMetric) -> Option<String> {
        let undecided = self.comparisons.iter();
        let undecided = undecided.filter(|c| c.verdict == Verdict::Undecided);
        let metrics: Vec<Metric> = undecided.map(|c| c.metric).collect();
        let first = self.explanation;
        undecided_cost(&metrics, &first.name, &first.against_name, cost)
    }

    /// Says how much of the difference the CPU time per request explains, and how much nothing
    /// explains.
    fn parts(&self) -> Option<String> {
        if !self.has_slower {
            return None;
        }
        let Explanation {
            moved,
            findings,
            rate_parts,
            unclear,
            ..
        } = self.explanation;
        let is_other = |it: &&MovedMetric| {
            it.part == MovementRole::With && !is_request_cost(it.metric) && it.service.is_none()
        };
        let has_others = moved.iter().any(|it| is_other(&it)) || !findings.is_empty();
        if moved.is_empty() && !unclear.is_empty() {
            return None;
        }
        let any_with = moved.iter().any(|it| it.part == MovementRole::With);
        let Some(parts) = rate_parts else {
            return (any_with || has_others).then(|| {
                "How much of the difference these changes explain is not known.".to_owned()
            });
        };
        let change = |effect: &Effect| Change::of(Metric::RatePerS, effect);
        // The interval determines the digits, so the verdict and this sentence print one figure.
        let mut comparisons = self.comparisons.iter();
        let rate = comparisons.find(|it| it.metric == Metric::RatePerS)?;
        let rate = change(&rate.effect)?.signed();
        let Some(explained) = &parts.explained else {
            return Some(if any_with || has_others {
                format!(
                    "How much of the change in the rate ({rate}) these observations explain is \
                 not known: CPU per request, whose effect on the rate can be computed, did not \
                 clearly change."
                )
            } else {
                format!(
                    "Nothing that was measured explains any of the change in the rate ({rate})."
                )
            });
        };
        let cpu = moved
            .iter()
            .find(|it| it.metric == Metric::ServerCpuUsPerRequest && it.service.is_none())?;
        let identity = format!(
            "Server CPU per request changed by {}; at the same total CPU usage, that alone would \
             change the rate by {}. The rate changed by {rate}.",
            Change::of(cpu.metric, &cpu.effect)?.signed(),
            change(explained)?.with_interval(),
        );
        if !parts.is_rest_established {
            return Some(format!(
                "{identity} No other part is established: the total CPU usage did not clearly \
                 change."
            ));
        }
        let ratio = |of: f64| number::significant(of, 2);
        let cause = if has_others {
            "How much of the rest the other observations explain is not known"
        } else {
            "Nothing that was measured explains the rest"
        };
        Some(format!(
            "{identity} The rest is a change of the total CPU usage by {}; the parts multiply \
             ({} × {} = {}). {cause}.",
            change(&parts.unexplained)?.with_interval(),
            ratio(explained.ratio?),
            ratio(parts.unexplained.ratio?),
            ratio(parts.rate),
        ))
    }
}

/// Names the functions that changed most; `None` without sampling profiles, or without an established
/// change.
fn named(by: &str, changed: &[ChangedFunction]) -> Option<String> {
    /// Maximum number of functions in a summary.
    const NAMED_MAX: usize = 2;

    let named = changed.iter().take(NAMED_MAX);
    let texts: Vec<&str> = named.map(|changed| changed.text.as_str()).collect();
    (!texts.is_empty()).then(|| format!("{by}: {}.", texts.join("; ")))
}

/// The two variants and the metrics that an entry explains: `tcp against unix (request rate)`.
pub fn heading(why: &Explanation) -> String {
    let metrics: Vec<&str> = why.metrics.iter().map(|metric| metric.noun()).collect();
    let metrics = metrics.join(", ");
    format!("{} against {} ({metrics})", why.name, why.against_name)
}

/// Describes the relation of a change to the difference. Empty if no change in this entry has such
/// a relation.
pub fn relation(why: &Explanation, moved: &MovedMetric) -> &'static str {
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
pub fn other_metrics(why: &Explanation) -> Vec<String> {
    let named = |what: &str, metrics: &[Metric]| {
        let nouns: Vec<&str> = metrics.iter().map(|metric| metric.noun()).collect();
        (!nouns.is_empty()).then(|| format!("{what}: {}.", nouns.join(", ")))
    };
    let same = named("Unchanged within the margin", &why.same);
    let unclear = named("Too noisy to judge", &why.unclear);
    [same, unclear].into_iter().flatten().collect()
}
