//! Runs experiments: turns a plan into a folder with trials and a verdict.
//!
//! Input: a plan file. Output: the experiment's folder with records, telemetry, findings and
//! estimates. All machines are accessed through the trait [`host::Host`]. This crate writes
//! messages and findings, but leaves the formatting of reports to other crates.

pub mod abort;
pub mod capacity;
pub mod crypto;
pub mod doctor;
pub mod environment;
pub mod host;
pub mod interleaving;
mod interrupt;
pub mod place;
pub mod profile;
pub mod program_output;
pub mod run_state;
pub mod runner;
pub mod schedule;
mod scoped_name;
pub mod sweep;
pub mod system;
pub mod telemetry;
mod undetermined;
