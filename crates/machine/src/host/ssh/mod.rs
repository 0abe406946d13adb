//! Services on other machines over ssh. The machines need a POSIX shell and nothing of prony.
//!
//! ```text
//! prony ── ssh ── session ── services
//!                    └────── keeper
//! ```
//!
//! There is one connection per machine for the whole experiment. It copies files, starts services,
//! looks at their processes, reads the telemetry, and fetches the logs. When it ends for any
//! reason, or when prony falls silent, the keeper on the machine ends all services and removes
//! their files.

mod check;
mod hosts;
mod machine;
mod machines;
mod parse;
mod service;
mod steps;

pub use hosts::SshHosts;
pub use machines::SshMachines;
