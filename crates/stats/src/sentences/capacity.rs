//! Sentences about differences in capacity.

use prony_record::number;

use crate::change::Change;
use crate::comparison::Comparison;
use crate::design::Design;
use prony_record::goals_phrase;

/// Sentence for an established difference: "new serves 12.0% (9.0% to 15.0%) more requests per
/// second at p99 < 50 ms: 8,410 against 7,510". `rates` are the capacities of the variant and of
/// its baseline, averaged over the blocks.
pub(crate) fn decided(
    comparison: &Comparison,
    design: &Design,
    change: &Change,
    rates: Option<(f64, f64)>,
) -> String {
    let range = change
        .range()
        .map_or(String::new(), |range| format!(" ({range})"));
    let amount = format!("{}{range}", change.amount());
    let is_factor = change.is_factor();
    let compared = match (is_factor, change.is_less()) {
        (true, _) => format!("{amount} as many requests per second"),
        (false, false) => format!("{amount} more requests per second"),
        (false, true) => format!("{amount} fewer requests per second"),
    };
    // With only two variants, the other variant must be the baseline, so it isn't named.
    let than = match (design.variants.len(), is_factor) {
        (..=2, _) => String::new(),
        (_, true) => format!(" as {}", comparison.against_name),
        (_, false) => format!(" than {}", comparison.against_name),
    };
    let rates = rates.map_or(String::new(), |(own, other)| {
        let figure = number::rate_figure;
        format!(": {} against {}", figure(own), figure(other))
    });
    format!(
        "{} serves {compared}{than}{}{rates}",
        comparison.name,
        at_goals(design)
    )
}

/// Returns the metric's name with the goals: "capacity at p99 < 50 ms".
pub(crate) fn noun(noun: &str, design: &Design) -> String {
    format!("{noun}{}", at_goals(design))
}

fn at_goals(design: &Design) -> String {
    match design.goals.is_empty() {
        true => String::new(),
        false => format!(" at {}", goals_phrase(&design.goals)),
    }
}
