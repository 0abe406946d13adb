//! Findings about a single load. docs/findings.md describes each of them.
//!
//! All functions are pure: they depend only on the record and on counts that are not part of it.

mod connections;
mod generator;
mod replay;
mod requests;
#[cfg(test)]
mod tests;

use prony_record::{Finding, Outcome, Record};

pub(crate) use connections::{ClosedConnections, streams_limited};
pub(crate) use replay::{add_log, of_log};

/// The findings of a finished load. `reasons` are the reasons for its failures, the most frequent
/// first. `unsolicited` counts how often the server sent bytes while no request was in flight, and
/// `closed` the connections that ended between requests.
pub(crate) fn findings_of(
    record: &Record,
    reasons: &[(Outcome, String, u64)],
    unsolicited: u64,
    closed: ClosedConnections,
) -> Vec<Finding> {
    let saturated = generator::saturated(record);
    let is_saturated = saturated.is_some();
    [
        generator::stalled(record),
        saturated,
        generator::throttled(record),
        generator::starved(record),
        generator::schedule_missed(record, is_saturated),
        requests::errors(record, reasons),
        connections::port_exhaustion(record),
        connections::not_reused(record, closed),
        connections::packets_lost(record),
        connections::udp_buffer_small(record),
        connections::frames_dropped(record),
        requests::retried(record),
        requests::events_together(record),
        connections::unsolicited_bytes(unsolicited),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The findings of a running load. `record` is the record that the load would have if it ended now.
pub fn findings_so_far(record: &Record) -> Vec<Finding> {
    findings_of(record, &[], 0, ClosedConnections::default())
}
