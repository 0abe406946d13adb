//! How a peer can break HTTP/2: what ends the connection, and what ends a stream.

use std::fmt;

use super::hpack::{FieldFault, HpackError};
use super::{ErrorCode, FrameType};

/// The first thing wrong with a connection: a connection error (RFC 9113 §5.4.1). The peer is at
/// fault in each, and all streams end with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// The peer answers in HTTP/1.
    Http1,
    /// The peer's first bytes are a TLS record: the port speaks TLS (RFC 8446 §5.1).
    Tls,
    /// The first frame is not SETTINGS (RFC 9113 §3.4).
    NoSettings,
    /// A frame larger than SETTINGS_MAX_FRAME_SIZE (RFC 9113 §4.2).
    FrameTooLong {
        /// The limit, in bytes.
        limit_bytes: u32,
    },
    /// A frame of a wrong length for its type (RFC 9113 §4.2).
    FrameLength(FrameType),
    /// SETTINGS whose length is not a multiple of 6 (RFC 9113 §6.5).
    SettingsLength,
    /// An acknowledgement of SETTINGS that holds settings (RFC 9113 §6.5).
    SettingsAckLength,
    /// SETTINGS_ENABLE_PUSH other than 0 (RFC 9113 §6.5.2).
    PushSetting,
    /// SETTINGS_INITIAL_WINDOW_SIZE over 2³¹ − 1 (RFC 9113 §6.5.2).
    WindowSetting,
    /// SETTINGS_MAX_FRAME_SIZE outside 2¹⁴ to 2²⁴ − 1 (RFC 9113 §6.5.2).
    FrameSizeSetting,
    /// SETTINGS_INITIAL_WINDOW_SIZE makes a stream's window larger than 2³¹ − 1 (RFC 9113 §6.9.2).
    WindowSettingOverflow,
    /// A frame on stream 0 that is for other streams only.
    StreamZero(FrameType),
    /// A frame on a stream that is for the connection only.
    StreamNotZero(FrameType),
    /// Padding that is as long as the payload or longer (RFC 9113 §6.1).
    Padding,
    /// A frame on a stream that nobody opened (RFC 9113 §5.1).
    IdleStream(FrameType),
    /// HEADERS or DATA on a stream that the peer itself had ended (RFC 9113 §5.1).
    ClosedStream(FrameType),
    /// PUSH_PROMISE, though push is disabled (RFC 9113 §6.6).
    Push,
    /// Another frame within a block of fields (RFC 9113 §6.10).
    BlockInterrupted(FrameType),
    /// CONTINUATION without a block of fields to continue (RFC 9113 §6.10).
    LoneContinuation,
    /// More CONTINUATION frames in one block than the limit.
    TooManyContinuations {
        /// The limit, in frames.
        limit: u32,
    },
    /// A block of fields that is longer than its fields may be (RFC 9113 §10.5.1).
    BlockTooLong {
        /// The limit, in bytes.
        limit_bytes: u32,
    },
    /// A block of fields that can't be decoded (RFC 9113 §4.3).
    Hpack(HpackError),
    /// More DATA than the connection's window allowed (RFC 9113 §6.9.1).
    ConnectionWindowExceeded,
    /// WINDOW_UPDATE of the connection by 0 (RFC 9113 §6.9).
    ZeroIncrement,
    /// WINDOW_UPDATE makes the connection's window larger than 2³¹ − 1 (RFC 9113 §6.9.1).
    WindowOverflow,
    /// A second GOAWAY that names a later stream than the first (RFC 9113 §6.8).
    GoAwayIncreased,
    /// More frames in a row that move nothing ahead than the limit.
    TooManyIdleFrames {
        /// The limit, in frames.
        limit: u32,
    },
    /// The peer asks for more acknowledgements than it reads.
    TooManyUnread {
        /// The limit, in bytes.
        limit_bytes: u32,
    },
}

