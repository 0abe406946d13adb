//! Outputs of a connection other than bytes.

use std::fmt;

use super::{ErrorCode, StreamViolation};
use crate::response_stage::GrpcCall;

/// Event of a connection. Each `tag` is the one passed to [`start`](super::Connection::start).
///
/// Each started request results in any number of `Interim` events, then at most one `Head`, any
/// number of `Body`, at most one `Trailers`, and finally one `End`, `Reset` or `Broken`. There is no final event if the
/// request is canceled or the connection ends first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEvent<'a> {
    /// All input has been consumed.
    NeedMore,
    /// The peer's settings arrived or changed, which may change the number of requests that can be
    /// started.
    Settings,
    /// An interim response (1xx); another head follows.
    Interim {
        /// Tag of the request.
        tag: u32,
        /// The status code: 100 to 199, but not 101.
        status: u16,
    },
    /// The head of the final response.
    Head {
        /// Tag of the request.
        tag: u32,
        /// The status code, 0 to 999, but not 100 to 199.
        status: u16,
    },
    /// Part of the body, never empty.
    Body {
        /// Tag of the request.
        tag: u32,
        /// Bytes of this part of the body.
        bytes: &'a [u8],
    },
    /// The trailers; only the end follows.
    Trailers {
        /// Tag of the request.
        tag: u32,
    },
    /// The response is complete.
    End {
        /// Tag of the request.
        tag: u32,
        /// The gRPC call to which this was the response, if it was one.
        call: Option<GrpcCall>,
    },
    /// The peer ended the stream before the response was complete.
    Reset {
        /// Tag of the request.
        tag: u32,
        /// Error code of the reset, or of GOAWAY.
        code: ErrorCode,
        /// True if the peer states that it did not process the request, by REFUSED_STREAM or by a
        /// GOAWAY whose last stream is an earlier one. The request can then be retried, whatever
        /// its method (RFC 9113 §8.7).
        unprocessed: bool,
    },
    /// The response violated the protocol. The stream was reset.
    Broken {
        /// Tag of the request.
        tag: u32,
        /// First violation in the response.
        violation: StreamViolation,
    },
    /// The peer will not accept more requests. For each request that it won't process, a `Reset`
    /// follows; the other requests continue.
    GoAway {
        /// The last stream that the peer may process.
        last_stream: u32,
        /// Error code of the GOAWAY.
        code: ErrorCode,
    },
}

/// One of the two frames of most responses, if it arrived completely: HEADERS with a known field
/// block, and DATA with the rest of the body. It is valid and needs nothing but the common treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommonFrame<'a> {
    /// The head of the final response; more follows.
    Head {
        /// Tag of the request.
        tag: u32,
        /// The status code, 0 to 999, but not 100 to 199.
        status: u16,
    },
    /// A part of the body, which ends a frame; more follows.
    Part {
        /// Tag of the request.
        tag: u32,
        /// Bytes of the body, at least one.
        bytes: &'a [u8],
    },
    /// The trailers, with which the response is complete.
    Trailers {
        /// Tag of the request.
        tag: u32,
        /// The gRPC call to which this was the response, if it was one.
        call: Option<GrpcCall>,
    },
    /// The rest of the body, with which the response is complete.
    Rest {
        /// Tag of the request.
        tag: u32,
        /// Bytes of the body, possibly none.
        bytes: &'a [u8],
        /// The gRPC call to which this was the response, if it was one.
        call: Option<GrpcCall>,
    },
}

/// Identifier of a request's stream, with which the request can be canceled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// Returns the identifier, an odd number from 1 to 2³¹ − 1 (RFC 9113 §5.1.1).
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Reason why a request can't be started. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartError {
    /// The client's limit on requests in flight is reached; see
    /// [`ClientSettings::streams`](super::ClientSettings::streams).
    OwnLimit,
    /// The peer's limit on concurrent streams is reached (RFC 9113 §5.1.2).
    PeerLimit,
    /// Earlier output must be sent first; see [`take_output`](super::Connection::take_output).
    Unsent,
    /// The peer sent GOAWAY, or the connection failed: no more requests are possible.
    GoingAway,
    /// All stream identifiers have been used (RFC 9113 §5.1.1): no more requests are possible.
    IdsExhausted,
    /// The request's fields exceed the peer's limit (SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113
    /// §6.5.2).
    FieldsTooLong {
        /// Largest field list that the peer accepts, in bytes.
        limit_bytes: u32,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartError::OwnLimit => "all streams are in use",
            StartError::PeerLimit => "the server allows no more concurrent streams",
            StartError::Unsent => "earlier requests have not been sent yet",
            StartError::GoingAway => "the connection accepts no more requests",
            StartError::IdsExhausted => "the connection has no stream identifiers left",
            StartError::FieldsTooLong { limit_bytes } => {
                return write!(
                    f,
                    "the server accepts at most {limit_bytes} bytes of headers"
                );
            }
        })
    }
}

impl std::error::Error for StartError {}
