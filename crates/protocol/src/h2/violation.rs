//! Violations of HTTP/2 by a peer: connection errors and stream errors.

use std::fmt;

use super::hpack::{DecodeError, FieldFault};
use super::{ErrorCode, FrameType};
use crate::response_stage::ResponseFault;

/// The first connection error (RFC 9113 §5.4.1). The peer is always at fault, and the error ends
/// all streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// The peer responds in HTTP/1.
    Http1,
    /// The peer's first bytes are a TLS record: the port speaks TLS (RFC 8446 §5.1).
    Tls,
    /// The first frame is not SETTINGS (RFC 9113 §3.4).
    NoSettings,
    /// A frame larger than SETTINGS_MAX_FRAME_SIZE (RFC 9113 §4.2).
    FrameTooLong {
        /// Limit that was exceeded, in bytes.
        limit_bytes: u32,
    },
    /// A frame whose length is invalid for its type (RFC 9113 §4.2).
    FrameLength(FrameType),
    /// SETTINGS whose length is not a multiple of 6 (RFC 9113 §6.5).
    SettingsLength,
    /// An acknowledgment of SETTINGS that contains settings (RFC 9113 §6.5).
    SettingsAckLength,
    /// SETTINGS_ENABLE_PUSH other than 0 (RFC 9113 §6.5.2).
    PushSetting,
    /// SETTINGS_INITIAL_WINDOW_SIZE above 2³¹ − 1 (RFC 9113 §6.5.2).
    WindowSetting,
    /// SETTINGS_MAX_FRAME_SIZE outside 2¹⁴ to 2²⁴ − 1 (RFC 9113 §6.5.2).
    FrameSizeSetting,
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL other than 0 and 1, or 0 after 1 (RFC 8441 §3).
    ConnectSetting,
    /// A SETTINGS_INITIAL_WINDOW_SIZE that makes a stream's window larger than 2³¹ − 1 (RFC 9113
    /// §6.9.2).
    WindowSettingOverflow,
    /// A frame on stream 0, although its type isn't allowed there.
    StreamZero(FrameType),
    /// A frame on a stream other than 0, although its type is allowed only on stream 0.
    StreamNotZero(FrameType),
    /// Padding that is as long as the payload, or longer (RFC 9113 §6.1).
    Padding,
    /// A frame on an unopened stream (RFC 9113 §5.1).
    IdleStream(FrameType),
    /// HEADERS or DATA on a stream that the peer has ended (RFC 9113 §5.1).
    ClosedStream(FrameType),
    /// PUSH_PROMISE although push is disabled (RFC 9113 §6.6).
    Push,
    /// A frame other than CONTINUATION within a field block (RFC 9113 §6.10).
    BlockInterrupted(FrameType),
    /// CONTINUATION without a preceding field block (RFC 9113 §6.10).
    LoneContinuation,
    /// More CONTINUATION frames in one block than the limit allows.
    TooManyContinuations {
        /// Largest accepted number of frames.
        limit: u32,
    },
    /// A field block longer than SETTINGS_MAX_HEADER_LIST_SIZE permits (RFC 9113 §10.5.1).
    BlockTooLong {
        /// Limit that was exceeded, in bytes.
        limit_bytes: u32,
    },
    /// A field block that can't be decoded (RFC 9113 §4.3).
    Hpack(DecodeError),
    /// More DATA than the connection's window allowed (RFC 9113 §6.9.1).
    ConnectionWindowExceeded,
    /// A WINDOW_UPDATE for the connection with an increment of 0 (RFC 9113 §6.9).
    ZeroIncrement,
    /// A WINDOW_UPDATE that makes the connection's window larger than 2³¹ − 1 (RFC 9113 §6.9.1).
    WindowOverflow,
    /// A second GOAWAY whose last stream is later than that of the first one (RFC 9113 §6.8).
    GoAwayIncreased,
    /// More consecutive frames without progress than the limit allows.
    TooManyIdleFrames {
        /// Largest accepted number of frames.
        limit: u32,
    },
    /// Too many unsent acknowledgments, because the peer requests them but doesn't read them.
    TooManyUnread {
        /// Limit that was exceeded, in bytes.
        limit_bytes: u32,
    },
}

