//! Bodies of the fuzz targets: each takes arbitrary bytes and panics if an invariant is violated.
//!
//! They are ordinary functions, so that `crates/protocol/tests` runs them too, with thousands of
//! seeds, on the stable toolchain.

pub mod drive;
pub mod h2;
pub mod h3;
pub mod operations;
pub mod request;
pub mod response;
