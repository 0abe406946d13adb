//! The engine: runs a load on its threads, and observes it.

pub(crate) mod findings;
pub(crate) mod idle;
pub(crate) mod meter;
pub(crate) mod progress;
pub(crate) mod readiness;
pub(crate) mod reasons;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod scripted;
pub(crate) mod sequence;
pub(crate) mod slices;
pub(crate) mod stall;
pub(crate) mod worker;
