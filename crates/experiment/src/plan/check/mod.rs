//! Checks of a whole plan before anything starts, for every variant, this machine, and other
//! machines.

mod hosts;
mod machine;
mod placeholders;
mod read;
mod variants;

pub(crate) use placeholders::{is_placeholder_path, is_placeholder_port};

pub use hosts::{HostObjection, HostRequirement, ServiceAspect};
