//! Hardware counters on FreeBSD, which are not supported. They would require hwpmc(4).

use std::io;

use crate::telemetry::HardwareCounters;

pub(crate) use NoCounters as CounterGroup;

/// Hardware counters. No value of this type exists.
#[derive(Debug)]
pub(crate) struct NoCounters(std::convert::Infallible);

impl NoCounters {
    /// Would open counters of one core.
    ///
    /// # Errors
    /// Always fails, because FreeBSD's counters are not supported.
    pub(crate) fn of_core(_core: usize) -> io::Result<Self> {
        Err(absent())
    }

    /// Would open counters of the calling thread and its descendants.
    ///
    /// # Errors
    /// Always fails, because FreeBSD's counters are not supported.
    pub(crate) fn of_descendants() -> io::Result<Self> {
        Err(absent())
    }

    /// Would read the current counts.
    pub(crate) fn read(&mut self) -> HardwareCounters {
        match self.0 {}
    }
}

fn absent() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "hwpmc(4) is not supported")
}
