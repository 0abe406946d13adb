//! Sentences about capacities: of one server, and differences between two.

use prony_record::number::RateUnit;
use prony_record::{Record, goals_phrase, number, readings_phrase};
use prony_stats::Comparison;
use prony_stats::capacity::{
    BoundReason, CapacityDocument, CapacityEstimate, Goal, ProbeReport, SearchEnd,
};

use crate::change::Change;
use crate::conditions;

/// Returns the result of `prony capacity` as a sentence.
pub fn result(document: &CapacityDocument) -> String {
    let searches = &document.searches;
    let outcomes: Vec<_> = searches
        .iter()
        .filter_map(|search| search.outcome())
        .collect();
    let goals = goals_phrase(&document.goals);
    let unit = document.rate_unit();
    if let Some(estimate) = CapacityEstimate::of(&outcomes) {
        if let (false, Some(per_s)) = (document.complete, document.capacity_per_s) {
            let searches = number::plural(outcomes.len() as u64, "search", "searches");
            return format!(
                "Capacity at {goals}: {} so far, by {searches}",
                unit.rate(per_s)
            );
        }
        let last = searches.last().and_then(|search| search.probes.last());
        let readings = last.map(readings).unwrap_or_default();
        return estimated(&estimate, unit, &goals, &readings);
    }
    let met = searches.iter().filter_map(|search| search.met_per_s);
    let unmet = searches.iter().filter_map(|search| search.unmet_per_s);
    let bracket = (met.reduce(f64::max), unmet.reduce(f64::min));
    let known = between(bracket, unit);
    let mut ends = searches.iter().map(|search| &search.end);
    let is_silent = ends.any(|end| *end == SearchEnd::NoSuccess);
    match bracket {
        (None, _) if is_silent => {
            format!("Capacity at {goals}: unknown, because no request succeeded")
        }
        (Some(met), _) if is_silent => format!(
            "Capacity at {goals}: unknown, because the server stopped responding; {} met the goals \
             before",
            unit.rate(met)
        ),
        (None, None) => format!("Capacity at {goals}: {known}"),
        _ => format!("Capacity at {goals}: {known} so far"),
    }
}

/// Composes the clauses about the goals of a probe, given its record.
pub fn compose_probe(report: &mut ProbeReport, goals: &[Goal], record: &Record) {
    for (value, goal) in report.goals.iter_mut().zip(goals) {
        value.text = conditions::reading(goal.condition(), record).unwrap_or_default();
    }
}

/// Returns the readings of all goals of a probe as one clause. If the probe failed because the
/// server did not keep up, the clause states that.
pub fn readings(probe: &ProbeReport) -> String {
    let texts = probe.goals.iter().map(|goal| goal.text.as_str());
    readings_phrase(texts, probe.kept_up)
}

/// Returns an estimate as a sentence. `readings` describes the values of the goals in the last
/// probe.
fn estimated(estimate: &CapacityEstimate, unit: RateUnit, goals: &str, readings: &str) -> String {
    match estimate {
        CapacityEstimate::Capacity {
            per_s, interval, ..
        } => {
            let interval = interval.map_or(String::new(), |interval| {
                let figure = number::rate_figure;
                format!(
                    " (95% interval: {} to {})",
                    figure(interval.low),
                    figure(interval.high)
                )
            });
            format!("Capacity at {goals}: {}{interval}", unit.rate(*per_s))
        }
        CapacityEstimate::AtLeast { per_s, reason } => {
            let reason = match reason {
                BoundReason::GeneratorSaturated => {
                    "At higher rates, the load generator was saturated."
                }
                BoundReason::RateMax => "This is the highest permitted rate.",
                BoundReason::ProbesMax => {
                    "The search ended before it found a rate that fails the goals."
                }
            };
            format!("Capacity at {goals}: ≥ {}. {reason}", unit.rate(*per_s))
        }
        CapacityEstimate::Below { per_s } => format!(
            "Capacity at {goals}: less than {}. At lower rates, probes of this length have too few \
             {} to judge the goals; probes twice as long can judge half the rate.",
            unit.rate(*per_s),
            unit.noun()
        ),
        CapacityEstimate::Unmet { per_s } => {
            let rate = number::rate_figure(*per_s);
            let noun = match rate.as_str() {
                "1.00" | "1" => format!("1 {}", unit.noun().trim_end_matches('s')),
                rate => format!("{rate} {}", unit.noun()),
            };
            format!("{goals}: not met even at {noun} a second ({readings})")
        }
    }
}

