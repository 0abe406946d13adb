//! Reasons for failed requests, as text.

use std::fmt;
use std::io;

use prony_protocol::h2::StartError;
use prony_protocol::{h1, h2, h3};
use prony_record::CallFailure;

use super::call_explanation::CallExplanation;
use super::fault::{ResetCode, SocketFault, StreamFault};
use crate::exchange::StreamFailure;
use crate::quic::QuicEnd;
use crate::tls::{GivenTlsOptions, PeerSpeaks};

/// Reason for a failure, where the outcome alone doesn't explain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The peer violated HTTP/1.
    Http1(h1::Violation),
    /// The peer violated HTTP/2, so the whole connection failed.
    Http2(h2::Violation),
    /// The peer responded with HTTP/1 to a cleartext request over HTTP/2.
    CleartextHttp1,
    /// The response to a cleartext request says with this phrase that the port expects TLS.
    ExpectsTls(&'static str),
    /// The peer violated HTTP/3 or QUIC, so the whole connection failed.
    Http3(h3::Violation),
    /// The response violated HTTP/2 or HTTP/3 on its stream.
    Stream(StreamFault),
    /// A streamed response is incomplete, or its events couldn't be read.
    IncompleteStream(StreamFailure),
    /// A WebSocket ended or was not opened.
    WebSocket(SocketFault),
    /// A gRPC call failed. The server may have explained why.
    Call(CallFailure, Option<CallExplanation>),
    /// The peer reset the stream.
    Reset {
        code: ResetCode,
        /// True if the peer refused the request for the second time, without processing it.
        again: bool,
    },
    /// The peer ended the connection with an error code.
    GoneAway(ResetCode),
    /// No request can be started on this connection.
    NotStarted(StartError),
    /// The server switched to another protocol (101) unasked.
    SwitchedProtocols,
    /// HTTP/2 was required, but ALPN did not select it.
    NoHttp2,
    /// A proxy did not open a tunnel. The variant holds the status of the proxy's response, if
    /// there was one.
    NoTunnel(Option<u16>),
    /// The load's limit of redirects, which fails requests beyond it.
    RedirectLimit(u64),
    /// The operating system's error with this code.
    System(i32),
    /// Any other reason.
    Text(String),
}

impl Reason {
    /// The reason for the failure of a connection that the peer gives up without an error.
    pub(crate) fn gone_away() -> Reason {
        Reason::GoneAway(ResetCode::Http2(h2::ErrorCode::NO_ERROR))
    }

    /// The reason why a raw request can't be sent on a connection of HTTP/2 or 3.
    pub(crate) fn only_http1() -> Reason {
        let text = "the request is raw HTTP/1, but the connection uses HTTP/2 or HTTP/3";
        Reason::Text(text.to_owned())
    }

    /// Returns the reason in terms of the request that failed: a switch of protocols may have been
    /// asked for.
    pub(crate) fn of_request(self, request: &[u8]) -> Reason {
        match self {
            Reason::SwitchedProtocols if h1::asks_to_upgrade(request) => {
                let text = "the server switched to another protocol (101), as the request's header \
                            Upgrade asked; WebSocket is not supported";
                Reason::Text(text.to_owned())
            }
            reason => reason,
        }
    }

    /// The reason for a failed operation on a socket.
    pub(crate) fn of_io(error: &io::Error) -> Reason {
        match error.raw_os_error() {
            Some(code) => Reason::System(code),
            None => Reason::Text(error.to_string()),
        }
    }

    /// The reason why a QUIC connection was not established.
    pub(crate) fn of_quic(end: &QuicEnd, given: GivenTlsOptions) -> Reason {
        match end {
            QuicEnd::Tls(error) => Reason::of_tls(error, PeerSpeaks::Tls, given),
            QuicEnd::Alert(alert) => {
                let error = rustls::Error::AlertReceived((*alert).into());
                Reason::of_tls(&error, PeerSpeaks::Tls, given)
            }
            QuicEnd::Closed { .. } | QuicEnd::Aborted { .. } => Reason::Text(end.to_string()),
        }
    }

