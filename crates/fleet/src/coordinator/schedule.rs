//! The requests that a run's own order asks of each agent, computed here and not taken from the agents.

use prony_load::{Arrivals, End, arrivals_by_worker};
use prony_record::Nanos;

use super::gathering::{Gathering, Part};
use crate::division::Stretch;
use crate::messages::{Because, Manifest};

/// Requests due in the measured part of an open loop that took place; of a load that did not come to
/// its end everywhere, those due until the end of `span`. None for a closed loop.
pub(super) fn offered(
    manifest: &Manifest,
    gathering: &Gathering,
    span: (Nanos, Nanos),
) -> Option<u64> {
    let rate_per_s = manifest.load.rate_per_s?;
    let is_done = |part: &Part| {
        let because = part.end.as_ref().map(|end| end.because);
        part.lost.is_none() && because == Some(Because::Done)
    };
    let planned = planned_end(manifest);
    let at = match gathering.parts.values().all(is_done) {
        true => planned,
        false => planned.min(span.1),
    };
    if at == Nanos::MAX && manifest.load.requests.is_none() {
        return None;
    }
    let by_worker = arrivals(manifest, at);
    let counted = || by_worker.map(|parts| parts.iter().sum());
    counted().or_else(|| {
        // Too many to be drawn one by one.
        let mean = rate_per_s * at.since(warmup(manifest)).as_secs_f64();
        Some((mean as u64).min(manifest.load.requests.unwrap_or(u64::MAX)))
    })
}

/// The end of the measured part, since the load's start, where nothing but time ends the load.
pub(super) fn time_limit(manifest: &Manifest) -> Option<Nanos> {
    let is_counted = manifest.load.requests.is_some();
    Some(planned_end(manifest)).filter(|at| *at != Nanos::MAX && !is_counted)
}

/// Requests that each agent has to account for if its part comes to its end; none where time alone
/// ends a closed loop, or where it can't be told.
pub(super) struct Quota(Kind);

enum Kind {
    /// Of each worker.
    Open(Vec<u64>),
    /// Of all workers.
    Closed(u64),
    Unknown,
}

impl Quota {
    /// The quota of a run's order.
    pub(super) fn of(manifest: &Manifest) -> Quota {
        let load = &manifest.load;
        let is_endless = load.duration_s.is_none() && load.requests.is_none();
        Quota(match (load.rate_per_s, load.requests) {
            (Some(_), _) if !is_endless => {
                arrivals(manifest, planned_end(manifest)).map_or(Kind::Unknown, Kind::Open)
            }
            (None, Some(requests)) if load.duration_s.is_none() => Kind::Closed(requests),
            _ => Kind::Unknown,
        })
    }

    /// That of an agent with these workers.
    pub(super) fn part(&self, stretch: Stretch) -> Option<u64> {
        match &self.0 {
            Kind::Open(by_worker) => {
                let (first, workers) = (stretch.first as usize, stretch.workers as usize);
                let mine = by_worker.iter().skip(first).take(workers);
                Some(mine.sum())
            }
            Kind::Closed(requests) => Some(stretch.part(*requests)),
            Kind::Unknown => None,
        }
    }
}

fn arrivals(manifest: &Manifest, at: Nanos) -> Option<Vec<u64>> {
    let load = &manifest.load;
    let arrivals = match load.arrivals.as_deref() {
        Some("poisson") => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    let workers = manifest.parts.values().map(|part| part.stretch.of).max()?;
    let end = End {
        requests: load.requests.unwrap_or(u64::MAX),
        counted_from: warmup(manifest),
        at,
    };
    arrivals_by_worker(arrivals, load.rate_per_s?, manifest.seed, workers, end)
}

/// The end of the measured part, since the load's start; never where a count of requests ends it.
fn planned_end(manifest: &Manifest) -> Nanos {
    let duration = manifest.load.duration_s.map(seconds);
    duration.map_or(Nanos::MAX, |duration| duration + warmup(manifest))
}

fn warmup(manifest: &Manifest) -> Nanos {
    seconds(manifest.load.warmup_s)
}

/// The same number of nanoseconds that was written as seconds.
fn seconds(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}