impl Violation {
    /// What GOAWAY says to the peer.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Violation::FrameTooLong { .. }
            | Violation::FrameLength(_)
            | Violation::SettingsLength
            | Violation::SettingsAckLength => ErrorCode::FRAME_SIZE_ERROR,
            Violation::WindowSetting
            | Violation::WindowSettingOverflow
            | Violation::ConnectionWindowExceeded
            | Violation::WindowOverflow => ErrorCode::FLOW_CONTROL_ERROR,
            Violation::ClosedStream(_) => ErrorCode::STREAM_CLOSED,
            Violation::Hpack(_) => ErrorCode::COMPRESSION_ERROR,
            // Activity that is suspicious (RFC 9113 §10.5), rather than a block that can't be decoded.
            Violation::TooManyContinuations { .. }
            | Violation::BlockTooLong { .. }
            | Violation::TooManyIdleFrames { .. }
            | Violation::TooManyUnread { .. } => ErrorCode::ENHANCE_YOUR_CALM,
            Violation::Http1
            | Violation::Tls
            | Violation::NoSettings
            | Violation::PushSetting
            | Violation::FrameSizeSetting
            | Violation::StreamZero(_)
            | Violation::StreamNotZero(_)
            | Violation::Padding
            | Violation::IdleStream(_)
            | Violation::Push
            | Violation::BlockInterrupted(_)
            | Violation::LoneContinuation
            | Violation::ZeroIncrement
            | Violation::GoAwayIncreased => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::Http1 => "the answer is HTTP/1, not HTTP/2",
            Violation::Tls => "the answer is TLS: the port wants https",
            Violation::NoSettings => "the first frame is not SETTINGS: the peer speaks no HTTP/2",
            Violation::FrameTooLong { limit_bytes } => {
                return write!(f, "a frame over {limit_bytes} bytes");
            }
            Violation::FrameLength(kind) => return write!(f, "{kind} of a wrong length"),
            Violation::SettingsLength => "SETTINGS whose length is not a multiple of 6",
            Violation::SettingsAckLength => "an acknowledgement of SETTINGS that is not empty",
            Violation::PushSetting => "a server's SETTINGS_ENABLE_PUSH is not 0",
            Violation::WindowSetting => "SETTINGS_INITIAL_WINDOW_SIZE over 2147483647",
            Violation::FrameSizeSetting => "SETTINGS_MAX_FRAME_SIZE outside 16384 to 16777215",
            Violation::WindowSettingOverflow => {
                "SETTINGS_INITIAL_WINDOW_SIZE makes a window larger than 2147483647"
            }
            Violation::StreamZero(kind) => return write!(f, "{kind} on stream 0"),
            Violation::StreamNotZero(kind) => {
                return write!(f, "{kind} on a stream, not on the connection");
            }
            Violation::Padding => "padding as long as its frame or longer",
            Violation::IdleStream(kind) => {
                return write!(f, "{kind} on a stream that was never opened");
            }
            Violation::ClosedStream(kind) => {
                return write!(f, "{kind} on a stream that was closed");
            }
            Violation::Push => "PUSH_PROMISE, though push is disabled",
            Violation::BlockInterrupted(kind) => {
                return write!(f, "{kind} where CONTINUATION of a header block is due");
            }
            Violation::LoneContinuation => "CONTINUATION without a header block before it",
            Violation::TooManyContinuations { limit } => {
                return write!(f, "more than {limit} CONTINUATION frames in a header block");
            }
            Violation::BlockTooLong { limit_bytes } => {
                return write!(f, "a header block over {limit_bytes} bytes");
            }
            Violation::Hpack(error) => {
                return write!(f, "a header block can't be decoded: {error}");
            }
            Violation::ConnectionWindowExceeded => "more DATA than the connection's window allows",
            Violation::ZeroIncrement => "WINDOW_UPDATE of the connection by 0",
            Violation::WindowOverflow => {
                "WINDOW_UPDATE makes the connection's window larger than 2147483647"
            }
            Violation::GoAwayIncreased => "a second GOAWAY names a later stream",
            Violation::TooManyIdleFrames { limit } => {
                return write!(f, "more than {limit} frames in a row without any effect");
            }
            Violation::TooManyUnread { limit_bytes } => {
                return write!(
                    f,
                    "SETTINGS or PING by the thousand, their acknowledgements not read (over \
                     {limit_bytes} bytes of them wait)"
                );
            }
        })
    }
}

