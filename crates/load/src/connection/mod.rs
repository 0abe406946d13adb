//! One connection as bytes: its state, TLS, and the HTTP machine on it. There is no socket and no
//! clock here.
//!
//! A new HTTP version is one more machine next to `h1` and `h2`, which reports the same [`HttpEvent`]s.

mod captured;
mod h1;
mod h2;
mod http;
mod pipeline;
mod reason;
mod session;
mod state;
mod tunnel;

use prony_protocol::h2::{ErrorCode, StreamViolation};
use prony_record::Outcome;

use crate::tls;

pub(crate) use captured::CapturedResponse;
pub(crate) use http::{HttpFactory, HttpMachine, Received, Room};
pub(crate) use pipeline::PipelinedResponse;
pub(crate) use reason::Reason;
pub(crate) use session::HttpSession;
pub(crate) use state::{ConnectionState, Secured};

/// The state of a connection after bytes, or their end, were received.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    /// The connection goes on. Events may be in the [`SharedBuffers`], and there may be output to send.
    Open,
    /// The proxy made the tunnel.
    Tunneled,
    /// The TLS handshake is complete: the connection is ready.
    Secured(Secured),
    /// The peer closed before any byte of the response; with HTTP/2, while requests were in flight.
    Lost,
    /// The connection failed, and all requests in flight on it.
    Broken(Outcome, Reason),
    /// Bytes came while no request was in flight.
    Unsolicited,
    /// The peer closed while no request was in flight.
    Closed,
}

/// The end of a request on a connection that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpEvent {
    /// The request's stream number on the connection.
    pub(crate) stream: u32,
    pub(crate) kind: EventKind,
}

/// The way in which a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The response is complete.
    Response {
        outcome: Outcome,
        /// Both sides keep the connection.
        reusable: bool,
    },
    /// The peer reset the stream.
    Reset {
        code: ErrorCode,
        /// The peer did not process the request.
        unprocessed: bool,
    },
    /// The response broke the protocol on this stream only.
    Malformed(StreamViolation),
}

/// Memory that all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct SharedBuffers {
    tls: tls::TlsBuffers,
    /// Output of HTTP/2 before TLS encrypts it.
    plain: Vec<u8>,
    /// Events of the bytes received last.
    pub(crate) events: Vec<HttpEvent>,
}
