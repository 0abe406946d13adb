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
    /// The peer's settings arrived.
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
    /// The response is complete. If part of the request is still unsent, the caller must stop
    /// sending it: the server doesn't need it (RFC 9114 §4.1).
    End {
        /// Tag of the request.
        tag: u32,
        /// The gRPC call to which this was the response, if it was one.
        call: Option<GrpcCall>,
    },
    /// The peer ended the exchange before the response was complete.
    Reset {
        /// Tag of the request.
        tag: u32,
        /// Error code of the reset. After GOAWAY, it is H3_REQUEST_REJECTED.
        code: ErrorCode,
        /// True if the peer states that it did not process the request, by H3_REQUEST_REJECTED or
        /// by a GOAWAY for an earlier stream. The request can then be retried, whatever its method
        /// (RFC 9114 §4.1.1). After GOAWAY, the QUIC stream is still open, and the caller must
        /// reset and stop it with H3_REQUEST_CANCELLED.
        unprocessed: bool,
    },
    /// The response violated the protocol. The caller must reset and stop the stream with the code
    /// of the violation.
    Broken {
        /// Tag of the request.
        tag: u32,
        /// Identifier of the request's stream.
        stream: u64,
        /// First violation in the response.
        violation: StreamViolation,
    },
    /// The peer will not accept more requests. For each request that it won't process, a `Reset`
    /// follows; the other requests continue.
    GoAway {
        /// The first stream that the peer won't process.
        first_rejected: u64,
    },
    /// A stream of unknown type. The caller must stop it with `code`, or discard its bytes.
    Discard {
        /// Identifier of the stream.
        stream: u64,
        /// Code for STOP_SENDING.
        code: ErrorCode,
    },
    /// The caller has nothing to do, for example because a canceled stream ended.
    Ignored,
}

/// Reason why a request can't be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartError {
    /// The client's limit on requests in flight is reached; see
    /// [`ClientSettings::streams`](super::ClientSettings::streams).
    OwnLimit,
    /// The peer sent GOAWAY, or the connection failed: no more requests are possible.
    GoingAway,
    /// The request's fields exceed the peer's limit (SETTINGS_MAX_FIELD_SECTION_SIZE, RFC 9114
    /// §4.2.2).
    FieldsTooLong {
        /// Largest field list that the peer accepts, in bytes.
        limit_bytes: u64,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartError::OwnLimit => "all streams are in use",
            StartError::GoingAway => "the connection accepts no more requests",
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