impl std::error::Error for Violation {}

/// The first thing wrong with an answer: a stream error (RFC 9113 §5.4.2). The peer is at fault in
/// each; the connection and its other streams go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamViolation {
    /// The fields of the head or of the trailers are malformed (RFC 9113 §8.1.1).
    Fields(FieldFault),
    /// A status 101, which HTTP/2 has not (RFC 9113 §8.6).
    SwitchingProtocols,
    /// An interim answer (1xx) that ends the stream (RFC 9113 §8.1).
    InterimEnds,
    /// More interim answers than the limit.
    TooManyInterim {
        /// The limit, in answers.
        limit: u8,
    },
    /// The stream ends with DATA before there was a final head, or DATA comes there (RFC 9113
    /// §8.1).
    DataBeforeHead,
    /// HEADERS within the body that don't end the stream, as trailers must (RFC 9113 §8.1).
    TrailersDoNotEnd,
    /// HEADERS within the tunnel that CONNECT made (RFC 9113 §8.5).
    FieldsInTunnel,
    /// A body longer than Content-Length says, or any where there must be none (RFC 9113 §8.1.1).
    BodyTooLong,
    /// A body shorter than Content-Length says (RFC 9113 §8.1.1).
    BodyTooShort,
    /// More DATA than the stream's window allowed (RFC 9113 §6.9.1).
    WindowExceeded,
    /// WINDOW_UPDATE by 0 (RFC 9113 §6.9).
    ZeroIncrement,
    /// WINDOW_UPDATE makes the stream's window larger than 2³¹ − 1 (RFC 9113 §6.9.1).
    WindowOverflow,
    /// PRIORITY of a wrong length (RFC 9113 §6.3).
    PriorityLength,
}

impl StreamViolation {
    /// What RST_STREAM says to the peer.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            StreamViolation::WindowExceeded | StreamViolation::WindowOverflow => {
                ErrorCode::FLOW_CONTROL_ERROR
            }
            StreamViolation::PriorityLength => ErrorCode::FRAME_SIZE_ERROR,
            StreamViolation::TooManyInterim { .. }
            | StreamViolation::Fields(FieldFault::ListTooLong { .. }) => {
                ErrorCode::ENHANCE_YOUR_CALM
            }
            StreamViolation::Fields(_)
            | StreamViolation::SwitchingProtocols
            | StreamViolation::InterimEnds
            | StreamViolation::DataBeforeHead
            | StreamViolation::TrailersDoNotEnd
            | StreamViolation::FieldsInTunnel
            | StreamViolation::BodyTooLong
            | StreamViolation::BodyTooShort
            | StreamViolation::ZeroIncrement => ErrorCode::PROTOCOL_ERROR,
        }
    }
}

impl From<FieldFault> for StreamViolation {
    fn from(fault: FieldFault) -> StreamViolation {
        StreamViolation::Fields(fault)
    }
}

impl fmt::Display for StreamViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamViolation::Fields(fault) => return fault.fmt(f),
            StreamViolation::SwitchingProtocols => "status 101, which HTTP/2 does not have",
            StreamViolation::InterimEnds => "an interim answer (1xx) that ends the stream",
            StreamViolation::TooManyInterim { limit } => {
                return write!(f, "more than {limit} interim answers (1xx)");
            }
            StreamViolation::DataBeforeHead => "DATA before the head of the answer",
            StreamViolation::TrailersDoNotEnd => "trailers that do not end the stream",
            StreamViolation::FieldsInTunnel => "HEADERS within a tunnel",
            StreamViolation::BodyTooLong => "a body longer than its Content-Length",
            StreamViolation::BodyTooShort => "a body shorter than its Content-Length",
            StreamViolation::WindowExceeded => "more DATA than the stream's window allows",
            StreamViolation::ZeroIncrement => "WINDOW_UPDATE of the stream by 0",
            StreamViolation::WindowOverflow => {
                "WINDOW_UPDATE makes the stream's window larger than 2147483647"
            }
            StreamViolation::PriorityLength => "PRIORITY of a wrong length",
        })
    }
}

impl std::error::Error for StreamViolation {}
