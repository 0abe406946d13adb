//! Types that the states of a TLS connection share: events, buffers, and negotiated parameters.

use prony_record::{Nanos, Negotiated, TlsGroup, TlsHandshake};
use rustls::{CommonState, HandshakeKind, NamedGroup, ProtocolVersion, SupportedCipherSuite};

use super::{certificate, suites};

/// Maximum number of buffers for partial records that a worker keeps for reuse.
const SPARE_BUFFERS_MAX: usize = 64;
/// Largest plaintext of a record with its content type and authentication tag, in bytes (RFC 8446
/// §5.2).
const DECRYPTED_BYTES_MAX: usize = (1 << 14) + 256;

/// Result of processing bytes from the peer.
#[derive(Debug)]
pub(crate) enum TlsEvent<'b> {
    /// All bytes were consumed; more are needed.
    NeedMore,
    /// The handshake is done, and all bytes were consumed.
    Secured {
        /// Application data that arrived with the end of the handshake, before any request.
        early: Vec<u8>,
    },
    /// Application data.
    Plain(&'b [u8]),
}

/// Memory shared by all connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct TlsBuffers {
    /// Plaintext of the latest record.
    plain: Vec<u8>,
    /// Buffers for partial records.
    spare: Vec<Vec<u8>>,
}

impl TlsBuffers {
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() > 0 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    pub(super) fn plain(&mut self) -> &mut [u8] {
        if self.plain.is_empty() {
            self.plain.resize(DECRYPTED_BYTES_MAX, 0);
        }
        &mut self.plain
    }
}

/// Parameters negotiated by a handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NegotiatedTls {
    pub(super) version: ProtocolVersion,
    pub(super) suite: SupportedCipherSuite,
    /// Group of the key exchange; `None` for a session that was resumed without a key exchange.
    group: Option<NamedGroup>,
    /// Bits of the server's public key, if its kind is known.
    server_key_bits: Option<u32>,
    /// Protocol chosen by ALPN.
    pub(crate) alpn: Option<&'static [u8]>,
    /// True if an earlier session was resumed.
    pub(super) resumed: bool,
    /// True if the server asked for another key share. Unknown for resumed sessions.
    hello_retried: bool,
}

impl NegotiatedTls {
    /// Returns the parameters of a connection; `None` during the handshake.
    pub(crate) fn of(state: &CommonState, offered: &[&'static [u8]]) -> Option<NegotiatedTls> {
        let chosen = state.alpn_protocol();
        let certificates = state.peer_certificates();
        Some(NegotiatedTls {
            version: state.protocol_version()?,
            suite: state.negotiated_cipher_suite()?,
            group: state
                .negotiated_key_exchange_group()
                .map(|group| group.name()),
            server_key_bits: certificates
                .and_then(|chain| certificate::public_key(chain.first()?)?.bits()),
            alpn: offered.iter().copied().find(|name| Some(*name) == chosen),
            resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
            hello_retried: state.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest),
        })
    }

    /// Returns the handshake that ended with these parameters, as the recorder counts it.
    pub(crate) fn handshake_of(agreed: Option<&NegotiatedTls>, took: Nanos) -> TlsHandshake {
        TlsHandshake {
            took,
            resumed: agreed.is_some_and(|agreed| agreed.resumed),
            group: agreed.and_then(|agreed| agreed.group).map(|group| {
                group
                    .as_str()
                    .map_or_else(|| TlsGroup::of(""), TlsGroup::of)
            }),
            hello_retried: agreed.is_some_and(|agreed| agreed.hello_retried),
        }
    }

    /// Converts the parameters to the form in which a record stores them.
    pub(crate) fn negotiated(&self) -> Negotiated {
        let version = self.version.as_str();
        Negotiated {
            http: None,
            tls: version.map(|name| name.replacen("TLSv1_", "TLSv1.", 1)),
            cipher: Some(suites::suite_name(self.suite)),
            group: self.group.map(|group| format!("{group:?}")),
            server_key_bits: self.server_key_bits,
            alpn: self
                .alpn
                .map(|name| String::from_utf8_lossy(name).into_owned()),
        }
    }
}