impl Violation {
    /// Returns the error code for GOAWAY.
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
            // ENHANCE_YOUR_CALM reports suspicious activity (RFC 9113 §10.5) rather than a decoding
            // error.
            Violation::TooManyContinuations { .. }
            | Violation::BlockTooLong { .. }
            | Violation::TooManyIdleFrames { .. }
            | Violation::TooManyUnread { .. } => ErrorCode::ENHANCE_YOUR_CALM,
            Violation::Http1
            | Violation::Tls
            | Violation::NoSettings
            | Violation::PushSetting
            | Violation::FrameSizeSetting
            | Violation::ConnectSetting
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
            Violation::Http1 => "the response is HTTP/1, not HTTP/2",
            Violation::Tls => "the server responded with TLS",
            Violation::NoSettings => {
                "the first frame is not SETTINGS: the peer does not speak \
                HTTP/2"
            }
            Violation::FrameTooLong { limit_bytes } => {
                return write!(f, "a frame of more than {limit_bytes} bytes");
            }
            Violation::FrameLength(kind) => return write!(f, "{kind} with an invalid length"),
            Violation::SettingsLength => "SETTINGS whose length is not a multiple of 6",
            Violation::SettingsAckLength => "an acknowledgment of SETTINGS that is not empty",
            Violation::PushSetting => "a server's SETTINGS_ENABLE_PUSH is not 0",
            Violation::WindowSetting => "SETTINGS_INITIAL_WINDOW_SIZE above 2147483647",
            Violation::FrameSizeSetting => "SETTINGS_MAX_FRAME_SIZE outside 16384 to 16777215",
            Violation::ConnectSetting => {
                "SETTINGS_ENABLE_CONNECT_PROTOCOL is not 0 or 1, or is withdrawn"
            }
            Violation::WindowSettingOverflow => {
                "SETTINGS_INITIAL_WINDOW_SIZE makes a window larger than 2147483647"
            }
            Violation::StreamZero(kind) => return write!(f, "{kind} on stream 0"),
            Violation::StreamNotZero(kind) => {
                return write!(f, "{kind} on a stream instead of the connection");
            }
            Violation::Padding => "padding as long as its frame or longer",
            Violation::IdleStream(kind) => {
                return write!(f, "{kind} on a stream that was never opened");
            }
            Violation::ClosedStream(kind) => {
                return write!(f, "{kind} on a stream that was closed");
            }
            Violation::Push => "PUSH_PROMISE although push is disabled",
            Violation::BlockInterrupted(kind) => {
                return write!(
                    f,
                    "{kind} within a header block, where CONTINUATION is expected"
                );
            }
            Violation::LoneContinuation => "CONTINUATION without a preceding header block",
            Violation::TooManyContinuations { limit } => {
                return write!(f, "more than {limit} CONTINUATION frames in a header block");
            }
            Violation::BlockTooLong { limit_bytes } => {
                return write!(f, "a header block of more than {limit_bytes} bytes");
            }
            Violation::Hpack(error) => {
                return write!(f, "a header block can't be decoded: {error}");
            }
            Violation::ConnectionWindowExceeded => "more DATA than the connection's window allows",
            Violation::ZeroIncrement => "WINDOW_UPDATE for the connection with an increment of 0",
            Violation::WindowOverflow => {
                "WINDOW_UPDATE makes the connection's window larger than 2147483647"
            }
            Violation::GoAwayIncreased => "a second GOAWAY names a later stream than the first",
            Violation::TooManyIdleFrames { limit } => {
                return write!(f, "more than {limit} consecutive frames without any effect");
            }
            Violation::TooManyUnread { limit_bytes } => {
                return write!(
                    f,
                    "too many SETTINGS and PING frames whose acknowledgments are not read (more \
                     than {limit_bytes} bytes are unsent)"
                );
            }
        })
    }
}

