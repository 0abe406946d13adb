//! Why a request failed, in words.

use std::fmt;

use prony_protocol::h2::{ErrorCode, StartError, StreamViolation};
use prony_protocol::{h1, h2};

/// Why a request failed, where its outcome alone doesn't say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The peer broke HTTP/1.
    Http1(h1::Violation),
    /// The peer broke HTTP/2 on the whole connection.
    Http2(h2::Violation),
    /// The peer broke HTTP/2 on one stream.
    Stream(StreamViolation),
    /// The peer reset the stream.
    Reset {
        /// Why.
        code: ErrorCode,
        /// It did nothing with the request, which had been sent for the second time.
        again: bool,
    },
    /// The peer ended the connection for a reason of its own.
    GoneAway(ErrorCode),
    /// The request can't be made on this connection.
    NotStarted(StartError),
    /// HTTP/2 was asked for, and ALPN did not agree on it.
    NoHttp2,
    /// A proxy made no tunnel: the status that it answered, if it did.
    NoTunnel(Option<u16>),
    /// Anything else.
    Text(String),
}

impl Reason {
    /// What TLS says, with the mend where there is one.
    pub(crate) fn of_tls(error: &rustls::Error) -> Reason {
        use rustls::AlertDescription::NoApplicationProtocol;
        use rustls::CertificateError;
        use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, PeerMisbehaved};
        use rustls::PeerMisbehaved::SelectedUnofferedApplicationProtocol;
        let mend = match error {
            // webpki's own error, which has no name here; `openssl req -x509` makes such certificates.
            InvalidCertificate(CertificateError::Other(other))
                if other.to_string() == "CaUsedAsEndEntity" =>
            {
                let text = "the server's certificate is that of an authority (CA:TRUE), which none may \
                            show as its own; accept it with --insecure, or make one with CA:FALSE";
                return Reason::Text(text.to_owned());
            }
            InvalidCertificate(_) => {
                "; name the authority that signed the certificate with --ca, or accept any with \
                 --insecure, as for one that signed itself"
            }
            InvalidMessage(_) => "; does the server speak TLS on this port, or plain http?",
            AlertReceived(NoApplicationProtocol)
            | PeerMisbehaved(SelectedUnofferedApplicationProtocol) => {
                "; the server speaks none of the HTTP versions offered; without --http both 2 and \
                 1.1 are"
            }
            _ => "",
        };
        Reason::Text(format!("{error}{mend}"))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Http1(violation) => {
                let mend = match violation {
                    h1::Violation::Http2 => "; ask for that with --http 2",
                    _ => "",
                };
                write!(f, "{violation}{mend}")
            }
            Reason::Http2(violation) => {
                let mend = match violation {
                    h2::Violation::Http1 => "; leave --http 2 out, or does the port want https?",
                    _ => "",
                };
                write!(f, "{violation}{mend}")
            }
            Reason::Stream(violation) => violation.fmt(f),
            Reason::Reset { code, again: false } => {
                write!(f, "the server reset the stream ({code})")
            }
            Reason::Reset { code, again: true } => {
                write!(f, "the server refused the request twice ({code})")
            }
            Reason::GoneAway(code) => write!(f, "the server ended the connection ({code})"),
            Reason::NotStarted(error) => error.fmt(f),
            Reason::NoHttp2 => f.write_str(
                "the server did not agree on HTTP/2 by ALPN; without --http 2 prony takes what it \
                 agrees on",
            ),
            Reason::NoTunnel(Some(407)) => f.write_str(
                "the proxy answered CONNECT with 407: it wants credentials \
                 (--proxy http://USER:PASSWORD@HOST:PORT)",
            ),
            Reason::NoTunnel(Some(status)) => {
                write!(f, "the proxy answered CONNECT with {status}")
            }
            Reason::NoTunnel(None) => {
                f.write_str("the proxy closed the connection without an answer to CONNECT")
            }
            Reason::Text(text) => f.write_str(text),
        }
    }
}
