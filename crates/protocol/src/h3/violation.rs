//! Violations of HTTP/3 by a peer: connection errors and stream errors.

use std::fmt;

use super::qpack::DecodeError;
use super::{ErrorCode, FrameType};
use crate::compression::FieldFault;
use crate::response_stage::ResponseFault;

/// A stream that each side may open only once (RFC 9114 §6.2, RFC 9204 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CriticalStream {
    /// The control stream, which carries SETTINGS and GOAWAY.
    Control,
    /// The stream from the QPACK encoder.
    Encoder,
    /// The stream from the QPACK decoder.
    Decoder,
}

impl fmt::Display for CriticalStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CriticalStream::Control => "control stream",
            CriticalStream::Encoder => "QPACK encoder stream",
            CriticalStream::Decoder => "QPACK decoder stream",
        })
    }
}

/// A connection error (RFC 9114 §8). The peer is always at fault, and the error ends all streams.
/// Only the first one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// The control stream doesn't begin with SETTINGS (RFC 9114 §6.2.1).
    NoSettings,
    /// A second SETTINGS (RFC 9114 §7.2.4).
    SettingsTwice,
    /// A setting that exists only in HTTP/2 (RFC 9114 §7.2.4.1).
    Http2Setting(
        /// Identifier of the setting.
        u64,
    ),
    /// A setting that occurs twice (RFC 9114 §7.2.4).
    SettingTwice(
        /// Identifier of the setting.
        u64,
    ),
    /// A frame that isn't allowed on the control stream (RFC 9114 §7.2).
    OnControlStream(FrameType),
    /// A frame that isn't allowed on the stream of a request (RFC 9114 §7.2).
    OnRequestStream(FrameType),
    /// DATA before a final head (RFC 9114 §4.1).
    DataBeforeHead,
    /// HEADERS or DATA after the trailers (RFC 9114 §4.1).
    AfterTrailers(FrameType),
    /// HEADERS in the tunnel of a CONNECT (RFC 9114 §4.4).
    FieldsInTunnel,
    /// A frame whose fields don't end exactly at the end of its payload (RFC 9114 §7.1).
    FrameLength(FrameType),
    /// A stream that ends within a frame (RFC 9114 §7.1).
    FrameTruncated,
    /// A frame on the control stream larger than the limit.
    FrameTooLong {
        /// Limit that was exceeded, in bytes.
        limit_bytes: u32,
    },
    /// A push, which this client never allows: PUSH_PROMISE, CANCEL_PUSH or a push stream (RFC 9114
    /// §4.6).
    Push,
    /// A second GOAWAY whose stream is later than that of the first one (RFC 9114 §5.2).
    GoAwayIncreased,
    /// A GOAWAY whose identifier isn't the ID of a request's stream (RFC 9114 §7.2.6).
    GoAwayStream,
    /// A bidirectional stream opened by the server (RFC 9114 §6.1).
    ServerBidirectional,
    /// A second stream of a type that may exist only once (RFC 9114 §6.2.1, RFC 9204 §4.2).
    StreamTwice(CriticalStream),
    /// The peer closed a stream that must stay open (RFC 9114 §6.2.1, RFC 9204 §4.2).
    CriticalClosed(CriticalStream),
    /// The peer doesn't read this client's control or decoder stream (RFC 9114 §6.2.1, RFC 9204
    /// §4.2).
    CriticalStopped,
    /// A field section that can't be decoded (RFC 9204 §2.2).
    Section(DecodeError),
    /// An error on the peer's encoder stream (RFC 9204 §4.3).
    EncoderStream(DecodeError),
    /// An acknowledgment of insertions into a table that this client doesn't use (RFC 9204 §4.4).
    DecoderStream,
    /// The peer sent too many consecutive frames without progress.
    TooManyIdleFrames {
        /// Largest accepted number of frames.
        limit: u32,
    },
    /// Too many decoder instructions are unsent, because the peer doesn't read the decoder stream.
    TooManyUnread {
        /// Limit that was exceeded, in bytes.
        limit_bytes: u32,
    },
    /// The peer sent too many bytes of incomplete field sections.
    TooManyParts {
        /// Limit that was exceeded, in bytes.
        limit_bytes: u32,
    },
    /// The peer opened too many unidirectional streams without completely sending their types.
    TooManyUntyped {
        /// Largest accepted number of such streams.
        limit: u32,
    },
}

