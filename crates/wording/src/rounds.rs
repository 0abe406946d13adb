//! Sentences about the rounds of interleaved blocks.

use prony_stats::{Effect, Metric, RoundComparison};

use crate::change::Change;
use crate::statement::counted;

/// Minimum ratio of the standard error from blocks to the standard error from rounds at which the
/// report states that blocks differ by more than their rounds explain. By chance, this happens in
/// fewer than 1 of 50 experiments with three or more blocks.
const ERROR_RATIO_NOTABLE: f64 = 2.0;

/// Composes the sentences of comparisons by rounds.
pub fn compose_rounds(comparisons: &mut [RoundComparison]) {
    for comparison in comparisons {
        comparison.text = diagnostic(comparison);
    }
}

/// Returns the sentences of the diagnostic: the interval from the rounds alone, next to the
/// interval from blocks.
fn diagnostic(comparison: &RoundComparison) -> String {
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
    let subject = format!(
        "{} of {} against {}",
        capitalized(comparison.metric.noun()),
        comparison.name,
        comparison.against_name
    );
    let rounds = counted(comparison.rounds, "round");
    let blocks = counted(comparison.blocks, "block");
    let of_blocks = shown(&comparison.effect);
    let mut text = if excludes_no_change(&of_rounds) && !excludes_no_change(&comparison.effect) {
        // Next to blocks that establish no difference, this interval would be read as a verdict.
        format!(
            "{subject}: computed from the {blocks}, the change is {of_blocks}. The interval from the \
             {rounds} is narrower, but is not shown: the rounds of a block share one start of the \
             services, so their spread says too little about the difference."
        )
    } else {
        format!(
            "{subject}: computed from the {rounds} instead of the {blocks}, the change is {}. The \
             verdict uses the blocks: {of_blocks}.",
            shown(&of_rounds)
        )
    };
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

fn excludes_no_change(effect: &Effect) -> bool {
    effect.low.is_some_and(|low| low > 1.0) || effect.high.is_some_and(|high| high < 1.0)
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}
