//! When agents began, and which of them did so late.

use prony_load::{Arrivals, End, Schedule, Share};
use prony_record::{Finding, FindingId, Nanos, Severity};

use super::gathering::Gathering;
use super::sums;
use crate::division::Stretch;
use crate::messages::{Manifest, Part, PartEnd};

/// When an agent's first request began after it was due, on the coordinator's clock, in nanoseconds.
pub(super) fn first_start(manifest: &Manifest, part: &Part, end: Option<&PartEnd>) -> Option<i64> {
    let (_, first) = end?.began?;
    let (start, clock) = (manifest.start?, part.clock?);
    let due = start.saturating_add(first_due(manifest, part.stretch));
    Some(clock.here(first).saturating_sub(due))
}

/// When the first of an agent's requests is due, since the load's start, in nanoseconds: at once in a
/// closed loop, by the schedule in an open one.
fn first_due(manifest: &Manifest, stretch: Stretch) -> i64 {
    let Some(rate_per_s) = manifest.load.rate_per_s else {
        return 0;
    };
    let arrivals = match manifest.load.arrivals.as_deref() {
        Some("poisson") => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    // Of its workers the first has the first arrival.
    let share = Share {
        worker: stretch.first.into(),
        of: stretch.of.into(),
    };
    let endless = End {
        requests: u64::MAX,
        counted_from: Nanos::ZERO,
        at: Nanos(u64::MAX),
    };
    let schedule = Schedule::new(arrivals, rate_per_s, manifest.seed, share, endless);
    let due = schedule.peek().unwrap_or_default();
    i64::try_from(due.0).unwrap_or(i64::MAX)
}

/// The agents whose first request began later than due by more than the error of a clock that is borne.
pub(super) fn late(manifest: &Manifest, gathering: &Gathering) -> Option<Finding> {
    let began = manifest.parts.iter().filter_map(|(name, part)| {
        let end = gathering.parts.get(name)?.end.as_ref();
        let late_ns = u64::try_from(first_start(manifest, part, end)?).ok()?;
        (late_ns > manifest.clock_bound_ns).then_some((late_ns, name))
    });
    let mut late: Vec<(u64, &crate::names::AgentName)> = began.collect();
    late.sort_by_key(|(late_ns, _)| std::cmp::Reverse(*late_ns));
    let (most_ns, _) = *late.first()?;
    let each = late
        .iter()
        .map(|(late_ns, name)| format!("{name} by {:.1} ms", *late_ns as f64 / 1e6));
    let each = sums::shorten(&each.collect::<Vec<_>>(), usize::MAX);
    let beyond_s = most_ns as f64 / 1e9 - manifest.load.warmup_s;
    let (severity, meaning) = match (beyond_s > 0.0, manifest.load.rate_per_s) {
        (false, _) => (
            Severity::Note,
            "All were under way before the warm-up ended: the measured part is not touched."
                .to_owned(),
        ),
        (true, None) => (
            Severity::Warning,
            format!(
                "The first {beyond_s:.1} s of the measured part were made without all agents: the \
                 load was lighter there."
            ),
        ),
        (true, Some(_)) => (
            Severity::Warning,
            format!(
                "The first {beyond_s:.1} s of the measured part were made without all agents; what \
                 was due there began late, and its response times hold the delay."
            ),
        ),
    };
    let bound_ms = manifest.clock_bound_ns as f64 / 1e6;
    let text = format!(
        "Not all agents began when they were to, give or take {bound_ms:.1} ms (--clock-bound): {each}. \
         The order came late there, its machine was busy, or connecting took so long. {meaning}"
    );
    Some(Finding::new(FindingId::LateStart, severity, text))
}
