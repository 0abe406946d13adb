//! Reports of a carrier: the state of the connection, and events of its exchanges.

use prony_protocol::CallMessageId;
use prony_record::{CallFailure, Nanos, Outcome, TlsHandshake};

use super::Reason;
use super::fault::{ResetCode, SocketFault, StreamFault};
use crate::exchange::{EventCounts, StreamFailure};
use crate::request::protocols::StreamsLimit;

/// The state of a connection after bytes have arrived or the peer has closed it.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    /// The connection continues. Events may be in the [`SharedBuffers`](super::SharedBuffers), and there may be output to
    /// send.
    Open,
    /// The proxy opened the tunnel.
    Tunneled,
    /// The TLS handshake is complete, and the connection is ready.
    Secured(Secured),
    /// The handshake of a connection with early data is complete. There may be more events.
    EarlyDataEnded {
        /// The completed handshake.
        secured: Secured,
        /// True if the server has processed none of the requests.
        is_rejected: bool,
    },
    /// The connection is established, but can't carry exchanges.
    Unusable(Outcome, Reason),
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

/// An event of an exchange on a connection that stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExchangeEvent {
    /// Stream number of the exchange on the connection.
    pub(crate) stream: u32,
    pub(crate) kind: EventKind,
}

/// The kinds of events. All but [`EventKind::Message`] and [`EventKind::Unawaited`] end the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// Messages of the exchange are complete: events of a stream, or a response of a batch, except
    /// for the last one. [`Carrier::take_messages`](super::Carrier::take_messages) returns the
    /// responses of a batch.
    Message(EventCounts),
    /// A message of a WebSocket arrived that no exchange awaits.
    Unawaited,
    /// The response is complete.
    Response { outcome: Outcome, reuse: Reuse },
    /// The response of a gRPC call is complete, but the call failed.
    CallFailed {
        failure: CallFailure,
        /// Identifies the server's explanation, if it sent one.
        message: Option<CallMessageId>,
    },
    /// The response is complete, but its stream of events isn't, or couldn't be read.
    StreamFailed {
        failure: StreamFailure,
        reuse: Reuse,
    },
    /// The peer reset the stream.
    Reset {
        code: ResetCode,
        /// True if the peer did not process the request.
        unprocessed: bool,
    },
    /// The response broke the protocol on this stream only.
    Malformed(StreamFault),
    /// The WebSocket on this stream ended.
    SocketEnded(SocketFault),
}

impl EventKind {
    /// Returns true if the event ends its exchange.
    #[inline]
    pub(crate) fn ends_exchange(self) -> bool {
        !matches!(self, EventKind::Message(_) | EventKind::Unawaited)
    }
}

/// The use of a connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// Neither side closes the connection.
    Allowed,
    /// The peer closes the connection. `requested` is true if the request asked for this.
    PeerCloses { requested: bool },
    /// The request asked the peer to close the connection, but the peer does not.
    Refused,
}

impl Reuse {
    /// Returns the use of a connection that can't carry more, because the peer has closed its side.
    pub(super) fn after_close(self) -> Reuse {
        match self {
            Reuse::Allowed => Reuse::PeerCloses { requested: false },
            Reuse::Refused => Reuse::PeerCloses { requested: true },
            closes @ Reuse::PeerCloses { .. } => closes,
        }
    }
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
