//! Findings about a single load. docs/findings.md describes each of them.
//!
//! Everything here is a pure function of the record and of counts that the record does not hold.

mod connections;
mod generator;
mod requests;
#[cfg(test)]
mod tests;

use prony_record::{Finding, Outcome, Record};

pub(crate) use connections::streams_limited;
pub use generator::stall_text;

/// The findings of a finished load. `reasons` are the reasons of its failures, the most frequent
/// first; `unasked` counts the times that the server sent bytes without a request.
pub(crate) fn of(
    record: &Record,
    reasons: &[(Outcome, String, u64)],
    unasked: u64,
) -> Vec<Finding> {
    let saturated = generator::saturated(record);
    let is_saturated = saturated.is_some();
    [
        generator::stalled(record),
        saturated,
        generator::starved(record),
        generator::schedule_missed(record, is_saturated),
        requests::errors(record, reasons),
        connections::port_exhaustion(record),
        connections::not_reused(record),
        requests::retried(record),
        connections::unasked_bytes(unasked),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The findings of a load that is still running, from the record that it would have if it ended
/// now.
pub fn so_far(record: &Record) -> Vec<Finding> {
    of(record, &[], 0)
}
