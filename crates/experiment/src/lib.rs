//! Runs experiments: turns a plan into a folder with trials and a verdict.
//!
//! Input: a plan, and machines through the trait [`Host`](prony_machine::host::Host). Output: the
//! experiment's folder with records, telemetry, findings and estimates, and events while it runs.
//! The crate never reads the operating system itself, and it composes no sentences except those of
//! its errors.

pub mod abort;
pub mod capacity;
pub mod interleaving;
mod interrupt;
pub mod runner;
pub mod schedule;
