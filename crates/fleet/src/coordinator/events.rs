//! Events of a load, for observers.

use std::sync::Arc;
use std::time::Duration;

use super::feed::Feed;
use super::stop::StopRequest;
use crate::names::AgentName;

/// An event of a load.
#[derive(Debug, Clone, PartialEq)]
pub enum FleetEvent<'a> {
    /// A step was completed; the text describes it.
    Step(&'a str),
    /// A warning that must be shown to the user.
    Warning(&'a str),
    /// Periodic progress update.
    Progress(ProgressUpdate),
}

/// The progress of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressUpdate {
    /// Time since the start of the load.
    pub elapsed: Duration,
    /// Time since the previous update, which `ok_per_s` covers.
    pub span: Duration,
    /// Successful requests per second of the measured part since the previous update.
    pub ok_per_s: f64,
    /// Number of failed requests in the measured part.
    pub failed: u64,
    /// Number of agents that are still generating load.
    pub agents: usize,
    /// Agents that are still generating load, but have been silent for more than three seconds.
    pub quiet: Vec<AgentName>,
}

/// Observer of a load, which can also stop it.
#[derive(Clone, Copy)]
pub struct LoadObserver<'a> {
    /// Function that is called for each event.
    pub on_event: &'a dyn Fn(FleetEvent<'_>),
    /// Request to stop the load. The record then contains the results so far.
    pub stop: &'a StopRequest,
    /// Destination of results as they arrive, if there is a viewer.
    pub feed: Option<&'a Arc<Feed>>,
}
