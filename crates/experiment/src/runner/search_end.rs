//! The finding about a capacity search that ended without finding a capacity.

use prony_record::{Finding, FindingId, Severity, number};
use prony_stats::capacity::{BoundReason, SearchOutcome};
use prony_stats::goals_phrase;

use crate::capacity::{SearchEnd, SearchReport};

/// Returns the finding; `None` if the search found a capacity.
pub(crate) fn finding(search: &SearchReport, goals: &[String]) -> Option<Finding> {
    let goals = goals_phrase(goals);
    let rate = |per_s: f64| number::rate_figure(per_s);
    let outcome = match search.end {
        SearchEnd::Outcome { outcome } => outcome,
        SearchEnd::Interrupted => return None,
        SearchEnd::NoSuccess => {
            let text = match search.probes.is_empty() {
                true => "The search sent no probe, because no request succeeded.",
                false => {
                    "The server stopped responding during the search. See its log, and repeat the \
                     search."
                }
            };
            return Some(error(text.to_owned()));
        }
    };
    let text = match outcome {
        SearchOutcome::Capacity { .. } => return None,
        SearchOutcome::AtLeast { per_s, reason } => {
            let cause = match reason {
                BoundReason::GeneratorSaturated => {
                    "at higher rates the load generator was saturated. Give the load more cores"
                }
                BoundReason::RateMax => "max_rate does not allow higher rates. Raise max_rate",
                BoundReason::ProbesMax => {
                    "the search ended before it found a rate that misses the goals. Use shorter \
                     probes, or other goals"
                }
            };
            format!(
                "The capacity is at least {} requests per second: {goals} is met at that rate, and \
                 {cause}.",
                rate(per_s)
            )
        }
        SearchOutcome::Below { per_s } => format!(
            "The capacity is below {} requests per second: probes of this length have too few requests \
             to judge {goals} at lower rates. Use longer probes, or other goals.",
            rate(per_s)
        ),
        SearchOutcome::Unmet { per_s } => {
            let requests = match per_s {
                1.0 => "1 request".to_owned(),
                per_s => format!("{} requests", rate(per_s)),
            };
            let lowest = search.probes.iter().min_by(|a, b| {
                let rates = [a, b].map(|probe| probe.rate_per_s.unwrap_or(f64::INFINITY));
                rates[0].total_cmp(&rates[1])
            });
            let readings = lowest.map_or(String::new(), |probe| format!(": {}", probe.readings()));
            format!("{goals} is not met even at {requests} per second{readings}.")
        }
    };
    Some(error(text))
}

fn error(text: String) -> Finding {
    Finding::new(FindingId::CapacityUnknown, Severity::Error, text)
}
