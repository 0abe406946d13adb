//! A load in progress, as observers see it: made by this process or by agents.

use std::sync::Arc;

use prony_experiment::abort::AbortableLoad;
use prony_fleet::coordinator::Feed;
use prony_load::{Control, WorkerUtilization};
use prony_record::{Delta, Finding, LoadInfo, Nanos, Record};

/// A load that can be observed while it runs.
#[derive(Debug, Clone)]
pub(crate) enum RunningLoad {
    /// The load runs in this process.
    Here(Arc<Control>, Box<LoadInfo>),
    /// Agents make the load, and report each second.
    ByAgents(Arc<Feed>),
}

/// All results so far.
#[derive(Debug)]
pub(crate) struct LoadSnapshot {
    /// All results except the time series.
    pub(crate) delta: Delta,
    /// The end of the results, since the load's start.
    pub(crate) reaches: Nanos,
    /// Requests in flight at that time.
    pub(crate) in_flight: u64,
}

impl RunningLoad {
    /// A load in this process before its start. Its workers will publish their figures.
    pub(crate) fn here(control: &Arc<Control>, info: &LoadInfo) -> RunningLoad {
        control.watch();
        RunningLoad::Here(control.clone(), Box::new(info.clone()))
    }

    /// The settings of the load. For agents, they are as typed until an agent has resolved them.
    pub(crate) fn info(&self) -> LoadInfo {
        match self {
            RunningLoad::Here(_, info) => (**info).clone(),
            RunningLoad::ByAgents(feed) => feed.load(),
        }
    }

    /// True if the load was asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        match self {
            RunningLoad::Here(control, _) => control.is_stopped(),
            RunningLoad::ByAgents(feed) => feed.is_stopped(),
        }
    }

    /// Requests that ended, including the warm-up.
    pub(crate) fn ended(&self) -> u64 {
        match self {
            RunningLoad::Here(control, _) => control.counts().0,
            RunningLoad::ByAgents(feed) => feed.ended(),
        }
    }

    /// The time since the load's start up to which the results are complete; zero before the first
    /// results of the measured part.
    pub(crate) fn complete_until(&self) -> Nanos {
        match self {
            RunningLoad::Here(control, _) => control.complete_until(),
            RunningLoad::ByAgents(feed) => feed.complete_until(),
        }
    }

    /// The results since the last call. Only one caller may use this method.
    pub(crate) fn take(&self) -> Delta {
        match self {
            RunningLoad::Here(control, _) => control.take(),
            RunningLoad::ByAgents(feed) => feed.take(),
        }
    }

    /// All results so far.
    pub(crate) fn so_far(&self) -> LoadSnapshot {
        match self {
            RunningLoad::Here(control, _) => {
                let delta = control.so_far();
                LoadSnapshot {
                    reaches: delta.span.map_or(Nanos::ZERO, |(_, end)| end),
                    in_flight: delta.in_flight(),
                    delta,
                }
            }
            RunningLoad::ByAgents(feed) => {
                let all = feed.so_far();
                LoadSnapshot {
                    delta: all.delta,
                    reaches: all.reaches,
                    in_flight: all.in_flight,
                }
            }
        }
    }

    /// The utilization of each worker of this process. Agents report theirs only at the end.
    pub(crate) fn utilizations(&self) -> Vec<WorkerUtilization> {
        match self {
            RunningLoad::Here(control, _) => control.utilizations(),
            RunningLoad::ByAgents(_) => Vec::new(),
        }
    }

    /// Findings that qualify the figures so far.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        match self {
            RunningLoad::Here(control, info) => control.findings(info),
            RunningLoad::ByAgents(feed) => feed.findings(),
        }
    }

    /// The record as if the load ended now. `None` before its start.
    pub(crate) fn record(&self) -> Option<Record> {
        match self {
            RunningLoad::Here(control, info) => Some(control.record_so_far(info)),
            RunningLoad::ByAgents(feed) => feed.record_so_far(),
        }
    }
}

impl AbortableLoad for RunningLoad {
    fn info(&self) -> LoadInfo {
        RunningLoad::info(self)
    }

    fn keep_recent(&self, length: Nanos) {
        match self {
            RunningLoad::Here(control, _) => control.keep_recent(length),
            RunningLoad::ByAgents(feed) => feed.keep_recent(length),
        }
    }

    fn complete_until(&self) -> Nanos {
        RunningLoad::complete_until(self)
    }

    fn recent(&self, until: Nanos) -> Option<Delta> {
        match self {
            RunningLoad::Here(control, _) => control.recent(until),
            RunningLoad::ByAgents(feed) => feed.recent(until),
        }
    }

    fn is_stopped(&self) -> bool {
        RunningLoad::is_stopped(self)
    }
}
