//! State that the threads of a part share, and the messages between these threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{Control, RunError, RunResult};

use crate::wire::EndReason;

/// Signal to the thread that runs the load.
pub(super) enum StartSignal {
    /// Start at this time.
    At(Instant),
    /// Don't start.
    Cancel,
}

/// Event for the thread that writes results.
pub(super) enum PartEvent {
    /// The load starts at this time on the agent's clock, in nanoseconds.
    Starts(i64),
    /// The load is over.
    Over(Box<Result<RunResult, RunError>>),
}

/// State that all threads of a part share.
pub(super) struct PartState {
    pub(super) control: Arc<Control>,
    pub(super) start: Sender<StartSignal>,
    pub(super) lease: Duration,
    /// Time of the last contact with the coordinator.
    pub(super) last_contact: Mutex<Instant>,
    /// Reason for an early end of the part.
    pub(super) early_end: OnceLock<EndReason>,
    pub(super) is_over: AtomicBool,
}

impl PartState {
    /// Records contact with the coordinator, unless the lease has already expired. In that case the
    /// message may be old, because this machine may have been suspended.
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

    /// Ends the load early. Of several calls, only the first one's reason is kept.
    pub(super) fn end(&self, reason: EndReason) {
        let _ = self.early_end.set(reason);
        self.control.stop();
        // Sending fails if the load is already running.
        let _ = self.start.send(StartSignal::Cancel);
    }

    pub(super) fn early_end(&self) -> Option<EndReason> {
        self.early_end.get().copied()
    }

    /// Marks the part as over, after its last message has been written to disk.
    pub(super) fn set_over(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}