impl Violation {
    /// Returns the error code with which the connection must be closed.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Violation::NoSettings => ErrorCode::MISSING_SETTINGS,
            Violation::SettingsTwice
            | Violation::OnControlStream(_)
            | Violation::OnRequestStream(_)
            | Violation::DataBeforeHead
            | Violation::AfterTrailers(_)
            | Violation::FieldsInTunnel => ErrorCode::FRAME_UNEXPECTED,
            Violation::Http2Setting(_) | Violation::SettingTwice(_) => ErrorCode::SETTINGS_ERROR,
            Violation::FrameLength(_) | Violation::FrameTruncated => ErrorCode::FRAME_ERROR,
            Violation::Push | Violation::GoAwayIncreased | Violation::GoAwayStream => {
                ErrorCode::ID_ERROR
            }
            Violation::ServerBidirectional | Violation::StreamTwice(_) => {
                ErrorCode::STREAM_CREATION_ERROR
            }
            Violation::CriticalClosed(_) | Violation::CriticalStopped => {
                ErrorCode::CLOSED_CRITICAL_STREAM
            }
            Violation::Section(_) => ErrorCode::QPACK_DECOMPRESSION_FAILED,
            Violation::EncoderStream(_) => ErrorCode::QPACK_ENCODER_STREAM_ERROR,
            Violation::DecoderStream => ErrorCode::QPACK_DECODER_STREAM_ERROR,
            Violation::FrameTooLong { .. }
            | Violation::TooManyIdleFrames { .. }
            | Violation::TooManyUnread { .. }
            | Violation::TooManyParts { .. }
            | Violation::TooManyUntyped { .. } => ErrorCode::EXCESSIVE_LOAD,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::NoSettings => "the server's control stream does not begin with SETTINGS",
            Violation::SettingsTwice => "the server sent SETTINGS twice",
            Violation::Http2Setting(id) => {
                return write!(
                    f,
                    "the server sent setting {id:#x}, which exists only in HTTP/2"
                );
            }
            Violation::SettingTwice(id) => {
                return write!(f, "the server sent setting {id:#x} twice");
            }
            Violation::OnControlStream(kind) => {
                return write!(f, "the server sent {kind} on its control stream");
            }
            Violation::OnRequestStream(kind) => {
                return write!(f, "the server sent {kind} on a request stream");
            }
            Violation::DataBeforeHead => "the server sent DATA before the head of the response",
            Violation::AfterTrailers(kind) => {
                return write!(f, "the server sent {kind} after the trailers");
            }
            Violation::FieldsInTunnel => "the server sent HEADERS within a tunnel",
            Violation::FrameLength(kind) => {
                return write!(f, "the server sent {kind} with an invalid length");
            }
            Violation::FrameTruncated => "the server ended a stream in the middle of a frame",
            Violation::Push => "the server used server push, which is not allowed",
            Violation::GoAwayIncreased => {
                "the server's second GOAWAY names a later stream than its first"
            }
            Violation::GoAwayStream => {
                "the server's GOAWAY identifies a stream that carries no request"
            }
            Violation::ServerBidirectional => "the server opened a bidirectional stream",
            Violation::StreamTwice(kind) => {
                return write!(f, "the server opened a second {kind}");
            }
            Violation::CriticalClosed(kind) => {
                return write!(f, "the server closed its {kind}");
            }
            Violation::CriticalStopped => {
                "the server does not read the client's control and decoder streams"
            }
            Violation::Section(error) => {
                return write!(f, "the server's headers can't be decoded: {error}");
            }
            Violation::EncoderStream(error) => {
                return write!(
                    f,
                    "the server's QPACK encoder stream can't be read: {error}"
                );
            }
            Violation::DecoderStream => {
                "the server acknowledged table entries that were never inserted"
            }
            Violation::FrameTooLong { .. }
            | Violation::TooManyIdleFrames { .. }
            | Violation::TooManyUnread { .. }
            | Violation::TooManyParts { .. }
            | Violation::TooManyUntyped { .. } => return self.write_limit(f),
        })
    }
}

impl Violation {
    /// Formats a violation in which the server exceeded one of this client's limits.
    fn write_limit(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::FrameTooLong { limit_bytes } => write!(
                f,
                "the server sent a frame of more than {limit_bytes} bytes on its control stream"
            ),
            Violation::TooManyIdleFrames { limit } => write!(
                f,
                "the server sent more than {limit} consecutive frames without any effect"
            ),
            Violation::TooManyUnread { limit_bytes } => write!(
                f,
                "the server does not read the QPACK decoder stream (more than {limit_bytes} bytes \
                 are unsent)"
            ),
            Violation::TooManyParts { limit_bytes } => write!(
                f,
                "the server sent more than {limit_bytes} bytes of incomplete headers"
            ),
            Violation::TooManyUntyped { limit } => {
                write!(
                    f,
                    "the server opened more than {limit} streams without a type"
                )
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Violation {}

/// A violation in a response: a stream error (RFC 9114 §8). Only the first one is reported. The
/// peer is always at fault. The connection and its other streams continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamViolation {
    /// The response is malformed (RFC 9114 §4.1.2).
    Malformed(ResponseFault),
    /// A field section longer than SETTINGS_MAX_FIELD_SECTION_SIZE permits (RFC 9114 §4.2.2).
    SectionTooLong {
        /// Limit that was exceeded, in bytes.
        limit_bytes: u32,
    },
}

impl StreamViolation {
    /// Returns the error code with which the stream must be reset and stopped.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            StreamViolation::SectionTooLong { .. }
            | StreamViolation::Malformed(
                ResponseFault::TooManyInterim { .. }
                | ResponseFault::Fields(FieldFault::ListTooLong { .. }),
            ) => ErrorCode::EXCESSIVE_LOAD,
            StreamViolation::Malformed(_) => ErrorCode::MESSAGE_ERROR,
        }
    }
}

impl From<ResponseFault> for StreamViolation {
    fn from(fault: ResponseFault) -> StreamViolation {
        StreamViolation::Malformed(fault)
    }
}

impl fmt::Display for StreamViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamViolation::Malformed(fault) => fault.fmt(f),
            StreamViolation::SectionTooLong { limit_bytes } => {
                write!(f, "headers of more than {limit_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for StreamViolation {}
