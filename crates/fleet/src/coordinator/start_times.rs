//! Computes the start times of agents, and reports late starts.

use prony_load::{ArrivalSchedule, Arrivals, ScheduleEnd, Shard};
use prony_record::{Finding, FindingId, Nanos, Severity};

use super::collector::ResultCollector;
use super::schedule::warmup;
use super::summary;
use crate::division::AgentShard;
use crate::wire::{PartAssignment, PartEnd, RunManifest};

/// Returns the delay of an agent's first request in nanoseconds, as measured by the coordinator's
/// clock.
pub(super) fn first_start(
    manifest: &RunManifest,
    part: &PartAssignment,
    end: Option<&PartEnd>,
) -> Option<i64> {
    let (_, first) = end?.began?;
    let (start, clock) = (manifest.start?, part.clock?);
    let due = start.saturating_add(first_due(manifest, part.shard));
    Some(clock.to_local(first).saturating_sub(due))
}

/// Returns the time since the start of the load at which an agent's first request is due, in
/// nanoseconds. It is zero in a closed loop.
fn first_due(manifest: &RunManifest, shard: AgentShard) -> i64 {
    let Some(rate) = manifest.load.rate_profile() else {
        return 0;
    };
    let arrivals = match manifest.load.arrivals.as_deref() {
        Some("poisson") => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    // The first arrival of a shard belongs to its first worker.
    let first_worker = Shard {
        worker: shard.first.into(),
        of: shard.of.into(),
    };
    let endless = ScheduleEnd {
        requests: u64::MAX,
        counted_from: warmup(manifest),
        at: Nanos(u64::MAX),
    };
    let schedule = ArrivalSchedule::new(arrivals, &rate, manifest.seed, first_worker, endless);
    let due = schedule.peek().unwrap_or_default();
    i64::try_from(due.0).unwrap_or(i64::MAX)
}

/// Returns the finding about agents whose first request was late by more than the accepted clock
/// error.
pub(super) fn late(manifest: &RunManifest, collector: &ResultCollector) -> Option<Finding> {
    let began = manifest.parts.iter().filter_map(|(name, part)| {
        let end = collector.parts.get(name)?.end.as_ref();
        let late_ns = u64::try_from(first_start(manifest, part, end)?).ok()?;
        (late_ns > manifest.clock_bound_ns).then_some((late_ns, name))
    });
    let mut late: Vec<(u64, &crate::names::AgentName)> = began.collect();
    late.sort_by_key(|(late_ns, _)| std::cmp::Reverse(*late_ns));
    let (most_ns, _) = *late.first()?;
    let each = late
        .iter()
        .map(|(late_ns, name)| format!("{name} by {:.1} ms", *late_ns as f64 / 1e6));
    let each = summary::shorten(&each.collect::<Vec<_>>(), usize::MAX);
    let beyond_s = most_ns as f64 / 1e9 - manifest.load.warmup_s;
    let (severity, meaning) = match (beyond_s > 0.0, manifest.load.is_open()) {
        (false, _) => (
            Severity::Note,
            "All agents had started before the warm-up ended; the measured part is not affected."
                .to_owned(),
        ),
        (true, false) => (
            Severity::Warning,
            format!(
                "In the first {beyond_s:.1} s of the measured part, some agents had not started, so the load was lighter."
            ),
        ),
        (true, true) => (
            Severity::Warning,
            format!(
                "In the first {beyond_s:.1} s of the measured part, some agents had not started. Requests due in that time started late, and their response times include the delay."
            ),
        ),
    };
    let bound_ms = manifest.clock_bound_ns as f64 / 1e6;
    let text = format!(
        "Agents started more than {bound_ms:.1} ms (--clock-bound) later than ordered: {each}. The start order may have arrived late, the machine may have been busy, or connecting may have taken too long. {meaning}"
    );
    Some(Finding::new(FindingId::LateStart, severity, text))
}
