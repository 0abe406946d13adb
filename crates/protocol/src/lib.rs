//! HTTP as a state machine: bytes and events, without I/O.
//!
//! Input: the requests, which are encoded once before the run, and the bytes that a peer sent, in
//! pieces of any size. Output: events (a head, part of the body, the end), violations, and the
//! bytes to send.
//!
//! Invariants of this crate:
//!
//! - It uses no clock, socket, thread or async type. Nothing waits or sends.
//! - The caller owns the buffers; bodies are returned as slices of the input.
//! - The result doesn't depend on how the input was split: the same bytes give the same events,
//!   except that a body may be divided into different pieces.
//! - After a violation by the peer, each call returns the same violation until the next exchange is
//!   started. No input causes a panic, an endless loop, or memory use beyond the limits.
//! - An exchange in the steady state allocates nothing.
//!
//! Each version of HTTP has its own module: [`h1`], [`h2`] and [`h3`]. All encode requests from
//! [`h1::RequestSpec`], and share the syntax of fields in `field` (RFC 9110 §5). HTTP/2 and HTTP/3
//! also share `compression` (the common parts of HPACK and QPACK), `request_fields` and
//! `field_pattern` (the fields of requests), and `response_stage` (the structure of a response).

mod buffer;
mod compression;
mod decimal;
pub mod event_stream;
mod field;
mod field_pattern;
pub mod grpc;
pub mod h1;
pub mod h2;
pub mod h3;
mod request_fields;
mod response_stage;
pub mod websocket;

pub use compression::CallMessageId;
pub use decimal::write_decimal;
pub use field::is_value;
pub use response_stage::GrpcCall;
