//! Status of an agent, shared with other threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prony_load::Control;
use prony_record::LoadInfo;

use crate::names::RunId;
use crate::wire::Reservation;

/// The current or last load of an agent.
#[derive(Debug, Clone)]
pub struct LoadStatus {
    /// Description of the load.
    pub info: LoadInfo,
    /// Live counts of the load.
    pub control: Arc<Control>,
    /// True if the load is over.
    pub is_over: bool,
}

/// Status of an agent at one point in time.
#[derive(Debug, Clone, Default)]
pub struct AgentSnapshot {
    /// True if the agent is connected to the NATS server.
    pub connected: bool,
    /// The run that the agent takes part in.
    pub busy_with: Option<RunId>,
    /// The experiment that has reserved the agent.
    pub reserved: Option<Reservation>,
    /// Number of result messages that the server has not stored yet.
    pub unsent: usize,
    /// Number of loads since the agent started.
    pub loads: u64,
    /// The current or last load.
    pub load: Option<LoadStatus>,
}

/// Status of an agent. The agent updates it several times per second.
#[derive(Debug, Clone, Default)]
pub struct AgentStatus(Arc<Mutex<AgentSnapshot>>);

impl AgentStatus {
    /// Returns the current status.
    pub fn snapshot(&self) -> AgentSnapshot {
        self.lock().clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut AgentSnapshot)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, AgentSnapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
