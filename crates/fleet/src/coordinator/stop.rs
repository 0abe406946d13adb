//! A request to end a load early.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use prony_record::LoadAbort;

/// A request to end a load early: soon, with all results of the agents, or at once, with the results that
/// have arrived.
#[derive(Debug, Default)]
pub struct StopRequest {
    level: AtomicU8,
    /// The condition that requested the end.
    abort: OnceLock<LoadAbort>,
}

const SOON: u8 = 1;
const AT_ONCE: u8 = 2;

impl StopRequest {
    /// No request yet.
    pub const fn new() -> StopRequest {
        StopRequest {
            level: AtomicU8::new(0),
            abort: OnceLock::new(),
        }
    }

    /// Requests to stop the agents' loads and to wait for their results.
    pub fn soon(&self) {
        self.level.fetch_max(SOON, Ordering::Relaxed);
    }

    /// Requests to stop the agents' loads because a condition holds, and to wait for their results.
    pub fn abort(&self, abort: LoadAbort) {
        // Each load has a single watcher, which requests an end at most once.
        let _ = self.abort.set(abort);
        self.soon();
    }

    /// The condition that requested the end, if one did.
    pub fn aborted(&self) -> Option<&LoadAbort> {
        self.abort.get()
    }

    /// Requests to stop the agents' loads without waiting for results.
    pub fn at_once(&self) {
        self.level.fetch_max(AT_ONCE, Ordering::Relaxed);
    }

    /// Returns true if the load is to end.
    pub fn is_wanted(&self) -> bool {
        self.level.load(Ordering::Relaxed) >= SOON
    }

    /// Returns true if the load is to end without waiting for results.
    pub fn is_wanted_at_once(&self) -> bool {
        self.level.load(Ordering::Relaxed) >= AT_ONCE
    }
}
