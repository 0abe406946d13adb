//! The wish to end a load before its time.

use std::sync::atomic::{AtomicU8, Ordering};

/// Whether a load is to end: soon, with all that agents measured, or at once, with what is there.
#[derive(Debug, Default)]
pub struct Stop(AtomicU8);

const SOON: u8 = 1;
const AT_ONCE: u8 = 2;

impl Stop {
    /// Nobody wants it to end yet.
    pub const fn new() -> Stop {
        Stop(AtomicU8::new(0))
    }

    /// Ends the load at the agents, and then waits for what they measured.
    pub fn soon(&self) {
        self.0.fetch_max(SOON, Ordering::Relaxed);
    }

    /// The same, and waits for nobody.
    pub fn at_once(&self) {
        self.0.fetch_max(AT_ONCE, Ordering::Relaxed);
    }

    /// Whether it is to end.
    pub fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= SOON
    }

    /// Whether nobody is to be waited for.
    pub fn is_wanted_at_once(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= AT_ONCE
    }
}
