//! Bodies of the fuzz targets. Each takes arbitrary bytes and panics if an invariant is violated.
//!
//! The tests of `crates/protocol` call the same functions with thousands of random inputs on the
//! stable toolchain.

pub mod drive;
pub mod event_stream;
pub mod grpc;
pub mod h2;
pub mod h3;
pub mod operations;
pub mod request;
pub mod response;
pub mod websocket;
