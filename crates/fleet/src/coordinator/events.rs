//! Events of a load, for its observer.

use std::sync::Arc;
use std::time::Duration;

use super::feed::Feed;
use super::stop::StopRequest;
use crate::names::AgentName;

/// An event of a load.
#[derive(Debug, Clone, PartialEq)]
pub enum FleetEvent<'a> {
    /// A step was completed.
    Step(&'a str),
    /// Something that the user must see happened.
    Warning(&'a str),
    /// The load has progressed.
    Progress(ProgressUpdate),
}

/// The progress of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// Time since the load's start.
    pub elapsed: Duration,
    /// Requests that ended since the previous update, per second.
    pub ended_per_s: f64,
    /// Requests that ended.
    pub ended: u64,
    /// Failed requests of the measured part.
    pub failed: u64,
    /// Number of agents that still load.
    pub agents: usize,
    /// Loading agents that have sent nothing for more than three seconds.
    pub quiet: Vec<AgentName>,
}

/// The observer of a load, which may also stop it.
#[derive(Clone, Copy)]
pub struct LoadObserver<'a> {
    /// Receives each event.
    pub on_event: &'a dyn Fn(FleetEvent<'_>),
    /// Stops the load; the results so far are its result.
    pub stop: &'a StopRequest,
    /// Receives results as they arrive, if somebody watches.
    pub feed: Option<&'a Arc<Feed>>,
}
