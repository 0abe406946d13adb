//! Outputs of a connection other than bytes.

use std::fmt;

use super::{ErrorCode, StreamViolation};

/// Event of a connection. Each `tag` is the one passed to [`start`](super::Connection::start).
///
/// Each started request causes any number of `Interim`, then at most one `Head`, any number of
/// `Body`, and exactly one of `End`, `Reset` and `Broken`, unless it is cancelled or the connection
/// ends before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEvent<'a> {
    /// All input is consumed.
    NeedMore,
    /// The peer's settings arrived or changed, which may change the number of requests that can be
    /// started.
    Settings,
    /// An interim response (1xx); another head follows.
    Interim {
        /// Tag of the request.
        tag: u32,
        /// 100 to 199, but not 101.
        status: u16,
    },
    /// The head of the final response.
    Head {
        /// Tag of the request.
        tag: u32,
        /// The status code, 0 to 999, but not 100 to 199.
        status: u16,
    },
    /// A part of the body, never empty.
    Body {
        /// Tag of the request.
        tag: u32,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The response is complete.
    End {
        /// Tag of the request.
        tag: u32,
    },
    /// The peer ended the stream before the response was complete.
    Reset {
        /// Tag of the request.
        tag: u32,
        /// Error code of the reset, or of GOAWAY.
        code: ErrorCode,
        /// True if the peer states that it did not process the request, which can then be retried
        /// whatever its method (RFC 9113 §8.7): REFUSED_STREAM, or a GOAWAY with an earlier stream
        /// as the last.
        unprocessed: bool,
    },
    /// The response violated the protocol. The stream was reset.
    Broken {
        /// Tag of the request.
        tag: u32,
        /// The violation.
        violation: StreamViolation,
    },
    /// The peer will not accept further requests. Requests that it won't process follow as `Reset`;
    /// the others continue.
    GoAway {
        /// The last stream that it may process.
        last_stream: u32,
        /// Error code of the GOAWAY.
        code: ErrorCode,
    },
}

/// Stream of a request, for cancelling it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The identifier: odd, 1 to 2³¹ − 1 (RFC 9113 §5.1.1).
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Reason why a request was not started. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartError {
    /// [`ClientSettings::streams`](super::ClientSettings::streams) requests are in flight.
    OwnLimit,
    /// The peer's limit is reached (RFC 9113 §5.1.2).
    PeerLimit,
    /// Earlier output must be sent first; see [`take_output`](super::Connection::take_output).
    Unsent,
    /// The peer or this side sent GOAWAY: no further requests are possible.
    GoingAway,
    /// All stream identifiers are used (RFC 9113 §5.1.1): no further requests are possible.
    IdsExhausted,
    /// The request's fields exceed the peer's limit (SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113
    /// §6.5.2).
    FieldsTooLong {
        /// The peer's limit, in bytes.
        limit_bytes: u32,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartError::OwnLimit => "all streams are in use",
            StartError::PeerLimit => "the server allows no more streams at once",
            StartError::Unsent => "earlier requests wait to be sent",
            StartError::GoingAway => "the connection takes no further requests",
            StartError::IdsExhausted => "the connection has no stream left",
            StartError::FieldsTooLong { limit_bytes } => {
                return write!(
                    f,
                    "the server takes no more than {limit_bytes} bytes of headers"
                );
            }
        })
    }
}

impl std::error::Error for StartError {}
