//! QUIC (RFC 9000) by quinn-proto, client side: datagrams in, streams out, and the reverse.
//!
//! ```text
//! TlsSettings ─(one per worker)─► QuicClient ─(one per connection)─► QuicConnection
//! from the flags                  sessions, limits                   streams, loss recovery
//! ```
//!
//! quinn-proto is the state machine of one connection: packets, acknowledgments, loss recovery,
//! congestion control and flow control. TLS is rustls ([`session`]). Nothing here uses sockets;
//! time is an argument.

mod client;
mod connection;
mod end;
mod session;

pub(crate) use client::QuicClient;
pub(crate) use connection::{DatagramBatch, QuicConnection, QuicEvent, StreamDirection, StreamEnd};
pub(crate) use end::QuicEnd;
