//! Sentences about main effects and interactions of factors.

use crate::change::Change;
use crate::metric::Metric;

/// Dependence of a factor's effect on the level of another factor.
pub(crate) enum Dependence {
    /// The effect differs by no more than the margin between the levels of the other factor.
    None,
    /// The effect is established to differ between at least two levels of the other factor.
    /// Contains the effect at each level, with the level's name.
    Established(Vec<(Change, String)>),
    /// Neither a dependence nor its absence is established.
    Unclear,
}

/// Sentence for a main effect: "tcp instead of unix: costs 8.0% (7.0% to 9.0%), regardless of
/// server".
pub(crate) fn main_effect(
    metric: Metric,
    (level, reference): (&str, &str),
    change: &Change,
    dependence: &[(&str, Dependence)],
) -> String {
    format!(
        "{level} instead of {reference}: {}{}",
        cost(metric, change),
        dependences(dependence)
    )
}

/// Sentence for an interaction: the change that one step causes in the effect of another step. Each
/// step is given as a level and its reference level.
pub(crate) fn interaction(
    metric: Metric,
    (a, a_reference): &(String, String),
    (b, b_reference): &(String, String),
    change: &Change,
) -> String {
    format!(
        "with {b} instead of {b_reference}, the effect of {a} instead of {a_reference} on the {} \
         changes by {}",
        metric.noun(),
        change.with_interval(),
    )
}

fn dependences(all: &[(&str, Dependence)]) -> String {
    let (mut independent, mut rest) = (Vec::new(), String::new());
    for (factor, dependence) in all {
        match dependence {
            Dependence::None => independent.push(format!("regardless of {factor}")),
            Dependence::Established(levels) => {
                let levels: Vec<String> = levels
                    .iter()
                    .map(|(change, level)| format!("{} with {level}", change.signed()))
                    .collect();
                rest += &format!("; it depends on {factor} ({})", levels.join(", "));
            }
            Dependence::Unclear => {
                rest += &format!("; it is unclear whether it depends on {factor}");
            }
        }
    }
    let comma = if independent.is_empty() { "" } else { ", " };
    format!("{comma}{}{rest}", independent.join(" and "))
}

/// Returns a clause such as "costs 8.0% (7.0% to 9.0%)" if the metric is the request rate and the
/// direction is established, and otherwise a signed change.
fn cost(metric: Metric, change: &Change) -> String {
    if metric == Metric::RatePerS
        && !change.is_factor()
        && let Some(range) = change.range().filter(|_| change.is_one_sided())
    {
        let verb = if change.is_less() { "costs" } else { "gains" };
        return format!("{verb} {} ({range})", change.amount());
    }
    format!("{} {}", metric.noun(), change.with_interval())
}
