//! Sources of a worker's start times: closed loop or schedule.

use prony_record::{MeasuredPart, Nanos};

use crate::engine::replay::ReplayFeed;
use crate::spec::{LoadSpec, LoopModel};
use crate::values::pacing::{ArrivalSchedule, ScheduleEnd};
use crate::values::shard::Shard;

/// A source of start times: a closed loop or a schedule.
pub(super) enum Pace<'run> {
    /// A request starts as soon as a slot is free, up to `left` more times.
    Closed { left: u64 },
    /// A request starts as soon as no other is in flight, up to `left` more times.
    OneAtATime { left: u64 },
    /// Requests are due on a schedule.
    Open(Box<ArrivalSchedule>),
    /// Requests come from a log.
    Recorded(Box<ReplayFeed<'run>>),
}

impl Pace<'_> {
    /// Returns true if requests are due at times that don't depend on the server.
    #[inline]
    pub(super) fn is_scheduled(&self) -> bool {
        match self {
            Pace::Closed { .. } | Pace::OneAtATime { .. } => false,
            Pace::Open(_) => true,
            Pace::Recorded(feed) => feed.is_scheduled(),
        }
    }
}

/// Course of a load: either without interruption, or in slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadCourse {
    Whole,
    Slices,
}

/// Returns the source of a worker's start times until `end`, and the rule that selects the measured
/// requests.
pub(super) fn pace(
    spec: &LoadSpec,
    shard: Shard,
    end: Nanos,
    course: LoadCourse,
) -> (Pace<'static>, MeasuredPart) {
    if spec.replay.is_some() {
        // The worker gets the feed later; until then, nothing is due.
        return (
            Pace::Closed { left: 0 },
            MeasuredPart::DueFrom(spec.span.warmup),
        );
    }
    match &spec.model {
        LoopModel::Closed | LoopModel::Recorded => {
            let left = spec
                .span
                .requests
                .map_or(u64::MAX, |limit| shard.items(limit));
            let measured = match (spec.span.requests, course) {
                // The load must measure exactly the requested number of requests.
                (Some(_), _) => MeasuredPart::DueFrom(spec.span.warmup),
                // Requests that start in a slice may end after the slice.
                (None, LoadCourse::Slices) => MeasuredPart::DueFrom(spec.span.warmup),
                (None, LoadCourse::Whole) => MeasuredPart::EndedFrom(spec.span.warmup),
            };
            (closed(spec, left), measured)
        }
        LoopModel::Open { rate, arrivals } => {
            let until = ScheduleEnd {
                requests: spec.span.requests.unwrap_or(u64::MAX),
                counted_from: spec.span.warmup,
                at: end,
            };
            let schedule = ArrivalSchedule::new(*arrivals, rate, spec.seed, shard, until);
            let measured = MeasuredPart::DueFrom(spec.span.warmup);
            (Pace::Open(Box::new(schedule)), measured)
        }
    }
}

fn closed<'run>(spec: &LoadSpec, left: u64) -> Pace<'run> {
    match spec.fan_out {
        Some(_) => Pace::OneAtATime { left },
        None => Pace::Closed { left },
    }
}

/// Returns the source of a worker's start times for a settling part that begins at `begin`. In an
/// open loop, the settling part has a separate schedule, so that every arrival of the load's
/// schedule is counted.
pub(super) fn settling_pace(spec: &LoadSpec, shard: Shard, begin: Nanos) -> Pace<'static> {
    match &spec.model {
        LoopModel::Closed | LoopModel::Recorded => closed(spec, u64::MAX),
        LoopModel::Open { rate, arrivals } => {
            let until = ScheduleEnd {
                requests: u64::MAX,
                counted_from: Nanos::ZERO,
                at: Nanos::MAX,
            };
            let seed = spec.seed ^ begin.0;
            let schedule = ArrivalSchedule::new(*arrivals, rate, seed, shard, until);
            Pace::Open(Box::new(schedule.beginning_at(begin)))
        }
    }
}
