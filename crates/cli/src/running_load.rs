//! A load in progress, as the live view and the metrics see it. It runs in this process or on
//! agents.

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
    /// The load runs on agents, which report every second.
    ByAgents(Arc<Feed>),
}

/// A snapshot of the results so far.
#[derive(Debug)]
pub(crate) struct LoadSnapshot {
    /// All results except the time series.
    pub(crate) delta: Delta,
    /// Time since the start of the load up to which the results are complete.
    pub(crate) reaches: Nanos,
    /// Number of requests in flight at the time `reaches`.
    pub(crate) in_flight: u64,
}

impl RunningLoad {
    /// Creates the view of a load that is about to start in this process.
    pub(crate) fn here(control: &Arc<Control>, info: &LoadInfo) -> RunningLoad {
        RunningLoad::Here(control.clone(), Box::new(info.clone()))
    }

    /// Makes the workers of the load publish interim results. Must be called before the load
    /// starts, by everything that reads them. Agents always send theirs.
    pub(crate) fn publish(&self) {
        if let RunningLoad::Here(control, _) = self {
            control.watch();
        }
    }

    /// Makes [`RunningLoad::so_far`] include the time series. Must be called before the load starts.
    pub(crate) fn keep_series(&self) {
        match self {
            RunningLoad::Here(control, _) => control.keep_series(),
            RunningLoad::ByAgents(feed) => feed.keep_series(),
        }
    }

    /// Returns the settings of the load. For a load on agents, they are the unresolved settings
    /// from the command line until an agent reports the resolved ones.
    pub(crate) fn info(&self) -> LoadInfo {
        match self {
            RunningLoad::Here(_, info) => (**info).clone(),
            RunningLoad::ByAgents(feed) => feed.load(),
        }
    }

    /// Returns true if the load was asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        match self {
            RunningLoad::Here(control, _) => control.is_stopped(),
            RunningLoad::ByAgents(feed) => feed.is_stopped(),
        }
    }

    /// Returns the number of requests that finished, including the warm-up.
    pub(crate) fn ended(&self) -> u64 {
        match self {
            RunningLoad::Here(control, _) => control.counts().0,
            RunningLoad::ByAgents(feed) => feed.ended(),
        }
    }

    /// Returns the time since the start of the load up to which the results are complete; zero
    /// before the first results of the measured part.
    pub(crate) fn complete_until(&self) -> Nanos {
        match self {
            RunningLoad::Here(control, _) => control.complete_until(),
            RunningLoad::ByAgents(feed) => feed.complete_until(),
        }
    }

    /// Returns the results since the previous call. Only one caller may use this method.
    pub(crate) fn take(&self) -> Delta {
        match self {
            RunningLoad::Here(control, _) => control.take(),
            RunningLoad::ByAgents(feed) => feed.take(),
        }
    }

    /// Returns all results so far.
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

    /// Returns the utilization of each worker in this process. Agents report theirs only at the end
    /// of the load.
    pub(crate) fn utilizations(&self) -> Vec<WorkerUtilization> {
        match self {
            RunningLoad::Here(control, _) => control.utilizations(),
            RunningLoad::ByAgents(_) => Vec::new(),
        }
    }

    /// Returns the findings that qualify the results so far.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        match self {
            RunningLoad::Here(control, info) => control.findings(info),
            RunningLoad::ByAgents(feed) => feed.findings(),
        }
    }

    /// Returns the record that the load would have if it ended now, or `None` if the load has not
    /// started.
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
