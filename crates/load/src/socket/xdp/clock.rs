//! Clocks of the bypass backend: the load's and the TCP stack's.

use std::time::Instant;

use prony_record::Nanos;

/// Converts between the load's clock and the stack's clock, which starts with the backend and never
/// goes back. Both are in nanoseconds.
pub(super) struct BackendClock {
    created: Instant,
    /// Time of the load's clock at zero of the stack's clock.
    offset: i64,
    /// The stack's time at the last call of [`BackendClock::read`].
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

    /// Returns the instant at zero of the stack's clock.
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

    /// Sets zero of the load's clock.
    pub(super) fn start(&mut self, epoch: Instant) {
        self.offset = match self.created.checked_duration_since(epoch) {
            Some(before) => before.as_nanos() as i64,
            None => -(epoch.duration_since(self.created).as_nanos() as i64),
        };
    }
}
