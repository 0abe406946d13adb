//! Computes how many requests each agent must send. The numbers are computed from the order, not
//! taken from what the agents claim.

use prony_load::{Arrivals, ScheduleEnd, arrivals_by_worker};
use prony_record::Nanos;

use super::collector::{ReceivedPart, ResultCollector};
use crate::division::AgentShard;
use crate::wire::{EndReason, RunManifest};

/// Returns the number of requests that are due in the measured part of an open loop. If some agent
/// did not finish the load, only requests due before the end of `span` are counted. Returns `None`
/// for a closed loop.
pub(super) fn offered(
    manifest: &RunManifest,
    collector: &ResultCollector,
    span: (Nanos, Nanos),
) -> Option<u64> {
    let rate = manifest.load.rate_profile()?;
    let is_done = |part: &ReceivedPart| {
        let because = part.end.as_ref().map(|end| end.reason);
        part.lost.is_none() && because == Some(EndReason::Done)
    };
    let planned = planned_end(manifest);
    let at = if collector.parts.values().all(is_done) {
        planned
    } else {
        planned.min(span.1)
    };
    if at == Nanos::MAX && manifest.load.requests.is_none() {
        return None;
    }
    let by_worker = arrivals(manifest, at);
    let counted = || by_worker.map(|parts| parts.iter().sum());
    counted().or_else(|| {
        // Too many arrivals to generate them one by one, so their expected number is used.
        let mean = rate.arrivals_until(at.since(warmup(manifest)).as_secs_f64());
        Some((mean as u64).min(manifest.load.requests.unwrap_or(u64::MAX)))
    })
}

/// For a load with a time limit and no limit on requests, returns the end of the measured part, as
/// the time since the start of the load.
pub(super) fn time_limit(manifest: &RunManifest) -> Option<Nanos> {
    let is_counted = manifest.load.requests.is_some();
    Some(planned_end(manifest)).filter(|at| *at != Nanos::MAX && !is_counted)
}

/// Number of requests that each agent must account for in a finished part.
pub(super) struct RequestQuota(QuotaKind);

enum QuotaKind {
    /// Open loop, with the number of requests of each worker.
    Open(Vec<u64>),
    /// Closed loop, with the total number of requests.
    Closed(u64),
    Unknown,
}

impl RequestQuota {
    /// Computes the quota of a run.
    pub(super) fn of(manifest: &RunManifest) -> RequestQuota {
        let load = &manifest.load;
        let is_endless = load.duration_s.is_none() && load.requests.is_none();
        RequestQuota(match (load.is_open(), load.requests) {
            (true, _) if !is_endless => arrivals(manifest, planned_end(manifest))
                .map_or(QuotaKind::Unknown, QuotaKind::Open),
            (false, Some(requests)) if load.duration_s.is_none() => QuotaKind::Closed(requests),
            _ => QuotaKind::Unknown,
        })
    }

    /// Returns the quota of an agent's shard, or `None` if it is unknown or the load is a closed
    /// loop with a time limit.
    pub(super) fn part(&self, shard: AgentShard) -> Option<u64> {
        match &self.0 {
            QuotaKind::Open(by_worker) => {
                let (first, workers) = (shard.first as usize, shard.workers as usize);
                let mine = by_worker.iter().skip(first).take(workers);
                Some(mine.sum())
            }
            QuotaKind::Closed(requests) => Some(shard.part(*requests)),
            QuotaKind::Unknown => None,
        }
    }
}

fn arrivals(manifest: &RunManifest, at: Nanos) -> Option<Vec<u64>> {
    let load = &manifest.load;
    let arrivals = match load.arrivals.as_deref() {
        Some("poisson") => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    let workers = manifest.parts.values().map(|part| part.shard.of).max()?;
    let end = ScheduleEnd {
        requests: load.requests.unwrap_or(u64::MAX),
        counted_from: warmup(manifest),
        at,
    };
    arrivals_by_worker(arrivals, &load.rate_profile()?, manifest.seed, workers, end)
}

/// Returns the end of the measured part, as the time since the start of the load, or `Nanos::MAX`
/// without a time limit.
fn planned_end(manifest: &RunManifest) -> Nanos {
    let duration = manifest.load.duration_s.map(seconds);
    duration.map_or(Nanos::MAX, |duration| duration + warmup(manifest))
}

pub(super) fn warmup(manifest: &RunManifest) -> Nanos {
    seconds(manifest.load.warmup_s)
}

/// Converts seconds to nanoseconds, rounded.
fn seconds(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}
