//! Sentences about the rounds of interleaved blocks.

use super::counted;
use crate::change::Change;
use crate::comparison::Effect;
use crate::metric::Metric;
use crate::round_comparison::RoundComparison;

/// Minimum ratio of the standard error from blocks to the standard error from rounds at which the
/// report states that blocks differ by more than their rounds explain. By chance, this happens in
/// fewer than 1 of 50 experiments with three or more blocks.
const ERROR_RATIO_NOTABLE: f64 = 2.0;

/// Returns the sentences of the diagnostic: the interval from the rounds alone, next to the
/// interval from blocks.
pub(crate) fn diagnostic(comparison: &RoundComparison) -> String {
    let of_rounds = Effect {
        ratio: Some(comparison.rounds_ratio),
        difference: None,
        low: comparison.rounds_low,
        high: comparison.rounds_high,
    };
    // Rates and response times are both compared by ratio, so either can be formatted like a rate.
    let shown = |effect: &Effect| {
        let change = Change::of(Metric::RatePerS, effect);
        change.map_or("no estimate".to_owned(), |change| change.with_interval())
    };
    let mut text = format!(
        "{} of {} against {}: computed from the {} instead of the {}, the change is {}. The verdict \
         uses the blocks: {}.",
        capitalized(comparison.metric.noun()),
        comparison.name,
        comparison.against_name,
        counted(comparison.rounds, "round"),
        counted(comparison.blocks, "block"),
        shown(&of_rounds),
        shown(&comparison.effect),
    );
    if comparison
        .error_ratio
        .is_some_and(|ratio| ratio >= ERROR_RATIO_NOTABLE)
    {
        text.push_str(
            " The blocks differ by more than their rounds explain, so more blocks would narrow the \
             interval, but longer blocks would not.",
        );
    }
    if comparison.rounds_without_ratio > 0 {
        let left_out = counted(comparison.rounds_without_ratio, "round");
        text = format!("{text} Omitted because one of the two variants has no value: {left_out}.");
    }
    text
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
