//! TLS, implemented by rustls and driven through buffers: ciphertext in, plaintext out, and the
//! reverse.
//!
//! ```text
//! TlsSettings ─(one per worker)─► TlsClient ─(one per connection)─► TlsHandshake ─► TlsTraffic
//! from the flags                  sessions                          rustls           records
//! ```
//!
//! rustls performs the handshakes and keeps the key schedule and the sessions. After a handshake it
//! exports the keys, through its interface for TLS in the kernel. Records are then decrypted and
//! encrypted here ([`TlsTraffic`]): received bytes go into one buffer for all of a worker's
//! connections, and sent bytes directly into the output buffer. rustls itself would copy each
//! record three times and allocate twice.
//!
//! Nothing here uses sockets, clocks or HTTP.

mod certificate;
mod cipher;
mod config;
mod handshake;
mod records;
mod sessions;
mod suites;
#[cfg(test)]
mod tests;
mod traffic;
mod verify;

use rustls::pki_types::ServerName;
use rustls::{CommonState, HandshakeKind, NamedGroup, ProtocolVersion, SupportedCipherSuite};

use prony_record::Negotiated;

pub(crate) use config::{GivenTlsOptions, HTTP2, HTTP3, TlsClient, TlsSettings};
use handshake::TlsHandshake;
pub(crate) use records::PeerSpeaks;
pub use suites::openssl_name;
use traffic::TlsTraffic;

/// Maximum number of buffers for partial records that a worker keeps for reuse.
const SPARE_BUFFERS_MAX: usize = 64;
/// Largest plaintext of a record with its content type and authentication tag, in bytes (RFC 8446
/// §5.2).
const DECRYPTED_BYTES_MAX: usize = (1 << 14) + 256;

/// Seeds this thread's random number generator, which may take tens of milliseconds, before the
/// first handshake of a load. If it fails, the handshakes report the error.
pub(crate) fn seed_random_numbers() {
    let _ = aws_lc_rs::rand::fill(&mut [0]);
}

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
    fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS_MAX && buffer.capacity() > 0 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn plain(&mut self) -> &mut [u8] {
        if self.plain.is_empty() {
            self.plain.resize(DECRYPTED_BYTES_MAX, 0);
        }
        &mut self.plain
    }
}

/// Parameters negotiated by a handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NegotiatedTls {
    version: ProtocolVersion,
    suite: SupportedCipherSuite,
    /// Group of the key exchange; `None` for a session that was resumed without a key exchange.
    group: Option<NamedGroup>,
    /// Bits of the server's public key, if its kind is known.
    server_key_bits: Option<u32>,
    /// Protocol chosen by ALPN.
    pub(crate) alpn: Option<&'static [u8]>,
    /// True if an earlier session was resumed.
    pub(crate) resumed: bool,
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
        })
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

/// TLS of one connection.
pub(crate) enum Tls {
    /// The handshake is in progress.
    Handshaking(Box<TlsHandshake>),
    /// Application data can be exchanged.
    Open(Box<TlsTraffic>),
}

impl Tls {
    /// Starts a handshake, whose first flight is available from [`Tls::take_out`].
    pub(crate) fn new(
        client: &TlsClient,
        name: &ServerName<'static>,
    ) -> Result<Tls, rustls::Error> {
        Ok(Tls::Handshaking(Box::new(TlsHandshake::new(client, name)?)))
    }

    /// TLS settings that the user has set. After the handshake, no hint needs them.
    pub(crate) fn given(&self) -> GivenTlsOptions {
        match self {
            Tls::Handshaking(handshake) => handshake.given,
            Tls::Open(_) => GivenTlsOptions::default(),
        }
    }

    /// Protocol that the peer's first bytes suggest, during the handshake.
    pub(crate) fn peer_speaks(&self) -> PeerSpeaks {
        match self {
            Tls::Handshaking(handshake) => handshake.peer_speaks(),
            Tls::Open(_) => PeerSpeaks::Tls,
        }
    }

    /// Returns true if the peer announced that it sends nothing more (close_notify, RFC 8446 §6.1).
    pub(crate) fn peer_has_closed(&self) -> bool {
        match self {
            Tls::Handshaking(handshake) => handshake.peer_has_closed(),
            Tls::Open(traffic) => traffic.peer_has_closed(),
        }
    }

    /// Negotiated parameters; `None` during the handshake.
    pub(crate) fn agreed(&self) -> Option<&NegotiatedTls> {
        match self {
            Tls::Handshaking(_) => None,
            Tls::Open(traffic) => Some(traffic.agreed()),
        }
    }

    /// Consumes bytes from the front of `ciphertext`, up to the next event.
    ///
    /// # Errors
    ///
    /// Returns an error if the peer violated TLS or ended the connection with an alert. The
    /// connection can't be used after an error.
    #[inline]
    pub(crate) fn receive<'b>(
        &mut self,
        ciphertext: &mut &[u8],
        buffers: &'b mut TlsBuffers,
    ) -> Result<TlsEvent<'b>, rustls::Error> {
        match self {
            Tls::Open(traffic) => traffic.receive(ciphertext, buffers),
            Tls::Handshaking(handshake) => {
                let bytes = std::mem::take(ciphertext);
                handshake.receive(bytes, buffers)?;
                let Some(traffic) = handshake.finish()? else {
                    return Ok(TlsEvent::NeedMore);
                };
                let early = handshake.take_early();
                *self = Tls::Open(Box::new(traffic));
                Ok(TlsEvent::Secured { early })
            }
        }
    }

    /// Appends TLS's own messages, and then `plain`, to the output. `plain` must be empty until the
    /// handshake is done.
    pub(crate) fn take_out(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        match self {
            Tls::Handshaking(handshake) => handshake.take_out(out),
            Tls::Open(traffic) => traffic.take_out(plain, out),
        }
    }
}
