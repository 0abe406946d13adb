//! A plan in, a folder of trials and a verdict out.
//!
//! Enters: a plan file. Leaves: records, telemetry, findings and the estimates made from them, as
//! the experiment folder. It reaches machines through one trait, [`host::Host`], and never formats
//! anything for people to read.

#[cfg(target_os = "linux")]
pub mod crypto;
pub mod doctor;
pub mod environment;
pub mod host;
pub mod place;
pub mod plan;
#[cfg(target_os = "linux")]
mod program_output;
pub mod runner;
pub mod schedule;
pub mod service;
pub mod sweep;
pub mod telemetry;
mod undetermined;
pub mod why;
