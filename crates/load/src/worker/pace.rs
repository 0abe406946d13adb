//! The source of a worker's start times.

use prony_record::{MeasuredPart, Nanos};

use crate::pacing::{ArrivalSchedule, ScheduleEnd};
use crate::shard::Shard;
use crate::spec::{LoadSpec, LoopModel};

/// The source of start times.
pub(super) enum Pace {
    /// A request starts as soon as a slot is free, `left` more times.
    Closed { left: u64 },
    /// Requests are due on a schedule.
    Open(Box<ArrivalSchedule>),
}

/// The source of a worker's start times, and the requests that are measured.
pub(super) fn pace(spec: &LoadSpec, shard: Shard, end: Nanos) -> (Pace, MeasuredPart) {
    match spec.model {
        LoopModel::Closed => {
            let left = spec.limit.map_or(u64::MAX, |limit| shard.items(limit));
            let measured = match spec.limit {
                // Exactly as many requests are measured as were asked for.
                Some(_) => MeasuredPart::DueFrom(spec.warmup),
                None => MeasuredPart::EndedFrom(spec.warmup),
            };
            (Pace::Closed { left }, measured)
        }
        LoopModel::Open {
            rate_per_s,
            arrivals,
        } => {
            let until = ScheduleEnd {
                requests: spec.limit.unwrap_or(u64::MAX),
                counted_from: spec.warmup,
                at: end,
            };
            let schedule = ArrivalSchedule::new(arrivals, rate_per_s, spec.seed, shard, until);
            let measured = MeasuredPart::DueFrom(spec.warmup);
            (Pace::Open(Box::new(schedule)), measured)
        }
    }
}
