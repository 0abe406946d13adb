//! What comes out of a connection besides bytes.

use std::fmt;

use super::{ErrorCode, StreamViolation};

/// What the bytes meant. A `tag` is what the caller gave to
/// [`start`](super::Connection::start) for the request.
///
/// For each request that was started come any number of `Interim`, then at most one `Head`, any
/// number of `Body`, and exactly one of `End`, `Reset` and `Broken`, unless it is cancelled or the
/// connection ends before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// All input is consumed.
    NeedMore,
    /// The peer said what it is like, at first or anew. More requests, or fewer, may be started
    /// from now on.
    Settings,
    /// An interim answer (1xx); another head follows.
    Interim {
        /// The request's.
        tag: u32,
        /// 100 to 199, but not 101.
        status: u16,
    },
    /// The head of the final answer.
    Head {
        /// The request's.
        tag: u32,
        /// The status code, 0 to 999, but not 100 to 199.
        status: u16,
    },
    /// A piece of the body, never empty.
    Body {
        /// The request's.
        tag: u32,
        /// The piece.
        bytes: &'a [u8],
    },
    /// The answer is complete.
    End {
        /// The request's.
        tag: u32,
    },
    /// The peer ended the stream before the answer was complete.
    Reset {
        /// The request's.
        tag: u32,
        /// Why. With GOAWAY, the code of that.
        code: ErrorCode,
        /// The peer says that it did nothing with the request, so that it can be sent once more
        /// whatever its method is (RFC 9113 §8.7): REFUSED_STREAM, or a GOAWAY that names an
        /// earlier stream as the last.
        unprocessed: bool,
    },
    /// The answer broke the protocol. The stream was reset.
    Broken {
        /// The request's.
        tag: u32,
        /// How.
        violation: StreamViolation,
    },
    /// The peer will take no further requests. Those that it won't answer follow as `Reset`; the
    /// others go on.
    GoAway {
        /// The last stream that it may answer.
        last_stream: u32,
        /// Why.
        code: ErrorCode,
    },
}

/// Which stream a request has; to cancel it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(super) u32);

impl StreamId {
    /// The number: odd, 1 to 2³¹ − 1 (RFC 9113 §5.1.1).
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Why a request was not started. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StartError {
    /// As many are under way as [`ClientSettings::streams`](super::ClientSettings::streams) says.
    OwnLimit,
    /// As many are under way as the peer allows (RFC 9113 §5.1.2).
    PeerLimit,
    /// What was written before waits to be sent; see
    /// [`take_output`](super::Connection::take_output).
    Unsent,
    /// The peer said GOAWAY, or this side did: the connection takes no further requests.
    GoingAway,
    /// All identifiers of streams are used (RFC 9113 §5.1.1): the connection takes no further
    /// requests.
    IdsExhausted,
    /// The fields of the request are more than the peer takes (SETTINGS_MAX_HEADER_LIST_SIZE, RFC
    /// 9113 §6.5.2).
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
