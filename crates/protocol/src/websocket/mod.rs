//! WebSocket from the client's side (RFC 6455): the opening handshake, the parameters of its
//! compression (RFC 7692), and frames in both directions.
//!
//! ```text
//!  request ─► 101 ─► messages, each of one or more frames ─► close ─► close
//!                    pings and pongs between any two frames
//! ```

mod deflate;
mod frame;
mod handshake;
mod utf8;
mod violation;

pub use deflate::{DeflateParameters, WINDOW_BITS_MAX};
pub use frame::{
    Frames, KEY_BYTES, Opcode, SocketEvent, close_code_name, header_bytes, write_frame,
    write_header, write_masked,
};
pub use handshake::{Agreed, Handshake, HandshakeError, HandshakeHeader, Offer, accept_source};
pub use utf8::Utf8Check;
pub use violation::Violation;

#[cfg(test)]
mod tests;
