//! Why a request failed, in words.

use std::fmt;

use prony_protocol::h2::{ErrorCode, StartError, StreamViolation};
use prony_protocol::{h1, h2};

use crate::tls::PeerSpeaks;

/// Why a request failed, where its outcome alone doesn't say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The peer broke HTTP/1.
    Http1(h1::Violation),
    /// The peer broke HTTP/2 on the whole connection.
    Http2(h2::Violation),
    /// The peer speaks HTTP/1 where HTTP/2 was spoken to it in cleartext.
    CleartextHttp1,
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
    /// The error of TLS, with a hint that fits what the peer sent.
    pub(crate) fn of_tls(error: &rustls::Error, peer: PeerSpeaks) -> Reason {
        use rustls::AlertDescription::{
            BadCertificate, CertificateRequired, CertificateUnknown, HandshakeFailure,
            NoApplicationProtocol, ProtocolVersion, UnknownCA, UnrecognisedName,
            UnsupportedCertificate,
        };
        use rustls::CertificateError;
        use rustls::Error::{
            AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible, PeerMisbehaved,
        };
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
            InvalidCertificate(certificate) => hint_of_certificate(certificate),
            InvalidMessage(_) if peer == PeerSpeaks::Http => {
                "; the server responded with cleartext HTTP: use http:// for this port"
            }
            InvalidMessage(_) if peer == PeerSpeaks::Other => {
                "; the server does not speak TLS on this port"
            }
            AlertReceived(NoApplicationProtocol)
            | PeerMisbehaved(SelectedUnofferedApplicationProtocol) => {
                "; the server speaks none of the HTTP versions offered; without --http both 2 and \
                 1.1 are"
            }
            AlertReceived(HandshakeFailure | ProtocolVersion) | PeerIncompatible(_) => {
                "; the two sides may have no TLS version or cipher suite in common (--tls-min, \
                 --tls-max, --ciphers)"
            }
            AlertReceived(CertificateRequired) => {
                "; the server requires a client certificate (--cert, --key)"
            }
            AlertReceived(
                BadCertificate | UnknownCA | UnsupportedCertificate | CertificateUnknown,
            ) => "; the server does not accept the client certificate (--cert, --key)",
            AlertReceived(UnrecognisedName) => {
                "; the server knows no such name: use one that it has, or give one with --sni"
            }
            _ => "",
        };
        Reason::Text(format!("{error}{mend}"))
    }
}

/// The hint about a certificate that is not accepted.
fn hint_of_certificate(error: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    match error {
        UnknownIssuer => {
            "; name the authority that signed the certificate with --ca, or accept any with \
             --insecure, as for one that signed itself"
        }
        NotValidForName | NotValidForNameContext { .. } => {
            "; use a name that the certificate has, give it with --sni, or accept any certificate \
             with --insecure"
        }
        Expired | ExpiredContext { .. } => "; renew the certificate, or accept any with --insecure",
        NotValidYet | NotValidYetContext { .. } => {
            "; check the clocks of both machines, or accept any certificate with --insecure"
        }
        _ => "; accept any certificate with --insecure",
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
                    h2::Violation::Http1 => "; leave --http 2 out",
                    _ => "",
                };
                write!(f, "{violation}{mend}")
            }
            Reason::CleartextHttp1 => write!(
                f,
                "{}; leave --http 2 out, or use https:// if the port expects TLS",
                h2::Violation::Http1
            ),
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
