//! Results of received bytes: the state of the connection, and events on its streams.

use prony_record::{Nanos, Outcome, TlsHandshake};

use super::Reason;
use super::fault::{ResetCode, StreamFault};
use crate::protocols::StreamsLimit;

/// The state of a connection after bytes have arrived or the peer has closed it.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    /// The connection continues. Events may be in the [`SharedBuffers`], and there may be output to
    /// send.
    Open,
    /// The proxy opened the tunnel.
    Tunneled,
    /// The TLS handshake is complete, and the connection is ready.
    Secured(Secured),
    /// The peer closed the connection before any byte of the response arrived or, with HTTP/2,
    /// while requests were in flight.
    Lost,
    /// The connection and all requests in flight on it failed.
    Broken(Outcome, Reason),
    /// Bytes arrived while no request was in flight.
    Unsolicited,
    /// The peer closed the connection while no request was in flight.
    Closed,
}

/// The end of a request on a connection that stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpEvent {
    /// Stream number of the request on the connection.
    pub(crate) stream: u32,
    pub(crate) kind: EventKind,
}

/// Result of a request that finished while its connection stayed open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The response is complete.
    Response {
        outcome: Outcome,
        /// True if neither side closes the connection.
        reusable: bool,
    },
    /// The response of a gRPC call is complete, but the call failed with this status, or without a
    /// status.
    CallFailed { status: Option<u16> },
    /// The peer reset the stream.
    Reset {
        code: ResetCode,
        /// True if the peer did not process the request.
        unprocessed: bool,
    },
    /// The response broke the protocol on this stream only.
    Malformed(StreamFault),
}

/// Result of a completed TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Secured {
    /// Duration of the connect before the handshake.
    pub(crate) connect: Nanos,
    pub(crate) handshake: TlsHandshake,
}

/// Capacity of a connection for another request, or the reason why it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestCapacity {
    /// A request can start now.
    Available,
    /// The peer currently allows no requests at all, because of this limit.
    NoStreamsAllowed(StreamsLimit),
    /// The connection has reached this limit on concurrent requests.
    Full(StreamsLimit),
    /// Too many bytes are waiting to be sent.
    Backpressured,
    /// A request can't start now: the peer's settings have not arrived yet, or the peer is closing
    /// the connection.
    NotNow,
}

/// The received part of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResponseProgress {
    pub(crate) status: Option<u16>,
    pub(crate) first_byte: Option<Nanos>,
    /// HTTP bytes received, including those of the body.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
}
