//! An agent's state, for those who look at it from another thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prony_load::Control;
use prony_record::LoadInfo;

use crate::messages::Reservation;
use crate::names::RunId;

/// A load that runs, or ran last.
#[derive(Debug, Clone)]
pub struct StatusLoad {
    /// What it is.
    pub info: LoadInfo,
    /// What it has done so far.
    pub control: Arc<Control>,
    /// Whether it is over.
    pub is_over: bool,
}

/// An agent's state at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Whether the connection to the NATS server stands.
    pub connected: bool,
    /// The run that the agent is part of.
    pub busy_with: Option<RunId>,
    /// The experiment that has reserved it.
    pub reserved: Option<Reservation>,
    /// Messages with results that the server has not stored yet.
    pub unsent: usize,
    /// Parts of loads since the agent was started.
    pub loads: u64,
    /// The last of them.
    pub load: Option<StatusLoad>,
}

/// The agent's loop writes it several times a second.
#[derive(Debug, Clone, Default)]
pub struct Status(Arc<Mutex<Snapshot>>);

impl Status {
    /// The state now.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
