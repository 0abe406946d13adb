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
mod groups;
mod handshake;
mod records;
mod sessions;
mod signatures;
mod state;
mod suites;
#[cfg(test)]
mod tests;
mod traffic;
mod verify;

pub(crate) use config::{GivenTlsOptions, HTTP2, HTTP3, TlsClient, TlsSettings};
use handshake::TlsHandshake;
pub(crate) use records::PeerSpeaks;
use rustls::pki_types::ServerName;
pub(crate) use state::{NegotiatedTls, TlsBuffers, TlsEvent};
pub use suites::openssl_name;
use traffic::TlsTraffic;

/// Seeds this thread's random number generator, which may take tens of milliseconds, before the
/// first handshake of a load. If it fails, the handshakes report the error.
pub(crate) fn seed_random_numbers() {
    let _ = aws_lc_rs::rand::fill(&mut [0]);
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
