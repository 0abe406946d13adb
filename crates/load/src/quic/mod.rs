//! The client side of QUIC (RFC 9000), implemented by quinn-proto. This module converts between
//! datagrams and streams.
//!
//! ```text
//! TlsSettings ─(one per worker)─► QuicClient ─(one per connection)─► QuicConnection
//! from the flags                  sessions, limits                   streams, loss recovery
//! ```
//!
//! quinn-proto is the state machine of one connection: packets, acknowledgments, loss recovery,
//! congestion control and flow control. TLS is rustls ([`session`]). Only [`version_probe`], which
//! chooses among a host's addresses before a load, uses a socket; elsewhere time is an argument.

mod client;
mod connection;
mod end;
mod packets;
mod session;
mod version_probe;

pub(crate) use client::QuicClient;
pub(crate) use connection::{
    DatagramBatch, EarlyData, QuicConnection, QuicEvent, StreamDirection, StreamEnd,
};
pub(crate) use end::QuicEnd;
pub(crate) use version_probe::has_server;
