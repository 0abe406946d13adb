//! The two clocks of the bypass backend: the load's clock and the TCP stack's clock.

use std::time::Instant;

use prony_record::Nanos;

/// Converts between the load's clock and the stack's clock. The stack's clock starts when the
/// backend is created, and never goes back. Both clocks are in nanoseconds.
pub(super) struct BackendClock {
    created: Instant,
    /// Reading of the load's clock when the stack's clock is at zero.
    offset: i64,
    /// The stack's time at the last call to [`BackendClock::read`].
    cached: u64,
}

impl BackendClock {
    pub(super) fn new() -> BackendClock {
        BackendClock {
            created: Instant::now(),
            offset: 0,
            cached: 0,
        }
    }

    /// Returns the instant at which the stack's clock is at zero.
    pub(super) fn created(&self) -> &Instant {
        &self.created
    }

    pub(super) fn stack_now(&self) -> u64 {
        self.created.elapsed().as_nanos() as u64
    }

    /// Reads the stack's clock and caches the time.
    pub(super) fn read(&mut self) -> u64 {
        self.cached = self.stack_now();
        self.cached
    }

    /// Returns the stack's time without reading the clock.
    pub(super) fn cached(&self) -> u64 {
        self.cached
    }

    pub(super) fn load_time(&self, stack_time: u64) -> Nanos {
        Nanos((stack_time as i64).saturating_add(self.offset).max(0) as u64)
    }

    pub(super) fn stack_time(&self, load_time: Nanos) -> u64 {
        let time = i64::try_from(load_time.0).unwrap_or(i64::MAX);
        time.saturating_sub(self.offset).max(0) as u64
    }

    /// Sets the instant at which the load's clock is at zero.
    pub(super) fn start(&mut self, epoch: Instant) {
        self.offset = match self.created.checked_duration_since(epoch) {
            Some(before) => before.as_nanos() as i64,
            None => -(epoch.duration_since(self.created).as_nanos() as i64),
        };
    }
}
