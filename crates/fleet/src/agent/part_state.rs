//! The state that the threads of a load's part share, and the signals between them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{Control, RunError, RunResult};

use crate::wire::EndReason;

/// The signal that the load's own thread waits for.
pub(super) enum StartSignal {
    /// Start at this time.
    At(Instant),
    /// Don't start.
    Cancel,
}

/// An event for the thread that writes results.
pub(super) enum PartEvent {
    /// The load starts at this time on the agent's clock.
    Starts(i64),
    /// The load is over.
    Over(Box<Result<RunResult, RunError>>),
}

/// The state that all threads of a part share.
pub(super) struct PartState {
    pub(super) control: Arc<Control>,
    pub(super) start: Sender<StartSignal>,
    pub(super) lease: Duration,
    /// Last contact with the coordinator.
    pub(super) last_contact: Mutex<Instant>,
    /// The reason why the part ends early.
    pub(super) early_end: OnceLock<EndReason>,
    pub(super) is_over: AtomicBool,
}

impl PartState {
    /// Records contact with the coordinator, unless the lease has ended: if this machine slept, the
    /// message may be old.
    pub(super) fn note_coordinator(&self) {
        let mut last_contact = self.lock_last_contact();
        if last_contact.elapsed() <= self.lease {
            *last_contact = Instant::now();
        }
    }

    pub(super) fn is_lease_over(&self) -> bool {
        self.lock_last_contact().elapsed() > self.lease
    }

    pub(super) fn lock_last_contact(&self) -> MutexGuard<'_, Instant> {
        let last_contact = self.last_contact.lock();
        last_contact.unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the load early. The first reason counts.
    pub(super) fn end(&self, reason: EndReason) {
        let _ = self.early_end.set(reason);
        self.control.stop();
        // A load that already runs no longer receives this.
        let _ = self.start.send(StartSignal::Cancel);
    }

    pub(super) fn early_end(&self) -> Option<EndReason> {
        self.early_end.get().copied()
    }

    /// Marks the part as over: its last message is on disk.
    pub(super) fn set_over(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}
