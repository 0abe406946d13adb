//! Sentences about main effects and interactions of factors.

use prony_stats::{Dependence, Design, EffectKind, FactorEffect, Metric};

use crate::change::Change;

/// Sentence for an effect: "tcp instead of unix: costs 8.0% (7.0% to 9.0%), regardless of server",
/// or the change that one step causes in the effect of another step.
pub(crate) fn sentence(design: &Design, effect: &FactorEffect) -> String {
    let Some(change) = Change::of(effect.metric, &effect.effect) else {
        return String::new();
    };
    let steps = effect.levels.iter().zip(effect.against.values());
    let steps = steps.map(|((factor, level), reference)| {
        let level = level_name(design, factor, level);
        let reference = level_name(design, factor, reference);
        format!("{level} instead of {reference}")
    });
    let steps: Vec<String> = steps.collect();
    match (effect.kind, &steps[..]) {
        (EffectKind::Main, [step]) => format!(
            "{step}: {}{}",
            cost(effect.metric, &change),
            dependences(design, effect)
        ),
        (EffectKind::Interaction, [a, b]) => format!(
            "with {b}, the effect of {a} on the {} changes by {}",
            effect.metric.noun(),
            change.with_interval(),
        ),
        _ => String::new(),
    }
}

fn level_name(design: &Design, factor: &str, level: &str) -> String {
    let mut factors = design.factors.iter();
    let factor = factors.find(|known| known.name == factor);
    factor.map_or(level.to_owned(), |factor| factor.name_of(level))
}

fn dependences(design: &Design, effect: &FactorEffect) -> String {
    let (mut independent, mut rest) = (Vec::new(), String::new());
    for one in &effect.dependences {
        let factor = &one.factor;
        match &one.dependence {
            Dependence::None => independent.push(format!("regardless of {factor}")),
            Dependence::Established(levels) => {
                let levels = levels.iter().filter_map(|at| {
                    let change = Change::of(effect.metric, &at.effect)?;
                    let level = level_name(design, factor, &at.level);
                    Some(format!("{} with {level}", change.signed()))
                });
                let levels: Vec<String> = levels.collect();
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
