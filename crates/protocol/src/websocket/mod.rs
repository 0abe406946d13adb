//! WebSocket from the client's side (RFC 6455): the opening handshake over HTTP/1.1, and frames in
//! both directions.
//!
//! ```text
//!  request ─► 101 ─► messages, each of one or more frames ─► close ─► close
//!                    pings and pongs between any two frames
//! ```

mod frame;
mod handshake;
mod utf8;
mod violation;

pub use frame::{Frames, Opcode, SocketEvent, write_frame};
pub use handshake::{Handshake, HandshakeError, accept_source};
pub use violation::Violation;

#[cfg(test)]
mod tests;
