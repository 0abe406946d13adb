//! WebSockets (RFC 6455): a message is sent, and the next message from the server is its response.
//!
//! [`Socket`] is an open WebSocket: frames, messages and the closing handshake. It is opened on a
//! connection of its own ([`WebSocket`]), or on a stream of HTTP/2 ([`Http2Sockets`]).

mod deflate;
mod http1;
mod http2;
mod socket;

pub(crate) use http1::WebSocket;
pub(crate) use http2::Http2Sockets;
