//! Reasons why a QUIC connection ended.

use std::fmt;

use prony_record::Outcome;
use quinn_proto::{ConnectionError, TransportErrorCode};

/// QUIC error codes that represent TLS alerts: 0x100 plus the alert (RFC 9001 §4.8).
const TLS_ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// Reason why a QUIC connection ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QuicEnd {
    /// The server closed the connection with an HTTP/3 error code, which may be H3_NO_ERROR.
    Closed { code: u64 },
    /// The TLS handshake failed on this side.
    Tls(rustls::Error),
    /// The server ended the handshake with a TLS alert.
    Alert(u8),
    /// The connection ended for another reason, such as a QUIC error code, a stateless reset or a
    /// timeout.
    Aborted { outcome: Outcome, text: String },
}

impl QuicEnd {
    /// Creates the reason for a lost connection. `tls_error` is the error that the TLS library
    /// reported, if there was one.
    pub(super) fn new(error: ConnectionError, tls_error: Option<rustls::Error>) -> QuicEnd {
        let aborted = |outcome, text: &str| QuicEnd::Aborted {
            outcome,
            text: text.to_owned(),
        };
        match error {
            ConnectionError::ApplicationClosed(close) => QuicEnd::Closed {
                code: close.error_code.into_inner(),
            },
            ConnectionError::ConnectionClosed(close) => {
                let code = u64::from(close.error_code);
                if TLS_ALERTS.contains(&code) {
                    return QuicEnd::Alert(code as u8);
                }
                let text = match String::from_utf8_lossy(&close.reason).trim() {
                    "" => close.error_code.to_string(),
                    reason => format!("{}: {}", close.error_code, shortened(reason)),
                };
                match close.error_code {
                    TransportErrorCode::NO_ERROR => {
                        aborted(Outcome::Reset, "the server closed the QUIC connection")
                    }
                    _ => aborted(
                        Outcome::Reset,
                        &format!("the server closed the QUIC connection with an error ({text})"),
                    ),
                }
            }
            ConnectionError::TransportError(error) => match tls_error {
                Some(error) => QuicEnd::Tls(error),
                None => aborted(
                    Outcome::Protocol,
                    &format!("the server violated the QUIC protocol ({error})"),
                ),
            },
            ConnectionError::VersionMismatch => aborted(
                Outcome::ConnectFailed,
                "the server does not support QUIC version 1 (RFC 9000), the only version that \
                prony supports",
            ),
            ConnectionError::Reset => aborted(
                Outcome::Reset,
                "the server lost the state of the QUIC connection (stateless reset)",
            ),
            ConnectionError::TimedOut => aborted(
                Outcome::Timeout,
                "the QUIC connection timed out: the server sent nothing within the negotiated idle timeout",
            ),
            ConnectionError::LocallyClosed => {
                aborted(Outcome::Reset, "prony closed the QUIC connection")
            }
            ConnectionError::CidsExhausted => aborted(
                Outcome::ConnectFailed,
                "no connection identifiers are left for another QUIC connection",
            ),
        }
    }
}

/// Returns the printable characters at the beginning of a message from the server.
fn shortened(text: &str) -> String {
    const CHARACTERS_MAX: usize = 100;
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(CHARACTERS_MAX).collect()
}

impl QuicEnd {
    /// Returns the outcome of a connection attempt that failed for this reason.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            QuicEnd::Closed { .. } => Outcome::ConnectFailed,
            QuicEnd::Tls(_) | QuicEnd::Alert(_) => Outcome::Tls,
            QuicEnd::Aborted { outcome, .. } => *outcome,
        }
    }
}

impl fmt::Display for QuicEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuicEnd::Closed { code } => {
                write!(f, "the server closed the connection (code {code:#x})")
            }
            QuicEnd::Tls(error) => error.fmt(f),
            QuicEnd::Alert(alert) => {
                write!(f, "{}", rustls::Error::AlertReceived((*alert).into()))
            }
            QuicEnd::Aborted { text, .. } => f.write_str(text),
        }
    }
}

impl std::error::Error for QuicEnd {}
