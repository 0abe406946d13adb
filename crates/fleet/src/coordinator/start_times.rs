//! Computes the start times of agents, and reports late starts.

use prony_load::{ArrivalSchedule, Arrivals, ScheduleEnd, Shard};
use prony_record::finding::{LateAgent, LateStart};
use prony_record::{Finding, Nanos, Severity};

use super::collector::ResultCollector;
use super::schedule::warmup;
use crate::division::AgentShard;
use crate::names::AgentName;
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
    let mut late: Vec<(u64, &AgentName)> = began.collect();
    late.sort_by_key(|(late_ns, _)| std::cmp::Reverse(*late_ns));
    let late = late.into_iter().map(|(late_ns, name)| LateAgent {
        agent: name.to_string(),
        late_ms: late_ns as f64 / 1e6,
    });
    let late = LateStart {
        late: late.collect(),
        bound_ms: manifest.clock_bound_ns as f64 / 1e6,
        warmup_s: manifest.load.warmup_s,
        is_open: manifest.load.is_open(),
    };
    let severity = if late.beyond_warmup_s() > 0.0 {
        Severity::Warning
    } else {
        Severity::Note
    };
    (!late.late.is_empty()).then(|| Finding::of(severity, &late))
}