    /// The reason for a TLS error, with a hint that depends on the bytes that the peer sent and on
    /// the settings that the user has set.
    pub(crate) fn of_tls(
        error: &rustls::Error,
        peer: PeerSpeaks,
        given: GivenTlsOptions,
    ) -> Reason {
        use rustls::AlertDescription::{
            BadCertificate, CertificateRequired, CertificateUnknown, HandshakeFailure,
            InternalError, NoApplicationProtocol, ProtocolVersion, UnknownCA, UnrecognisedName,
            UnsupportedCertificate,
        };
        use rustls::CertificateError;
        use rustls::Error::{
            AlertReceived, InvalidCertificate, InvalidMessage, PeerIncompatible, PeerMisbehaved,
        };
        use rustls::PeerMisbehaved::SelectedUnofferedApplicationProtocol;
        let hint = match error {
            // rustls has no variant for webpki's error about a CA certificate that a server uses as
            // its own. `openssl req -x509` creates such certificates.
            InvalidCertificate(CertificateError::Other(other))
                if other.to_string() == "CaUsedAsEndEntity" =>
            {
                let text = "the server's certificate is a CA certificate (CA:TRUE), which is not \
                            valid for a server; accept it with --insecure, or create one with \
                            CA:FALSE";
                return Reason::Text(text.to_owned());
            }
            InvalidCertificate(certificate) => hint_of_certificate(certificate, given),
            InvalidMessage(_) if peer == PeerSpeaks::Http => {
                "; the server responded with cleartext HTTP: use http:// for this port"
            }
            InvalidMessage(_) if peer == PeerSpeaks::Other => {
                "; the server does not speak TLS on this port"
            }
            AlertReceived(NoApplicationProtocol)
            | PeerMisbehaved(SelectedUnofferedApplicationProtocol) => {
                "; the server supports none of the offered HTTP versions; without --http, prony \
                 offers 2 and 1.1"
            }
            AlertReceived(HandshakeFailure | ProtocolVersion) | PeerIncompatible(_) => {
                "; the two sides may have no TLS version, cipher suite, key exchange group or \
                 signature algorithm in common (--tls-min, --tls-max, --ciphers, --groups, \
                 --signature-algorithms)"
            }
            AlertReceived(CertificateRequired) if given.cert => {
                "; the server requires a client certificate, and accepts none of the CA that signed \
                 the one in --cert"
            }
            AlertReceived(CertificateRequired) => {
                "; the server requires a client certificate (--cert, --key)"
            }
            AlertReceived(
                BadCertificate | UnknownCA | UnsupportedCertificate | CertificateUnknown,
            ) => "; the server does not accept the client certificate (--cert, --key)",
            AlertReceived(UnrecognisedName | InternalError) if given.sni => {
                "; the server may have no certificate for the name in --sni"
            }
            AlertReceived(UnrecognisedName) => {
                "; the server has no certificate for this name: use one of the server's names, or set \
                 one with --sni"
            }
            // Caddy and other servers in Go send this unspecific alert if they have no certificate
            // for the host.
            AlertReceived(InternalError) => {
                "; the server may have no certificate for this host: use one of the server's names, or \
                 set one with --sni"
            }
            _ => "",
        };
        Reason::Text(format!("{error}{hint}"))
    }
}

/// Returns a hint about a rejected certificate.
fn hint_of_certificate(error: &rustls::CertificateError, given: GivenTlsOptions) -> &'static str {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    match error {
        // Only the signature of the handshake was checked.
        _ if given.insecure => "",
        UnknownIssuer if given.ca => {
            "; no certificate in the --ca file belongs to the CA that signed it; name that CA's \
             file, or use --insecure to accept any certificate"
        }
        NotValidForName | NotValidForNameContext { .. } if given.sni => {
            "; the certificate does not have the name in --sni; use one of its names, or accept any \
             certificate with --insecure"
        }
        UnknownIssuer => {
            "; use --ca to pass the CA that signed the certificate, or --insecure to accept any \
             certificate, including a self-signed one"
        }
        NotValidForName | NotValidForNameContext { .. } => {
            "; use a name in the certificate, set it with --sni, or accept any certificate with \
             --insecure"
        }
        Expired | ExpiredContext { .. } => {
            "; renew the certificate, or accept any certificate with --insecure"
        }
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
                let hint = match violation {
                    h1::Violation::Http2 => "; request HTTP/2 with --http 2",
                    h1::Violation::Tls => "; this port expects TLS: use https://",
                    _ => "",
                };
                write!(f, "{violation}{hint}")
            }
            Reason::Http2(violation) => {
                let hint = match violation {
                    h2::Violation::Http1 => "; remove --http 2",
                    h2::Violation::Tls => "; this port expects TLS: use https://",
                    _ => "",
                };
                write!(f, "{violation}{hint}")
            }
            Reason::CleartextHttp1 => write!(
                f,
                "{}; remove --http 2, or use https:// if the port expects TLS",
                h2::Violation::Http1
            ),
            Reason::ExpectsTls(phrase) => {
                write!(f, "\"{phrase}\"; this port expects TLS: use https://")
            }
            Reason::Http3(violation) => violation.fmt(f),
            Reason::WebSocket(fault) => fault.fmt(f),
            Reason::Stream(fault) => fault.fmt(f),
            Reason::IncompleteStream(failure) => f.write_str(failure.text()),
            Reason::Call(failure, explanation) => {
                match (failure.status_name(), failure.code()) {
                    (Some(name), Some(code)) => write!(f, "{name} ({code})")?,
                    _ => f.write_str(failure.meaning())?,
                }
                match explanation {
                    Some(CallExplanation(text)) => write!(f, ": \"{text}\""),
                    None => Ok(()),
                }
            }
            Reason::Reset { code, again: false } => {
                write!(f, "the server reset the stream ({code})")
            }
            Reason::Reset { code, again: true } => {
                write!(f, "the server refused the request twice ({code})")
            }
            Reason::GoneAway(code) => write!(f, "the server ended the connection ({code})"),
            Reason::NotStarted(error) => error.fmt(f),
            Reason::SwitchedProtocols => {
                f.write_str("status 101 without a request to switch protocols")
            }
            Reason::NoHttp2 => f.write_str(
                "the server did not select HTTP/2 by ALPN; without --http 2, prony uses the version that \
                 the server selects",
            ),
            Reason::NoTunnel(Some(407)) => f.write_str(
                "the proxy responded to CONNECT with 407: it requires credentials \
                 (--proxy http://USER:PASSWORD@HOST:PORT)",
            ),
            Reason::NoTunnel(Some(status)) => {
                write!(f, "the proxy responded to CONNECT with {status}")
            }
            Reason::NoTunnel(None) => {
                f.write_str("the proxy closed the connection without a response to CONNECT")
            }
            Reason::RedirectLimit(max) => write!(f, "stopped after {max} redirects"),
            Reason::System(code) => io::Error::from_raw_os_error(*code).fmt(f),
            Reason::Text(text) => f.write_str(text),
        }
    }
}
