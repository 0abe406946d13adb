//! Hardware counters on FreeBSD, which are not supported. They would require hwpmc(4).

use std::io;

use crate::telemetry::HardwareCounters;

pub(crate) use NoCounters as CounterGroup;

/// Hardware counters. This type has no values.
#[derive(Debug)]
pub(crate) struct NoCounters(std::convert::Infallible);

impl NoCounters {
    /// Opens counters of one core.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn of_core(_core: usize) -> io::Result<Self> {
        Err(absent())
    }

    /// Opens counters of the calling thread and its descendants.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn of_descendants() -> io::Result<Self> {
        Err(absent())
    }

    /// Reads the counts so far.
    pub(crate) fn read(&mut self) -> HardwareCounters {
        match self.0 {}
    }
}

fn absent() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "hwpmc(4) is not read")
}
