//! The finding about a capacity search that ended without finding a capacity.

use prony_record::finding::{CapacityUnknown, ProbeReadings, UnknownCapacity};
use prony_record::{Finding, Severity};
use prony_stats::capacity::{BoundReason, SearchOutcome};
use prony_stats::capacity::{SearchEnd, SearchReport};

/// Returns the finding; `None` if the search found a capacity.
pub(crate) fn finding(search: &SearchReport, goals: &[String]) -> Option<Finding> {
    let (reason, per_s) = match search.end {
        SearchEnd::Interrupted => return None,
        SearchEnd::NoSuccess if search.probes.is_empty() => {
            (UnknownCapacity::NoRequestSucceeded, None)
        }
        SearchEnd::NoSuccess => (UnknownCapacity::NoResponses, None),
        SearchEnd::Outcome { outcome } => match outcome {
            SearchOutcome::Capacity { .. } => return None,
            SearchOutcome::AtLeast { per_s, reason } => {
                let reason = match reason {
                    BoundReason::GeneratorSaturated => UnknownCapacity::AboveSaturated,
                    BoundReason::RateMax => UnknownCapacity::AboveRateMax,
                    BoundReason::ProbesMax => UnknownCapacity::AboveProbesMax,
                };
                (reason, Some(per_s))
            }
            SearchOutcome::Below { per_s } => (UnknownCapacity::Below, Some(per_s)),
            SearchOutcome::Unmet { per_s } => (UnknownCapacity::Unmet, Some(per_s)),
        },
    };
    let unknown = CapacityUnknown {
        reason,
        goals: goals.to_vec(),
        per_s,
        rate_unit: Some(search.rate_unit()).filter(|unit| !unit.is_requests()),
        readings: match reason {
            UnknownCapacity::Unmet => lowest_readings(search),
            _ => None,
        },
    };
    Some(Finding::of(Severity::Error, &unknown))
}

/// Returns the readings of the probe at the lowest rate.
fn lowest_readings(search: &SearchReport) -> Option<ProbeReadings> {
    let lowest = search.probes.iter().min_by(|a, b| {
        let rates = [a, b].map(|probe| probe.rate_per_s.unwrap_or(f64::INFINITY));
        rates[0].total_cmp(&rates[1])
    })?;
    Some(ProbeReadings {
        goals: lowest.goals.iter().map(|goal| goal.text.clone()).collect(),
        kept_up: lowest.kept_up,
    })
}
