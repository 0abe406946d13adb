//! A load under way, as it is seen by those who look at it: one of this process, or one that agents make.

use std::sync::Arc;

use prony_fleet::coordinator::Feed;
use prony_load::{Control, WorkerUtilization};
use prony_record::{Delta, Finding, LoadInfo, Nanos, Record};

/// A load that can be looked at while it runs.
#[derive(Debug, Clone)]
pub(crate) enum UnderWay {
    /// This process makes it.
    Here(Arc<Control>, Box<LoadInfo>),
    /// Agents make it, and tell each second.
    ByAgents(Arc<Feed>),
}

/// All that was recorded so far.
#[derive(Debug)]
pub(crate) struct SoFar {
    /// But for the time series.
    pub(crate) delta: Delta,
    /// How far it reaches since the load's start.
    pub(crate) reaches: Nanos,
    /// Requests under way then.
    pub(crate) in_flight: u64,
}

impl UnderWay {
    /// A load of this process that has not begun. What is to be seen of it is asked for here.
    pub(crate) fn here(control: &Arc<Control>, info: &LoadInfo) -> UnderWay {
        control.watch();
        UnderWay::Here(control.clone(), Box::new(info.clone()))
    }

    /// What it is; of agents as typed, until they have read it.
    pub(crate) fn info(&self) -> LoadInfo {
        match self {
            UnderWay::Here(_, info) => (**info).clone(),
            UnderWay::ByAgents(feed) => feed.load(),
        }
    }

    /// Whether it was told to end.
    pub(crate) fn is_stopped(&self) -> bool {
        match self {
            UnderWay::Here(control, _) => control.is_stopped(),
            UnderWay::ByAgents(feed) => feed.is_stopped(),
        }
    }

    /// Requests that ended, warm-up included.
    pub(crate) fn ended(&self) -> u64 {
        match self {
            UnderWay::Here(control, _) => control.counts().0,
            UnderWay::ByAgents(feed) => feed.ended(),
        }
    }

    /// The moment, since the load's start, up to which all is there that is waited for; zero until the
    /// first of the measured part.
    pub(crate) fn complete_until(&self) -> Nanos {
        match self {
            UnderWay::Here(control, _) => control.complete_until(),
            UnderWay::ByAgents(feed) => feed.complete_until(),
        }
    }

    /// What was recorded since the last call; for one caller.
    pub(crate) fn take(&self) -> Delta {
        match self {
            UnderWay::Here(control, _) => control.take(),
            UnderWay::ByAgents(feed) => feed.take(),
        }
    }

    /// All that was recorded.
    pub(crate) fn so_far(&self) -> SoFar {
        match self {
            UnderWay::Here(control, _) => {
                let delta = control.so_far();
                SoFar {
                    reaches: delta.span.map_or(Nanos::ZERO, |(_, end)| end),
                    in_flight: delta.in_flight(),
                    delta,
                }
            }
            UnderWay::ByAgents(feed) => {
                let all = feed.so_far();
                SoFar {
                    delta: all.delta,
                    reaches: all.reaches,
                    in_flight: all.in_flight,
                }
            }
        }
    }

    /// What each worker of this process did; agents tell that at their end.
    pub(crate) fn utilizations(&self) -> Vec<WorkerUtilization> {
        match self {
            UnderWay::Here(control, _) => control.utilizations(),
            UnderWay::ByAgents(_) => Vec::new(),
        }
    }

    /// What already qualifies the figures.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        match self {
            UnderWay::Here(control, info) => control.findings(info),
            UnderWay::ByAgents(feed) => feed.findings(),
        }
    }

    /// What would be stored if it ended here; none where it has not begun.
    pub(crate) fn record(&self) -> Option<Record> {
        match self {
            UnderWay::Here(control, info) => Some(control.record_so_far(info)),
            UnderWay::ByAgents(feed) => feed.record_so_far(),
        }
    }
}
