//! Request to end a load early.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use prony_record::LoadAbort;

/// Request to end a load early. The load ends either soon, with all results of the agents, or
/// immediately, with the results that have arrived.
#[derive(Debug, Default)]
pub struct StopRequest {
    /// The most urgent [`StopLevel`] that was requested.
    level: AtomicU8,
    /// The condition that caused the request, if any.
    abort: OnceLock<LoadAbort>,
}

/// Urgency of a request, from the lowest.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum StopLevel {
    NotRequested,
    Soon,
    AtOnce,
}

impl StopRequest {
    /// Creates the initial state, in which no stop is requested.
    pub const fn new() -> StopRequest {
        StopRequest {
            level: AtomicU8::new(StopLevel::NotRequested as u8),
            abort: OnceLock::new(),
        }
    }

    /// Requests that the agents' loads stop and that the coordinator waits for their results.
    pub fn soon(&self) {
        self.raise(StopLevel::Soon);
    }

    /// Like [`Self::soon`], with the condition that caused the request.
    pub fn abort(&self, abort: LoadAbort) {
        // This can't fail: each load has a single watcher, which requests an end at most once.
        let _ = self.abort.set(abort);
        self.soon();
    }

    /// Returns the condition that caused the request, if any.
    pub fn aborted(&self) -> Option<&LoadAbort> {
        self.abort.get()
    }

    /// Requests that the agents' loads stop, without waiting for their results.
    pub fn at_once(&self) {
        self.raise(StopLevel::AtOnce);
    }

    /// Returns true if the user or a condition requested that the load stop.
    pub fn is_wanted(&self) -> bool {
        self.has_reached(StopLevel::Soon)
    }

    /// Returns true if the load must stop without waiting for results.
    pub fn is_wanted_at_once(&self) -> bool {
        self.has_reached(StopLevel::AtOnce)
    }

    fn raise(&self, level: StopLevel) {
        self.level.fetch_max(level as u8, Ordering::Relaxed);
    }

    fn has_reached(&self, level: StopLevel) -> bool {
        self.level.load(Ordering::Relaxed) >= level as u8
    }
}
