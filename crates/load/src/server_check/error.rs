//! Reasons why a check has no response.

use std::time::Duration;
use std::{fmt, io};

use prony_record::{Outcome, number};

use crate::carrier::{Reason, StreamFault};

/// Reason why a check has no response.
#[derive(Debug)]
pub struct CheckError(Box<CheckFault>);

#[derive(Debug)]
pub(super) enum CheckFault {
    /// The load has no target.
    NoTarget,
    /// The load has no request with this number.
    NoRequest(usize),
    /// QUIC needs TLS.
    NoTls,
    /// No socket could be opened.
    NoSocket(io::Error),
    /// There is no connection.
    NoConnection,
    /// No connection was established.
    Connecting(io::Error),
    /// No connection was established in time.
    NotConnectedWithin(Duration),
    /// No QUIC response came from the target: in time, or because nothing listens there.
    NoQuic(String, QuicSilence),
    /// The response was not complete in time.
    NoResponseWithin(Duration),
    /// The caller stopped the check.
    Stopped,
    /// The request could not be sent.
    Sending(io::Error),
    /// Waiting for the response failed.
    Waiting(io::Error),
    /// The response could not be read.
    Reading(io::Error),
    /// TLS can't be used with this target.
    Tls(Reason),
    /// The request can't be encoded.
    Encoding(String),
    /// The request or its connection failed.
    Failed(Outcome, Reason),
    /// The response is not valid HTTP.
    Malformed(StreamFault),
    /// The server closed the connection.
    Closed,
}

/// Why no QUIC response came.
#[derive(Debug)]
pub(super) enum QuicSilence {
    Timeout(Duration),
    Refused(io::Error),
}

impl From<CheckFault> for CheckError {
    fn from(fault: CheckFault) -> CheckError {
        CheckError(Box::new(fault))
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |time: &Duration| number::span(time.as_secs_f64());
        match &*self.0 {
            CheckFault::NoTarget => f.write_str("the load has no target"),
            CheckFault::NoRequest(index) => write!(f, "the load has no request number {index}"),
            CheckFault::NoTls => f.write_str("QUIC needs TLS"),
            CheckFault::NoSocket(error) => error.fmt(f),
            CheckFault::NoConnection => f.write_str("there is no connection"),
            CheckFault::Connecting(error) => write!(f, "connecting: {error}"),
            CheckFault::NotConnectedWithin(limit) => {
                write!(f, "connecting: no connection within {}", span(limit))
            }
            CheckFault::NoQuic(target, QuicSilence::Timeout(limit)) => write!(
                f,
                "no QUIC response from {target} within {} (does a firewall block UDP? does the \
                 server listen on UDP?)",
                span(limit)
            ),
            CheckFault::NoQuic(target, QuicSilence::Refused(error)) => write!(
                f,
                "no QUIC response from {target}: nothing is listening on this UDP port ({error})"
            ),
            CheckFault::NoResponseWithin(limit) => {
                write!(f, "no complete response within {}", span(limit))
            }
            CheckFault::Stopped => f.write_str("stopped"),
            CheckFault::Sending(error) => write!(f, "sending the request: {error}"),
            CheckFault::Waiting(error) => write!(f, "waiting for the response: {error}"),
            CheckFault::Reading(error) => write!(f, "reading the response: {error}"),
            CheckFault::Tls(reason) => reason.fmt(f),
            CheckFault::Encoding(error) => f.write_str(error),
            CheckFault::Failed(outcome, reason) => write!(f, "{}: {reason}", outcome.name()),
            CheckFault::Malformed(fault) => write!(f, "{}: {fault}", Outcome::Protocol.name()),
            CheckFault::Closed => write!(
                f,
                "{}: the server closed the connection without a response",
                Outcome::ClosedEarly.name()
            ),
        }
    }
}

impl std::error::Error for CheckError {}
