//! The processor's counters: on FreeBSD they would be hwpmc(4)'s, which prony does not read.

use std::io;

use crate::telemetry::HardwareCounters;

/// Counters of one core or one family of processes.
#[derive(Debug)]
pub(crate) struct Group(std::convert::Infallible);

impl Group {
    /// Counters of one core.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn of_core(_core: usize) -> io::Result<Self> {
        Err(absent())
    }

    /// Counters of the calling thread and what it starts.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn of_descendants() -> io::Result<Self> {
        Err(absent())
    }

    /// What was counted until now.
    pub(crate) fn read(&mut self) -> HardwareCounters {
        match self.0 {}
    }
}

fn absent() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "hwpmc(4) is not read")
}
