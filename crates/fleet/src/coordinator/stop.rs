//! A request to end a load early.

use std::sync::atomic::{AtomicU8, Ordering};

/// A request to end a load early: soon, with all results of the agents, or at once, with the results that
/// have arrived.
#[derive(Debug, Default)]
pub struct StopRequest(AtomicU8);

const SOON: u8 = 1;
const AT_ONCE: u8 = 2;

impl StopRequest {
    /// No request yet.
    pub const fn new() -> StopRequest {
        StopRequest(AtomicU8::new(0))
    }

    /// Requests to stop the agents' loads and to wait for their results.
    pub fn soon(&self) {
        self.0.fetch_max(SOON, Ordering::Relaxed);
    }

    /// Requests to stop the agents' loads without waiting for results.
    pub fn at_once(&self) {
        self.0.fetch_max(AT_ONCE, Ordering::Relaxed);
    }

    /// Returns true if the load is to end.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= SOON
    }

    /// Returns true if the load is to end without waiting for results.
    pub fn is_wanted_at_once(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= AT_ONCE
    }
}
