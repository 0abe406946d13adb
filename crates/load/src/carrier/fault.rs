//! Errors on one stream of HTTP/2 or HTTP/3, and ends of WebSockets.

use std::fmt;

use prony_protocol::websocket::{self, HandshakeError, close_code_name};
use prony_protocol::{h2, h3};
use prony_record::Outcome;

/// The error code with which a peer reset a stream or ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResetCode {
    Http2(h2::ErrorCode),
    Http3(h3::ErrorCode),
}

impl fmt::Display for ResetCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResetCode::Http2(code) => code.fmt(f),
            ResetCode::Http3(code) => code.fmt(f),
        }
    }
}

/// The protocol rule that a response violated on its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamFault {
    Http2(h2::StreamViolation),
    Http3(h3::StreamViolation),
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamFault::Http2(violation) => violation.fmt(f),
            StreamFault::Http3(violation) => violation.fmt(f),
        }
    }
}

/// Reason why a WebSocket ended, or was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketFault {
    /// The server violated the rules for frames.
    Violation(websocket::Violation),
    /// The server closed the WebSocket, with this code if it gave one.
    Closed(Option<u16>),
    /// The bytes of the server ended within a message.
    Truncated,
    /// The HTTP/2 stream ended without a close frame.
    Ended,
    /// The server reset the HTTP/2 stream.
    Reset(h2::ErrorCode),
    /// The server refused the handshake.
    NotOpened(HandshakeError),
    /// The connection closed before the WebSocket was open.
    ClosedWhileOpening,
    /// The server's SETTINGS don't announce WebSockets over HTTP/2.
    NotAnnounced,
}

impl SocketFault {
    /// The outcome of the messages that wait for the WebSocket or for their responses.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            SocketFault::Violation(_) => Outcome::Protocol,
            SocketFault::Closed(_) | SocketFault::Ended | SocketFault::ClosedWhileOpening => {
                Outcome::ClosedEarly
            }
            SocketFault::Truncated => Outcome::Truncated,
            SocketFault::Reset(_) => Outcome::Reset,
            SocketFault::NotOpened(_) | SocketFault::NotAnnounced => Outcome::ConnectFailed,
        }
    }
}

impl fmt::Display for SocketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SocketFault::Violation(violation) => return violation.fmt(f),
            SocketFault::Closed(None) => "the server closed the WebSocket without a code",
            SocketFault::Closed(Some(code)) => {
                write!(f, "the server closed the WebSocket with code {code}")?;
                return match close_code_name(*code) {
                    Some(name) => write!(f, " ({name})"),
                    None => Ok(()),
                };
            }
            SocketFault::Truncated => "the connection closed within a message",
            SocketFault::Ended => "the stream of the WebSocket ended without a close frame",
            SocketFault::Reset(code) => {
                return write!(f, "the server reset the stream of the WebSocket ({code})");
            }
            SocketFault::NotOpened(error) => return error.fmt(f),
            SocketFault::ClosedWhileOpening => {
                "the connection closed before the WebSocket was open"
            }
            SocketFault::NotAnnounced => {
                "the server's SETTINGS don't announce WebSockets over HTTP/2 (RFC 8441); without \
                 --http 2, prony opens them with HTTP/1.1"
            }
        })
    }
}
