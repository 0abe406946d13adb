//! Errors on one stream of HTTP/2 or HTTP/3.

use std::fmt;

use prony_protocol::{h2, h3};

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
