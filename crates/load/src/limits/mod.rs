//! Limits of the machine that generates the load.

pub(crate) mod control_group;
pub(crate) mod cpu_quota;
pub(crate) mod open_files;
pub(crate) mod ports;
