//! Checks that run before anything starts. They cover every variant of a plan, this machine, and
//! the other machines that the plan uses.

mod hosts;
mod machine;
mod placeholders;
mod read;
mod variants;

pub use placeholders::{is_placeholder_path, is_placeholder_port};

pub use hosts::{HostObjection, HostRequirement, ServiceAspect};
