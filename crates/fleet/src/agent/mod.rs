//! An agent: it connects outward, waits for orders, and does what its policy allows.

pub(crate) mod files;
pub mod spool;
