//! Reasons why a probe has no response.

use std::time::Duration;
use std::{fmt, io};

use prony_record::{Outcome, number};

use crate::carrier::{Reason, StreamFault};

/// Reason why a probe has no response.
#[derive(Debug)]
pub struct ProbeError(Box<ProbeFault>);

#[derive(Debug)]
pub(super) enum ProbeFault {
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
    /// The caller stopped the probe.
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

impl From<ProbeFault> for ProbeError {
    fn from(fault: ProbeFault) -> ProbeError {
        ProbeError(Box::new(fault))
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |time: &Duration| number::span(time.as_secs_f64());
        match &*self.0 {
            ProbeFault::NoTarget => f.write_str("the load has no target"),
            ProbeFault::NoRequest(index) => write!(f, "the load has no request number {index}"),
            ProbeFault::NoTls => f.write_str("QUIC needs TLS"),
            ProbeFault::NoSocket(error) => error.fmt(f),
            ProbeFault::NoConnection => f.write_str("there is no connection"),
            ProbeFault::Connecting(error) => write!(f, "connecting: {error}"),
            ProbeFault::NotConnectedWithin(limit) => {
                write!(f, "connecting: no connection within {}", span(limit))
            }
            ProbeFault::NoQuic(target, QuicSilence::Timeout(limit)) => write!(
                f,
                "no QUIC response from {target} within {} (does a firewall block UDP? does the \
                 server listen on UDP?)",
                span(limit)
            ),
            ProbeFault::NoQuic(target, QuicSilence::Refused(error)) => write!(
                f,
                "no QUIC response from {target}: nothing is listening on this UDP port ({error})"
            ),
            ProbeFault::NoResponseWithin(limit) => {
                write!(f, "no complete response within {}", span(limit))
            }
            ProbeFault::Stopped => f.write_str("stopped"),
            ProbeFault::Sending(error) => write!(f, "sending the request: {error}"),
            ProbeFault::Waiting(error) => write!(f, "waiting for the response: {error}"),
            ProbeFault::Reading(error) => write!(f, "reading the response: {error}"),
            ProbeFault::Tls(reason) => reason.fmt(f),
            ProbeFault::Encoding(error) => f.write_str(error),
            ProbeFault::Failed(outcome, reason) => write!(f, "{}: {reason}", outcome.name()),
            ProbeFault::Malformed(fault) => write!(f, "{}: {fault}", Outcome::Protocol.name()),
            ProbeFault::Closed => write!(
                f,
                "{}: the server closed the connection without a response",
                Outcome::ClosedEarly.name()
            ),
        }
    }
}

impl std::error::Error for ProbeError {}