/// Returns the bracket of an unfinished search as a clause: `between 7,000 and 9,500 req/s`.
pub fn between(bracket: (Option<f64>, Option<f64>), unit: RateUnit) -> String {
    match bracket {
        (Some(met), Some(unmet)) => format!(
            "between {} and {}",
            number::rate_figure(met.min(unmet)),
            unit.rate(unmet.max(met))
        ),
        (Some(met), None) => format!("at least {}", unit.rate(met)),
        (None, Some(unmet)) => format!("less than {}", unit.rate(unmet)),
        (None, None) => "nothing is known yet".to_owned(),
    }
}

/// Sentence for an established difference: "new serves 12.0% (9.0% to 15.0%) more requests per
/// second at p99 < 50 ms: 8,410 against 7,510". `rates` are the capacities of the variant and of
/// its baseline, averaged over the blocks. The baseline is not named if there is no other variant.
pub(crate) fn decided(
    comparison: &Comparison,
    goals: &[String],
    is_only_pair: bool,
    change: &Change,
    rates: Option<(f64, f64)>,
) -> String {
    let range = change
        .range()
        .map_or(String::new(), |range| format!(" ({range})"));
    let amount = format!("{}{range}", change.amount());
    let is_factor = change.is_factor();
    let served = comparison.metric.rate_unit().noun();
    let compared = match (is_factor, change.is_less()) {
        (true, _) => format!("{amount} as many {served} per second"),
        (false, false) => format!("{amount} more {served} per second"),
        (false, true) => format!("{amount} fewer {served} per second"),
    };
    let than = match (is_only_pair, is_factor) {
        (true, _) => String::new(),
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
        at_goals(goals)
    )
}

/// Returns the metric's name with the goals: "capacity at p99 < 50 ms".
pub(crate) fn noun(noun: &str, goals: &[String]) -> String {
    format!("{noun}{}", at_goals(goals))
}

fn at_goals(goals: &[String]) -> String {
    if goals.is_empty() {
        String::new()
    } else {
        format!(" at {}", goals_phrase(goals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_stats::Interval;

    #[test]
    fn an_estimate_is_one_sentence() {
        let goals = "p99 < 50 ms and failed < 0.1%";
        let interval = Some(Interval {
            low: 8_120.4,
            high: 8_699.0,
        });
        for (estimate, sentence) in [
            (
                CapacityEstimate::Capacity {
                    per_s: 8_410.0,
                    interval,
                    searches: 5,
                },
                "Capacity at p99 < 50 ms and failed < 0.1%: 8,410 req/s (95% interval: 8,120 to 8,699)",
            ),
            (
                CapacityEstimate::AtLeast {
                    per_s: 9_000.0,
                    reason: BoundReason::GeneratorSaturated,
                },
                "Capacity at p99 < 50 ms and failed < 0.1%: ≥ 9,000 req/s. At higher rates, the \
                 load generator was saturated.",
            ),
            (
                CapacityEstimate::Unmet { per_s: 1.0 },
                "p99 < 50 ms and failed < 0.1%: not met even at 1 request a second (p99 is 80.0 ms)",
            ),
        ] {
            assert_eq!(
                estimated(&estimate, RateUnit::Requests, goals, "p99 is 80.0 ms"),
                sentence
            );
        }
    }

    #[test]
    fn a_bracket_is_a_clause() {
        for (bracket, clause) in [
            (
                (Some(7_000.0), Some(9_500.0)),
                "between 7,000 and 9,500 req/s",
            ),
            ((Some(7_000.0), None), "at least 7,000 req/s"),
            ((None, Some(9_500.0)), "less than 9,500 req/s"),
            ((None, None), "nothing is known yet"),
        ] {
            assert_eq!(between(bracket, RateUnit::Requests), clause);
        }
    }
}
