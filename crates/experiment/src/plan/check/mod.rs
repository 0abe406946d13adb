//! Checks of a whole plan before anything starts: every variant, this machine, and other machines.

mod hosts;
mod machine;
mod placeholders;
mod read;
mod variants;

pub use hosts::{HostObjection, HostRequirement, ServiceAspect};