impl std::error::Error for Violation {}

/// The first violation in a response: a stream error (RFC 9113 §5.4.2). The peer is always at
/// fault; the connection and its other streams continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamViolation {
    /// The fields in the head or in the trailers are malformed (RFC 9113 §8.1.1).
    Fields(FieldFault),
    /// Status 101, which doesn't exist in HTTP/2 (RFC 9113 §8.6).
    SwitchingProtocols,
    /// An interim response (1xx) that ends the stream (RFC 9113 §8.1).
    InterimEnds,
    /// More interim responses than the limit allows.
    TooManyInterim {
        /// Largest accepted number of interim responses.
        limit: u8,
    },
    /// DATA or the end of the stream before a final head (RFC 9113 §8.1).
    DataBeforeHead,
    /// HEADERS within the body that don't end the stream, although trailers must (RFC 9113 §8.1).
    TrailersDoNotEnd,
    /// HEADERS in the tunnel of a CONNECT (RFC 9113 §8.5).
    FieldsInTunnel,
    /// A body that is longer than its Content-Length, or a body where none is allowed (RFC 9113
    /// §8.1.1).
    BodyTooLong,
    /// A body that is shorter than its Content-Length (RFC 9113 §8.1.1).
    BodyTooShort,
    /// More DATA than the stream's window allows (RFC 9113 §6.9.1).
    WindowExceeded,
    /// A WINDOW_UPDATE for the stream with an increment of 0 (RFC 9113 §6.9).
    ZeroIncrement,
    /// A WINDOW_UPDATE that makes the stream's window larger than 2³¹ − 1 (RFC 9113 §6.9.1).
    WindowOverflow,
    /// PRIORITY with an invalid length (RFC 9113 §6.3).
    PriorityLength,
}

impl StreamViolation {
    /// Returns the error code for RST_STREAM.
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

impl From<ResponseFault> for StreamViolation {
    fn from(fault: ResponseFault) -> StreamViolation {
        match fault {
            ResponseFault::Fields(fault) => StreamViolation::Fields(fault),
            ResponseFault::SwitchingProtocols => StreamViolation::SwitchingProtocols,
            ResponseFault::TooManyInterim { limit } => StreamViolation::TooManyInterim { limit },
            ResponseFault::DataBeforeHead => StreamViolation::DataBeforeHead,
            ResponseFault::FieldsInTunnel => StreamViolation::FieldsInTunnel,
            ResponseFault::BodyTooLong => StreamViolation::BodyTooLong,
            ResponseFault::BodyTooShort => StreamViolation::BodyTooShort,
        }
    }
}

impl fmt::Display for StreamViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamViolation::Fields(fault) => return fault.fmt(f),
            StreamViolation::SwitchingProtocols => "status 101, which does not exist in HTTP/2",
            StreamViolation::InterimEnds => "an interim response (1xx) that ends the stream",
            StreamViolation::TooManyInterim { limit } => {
                return write!(f, "more than {limit} interim responses (1xx)");
            }
            StreamViolation::DataBeforeHead => "DATA before the head of the response",
            StreamViolation::TrailersDoNotEnd => "trailers that do not end the stream",
            StreamViolation::FieldsInTunnel => "HEADERS within a tunnel",
            StreamViolation::BodyTooLong => "a body longer than its Content-Length",
            StreamViolation::BodyTooShort => "a body shorter than its Content-Length",
            StreamViolation::WindowExceeded => "more DATA than the stream's window allows",
            StreamViolation::ZeroIncrement => "WINDOW_UPDATE for the stream with an increment of 0",
            StreamViolation::WindowOverflow => {
                "WINDOW_UPDATE makes the stream's window larger than 2147483647"
            }
            StreamViolation::PriorityLength => "PRIORITY with an invalid length",
        })
    }
}

impl std::error::Error for StreamViolation {}
