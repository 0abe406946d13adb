//! TLS by rustls, driven through buffers: ciphertext in, plain bytes out, and the reverse.
//!
//! ```text
//!  Settings ─(one a worker)─► Client ─(one a connection)─► Handshake ─► Traffic
//!  as resolved                sessions                     rustls       records, sealed here
//! ```
//!
//! rustls makes the handshakes and keeps the key schedule and the sessions. Once a handshake is
//! done it hands the keys over, by the interface that it offers for TLS in the kernel, and records
//! are opened and sealed here ([`Traffic`]): straight from the socket's bytes into one buffer for
//! all of a worker's connections, and straight into the buffer that is sent. rustls's own way
//! copies each record three times and allocates for it twice.
//!
//! Nothing here knows sockets, clocks or HTTP.

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
use rustls::{NamedGroup, ProtocolVersion, SupportedCipherSuite};

use prony_record::Negotiated;

pub(crate) use config::{Client, HTTP2, Settings};
use handshake::Handshake;
pub(crate) use records::PeerSpeaks;
use traffic::Traffic;

/// Partly received records that a worker keeps memory for, once they are whole.
const SPARES: usize = 64;
/// The most that a record holds in clear, and a content type and an authentication tag beside it
/// (RFC 8446 §5.2).
const LONGEST_OPENED: usize = (1 << 14) + 256;

/// Has this thread's random numbers seeded, which may take tens of milliseconds: not a thing for the
/// first handshake of a load. Where it fails, handshakes will and say so.
pub(crate) fn seed_random_numbers() {
    let _ = aws_lc_rs::rand::fill(&mut [0]);
}

/// What bytes from the peer came to.
#[derive(Debug)]
pub(crate) enum Event<'b> {
    /// All of them were taken; more is needed.
    NeedMore,
    /// The handshake is done; all bytes were taken.
    Secured {
        /// Application data that came along with it, before anything could be asked for.
        early: Vec<u8>,
    },
    /// Application data.
    Plain(&'b [u8]),
}

/// The memory that all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Takes each record that is opened.
    plain: Vec<u8>,
    /// For records that have come in part.
    spare: Vec<Vec<u8>>,
}

impl Buffers {
    fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARES && buffer.capacity() > 0 {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn plain(&mut self) -> &mut [u8] {
        if self.plain.is_empty() {
            self.plain.resize(LONGEST_OPENED, 0);
        }
        &mut self.plain
    }
}

/// What a handshake agreed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    version: ProtocolVersion,
    suite: SupportedCipherSuite,
    /// The group of the key exchange; none where a session was resumed without one.
    group: Option<NamedGroup>,
    /// Bits of the server's public key, where it is of a known kind.
    server_key_bits: Option<u32>,
    /// The protocol that ALPN chose, of those that were offered.
    pub(crate) alpn: Option<&'static [u8]>,
    /// The handshake went on from an earlier connection's session.
    pub(crate) resumed: bool,
}

impl Agreed {
    /// As the record tells it.
    pub(crate) fn negotiated(&self) -> Negotiated {
        let version = self.version.as_str();
        Negotiated {
            http: None,
            tls: version.map(|name| name.replacen("TLSv1_", "TLSv1.", 1)),
            cipher: Some(suites::name(self.suite)),
            group: self.group.map(|group| format!("{group:?}")),
            server_key_bits: self.server_key_bits,
            alpn: self
                .alpn
                .map(|name| String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// One connection's TLS.
pub(crate) enum Tls {
    /// Not yet agreed.
    Handshaking(Box<Handshake>),
    /// Application data flows.
    Open(Box<Traffic>),
}

impl Tls {
    /// A handshake whose first flight is ready in [`Tls::take_out`].
    pub(crate) fn new(client: &Client, name: &ServerName<'static>) -> Result<Tls, rustls::Error> {
        Ok(Tls::Handshaking(Box::new(Handshake::new(client, name)?)))
    }

    /// The protocol that the peer's first bytes belong to, while the handshake runs.
    pub(crate) fn peer_speaks(&self) -> PeerSpeaks {
        match self {
            Tls::Handshaking(handshake) => handshake.peer_speaks(),
            Tls::Open(_) => PeerSpeaks::Tls,
        }
    }

    /// The peer said goodbye: nothing more will come (close_notify, RFC 8446 §6.1).
    pub(crate) fn peer_has_closed(&self) -> bool {
        match self {
            Tls::Handshaking(handshake) => handshake.peer_has_closed(),
            Tls::Open(traffic) => traffic.peer_has_closed(),
        }
    }

    /// What was agreed on; nothing yet while the handshake runs.
    pub(crate) fn agreed(&self) -> Option<&Agreed> {
        match self {
            Tls::Handshaking(_) => None,
            Tls::Open(traffic) => Some(traffic.agreed()),
        }
    }

    /// Takes bytes off the front of `ciphertext`, up to the next event.
    ///
    /// # Errors
    ///
    /// Where the peer broke TLS or refused; the connection is of no more use.
    #[inline]
    pub(crate) fn receive<'b>(
        &mut self,
        ciphertext: &mut &[u8],
        buffers: &'b mut Buffers,
    ) -> Result<Event<'b>, rustls::Error> {
        match self {
            Tls::Open(traffic) => traffic.receive(ciphertext, buffers),
            Tls::Handshaking(handshake) => {
                let bytes = std::mem::take(ciphertext);
                handshake.receive(bytes, buffers)?;
                let Some(traffic) = handshake.finish()? else {
                    return Ok(Event::NeedMore);
                };
                let early = handshake.take_early();
                *self = Tls::Open(Box::new(traffic));
                Ok(Event::Secured { early })
            }
        }
    }

    /// Appends what TLS has to say by itself, and then `plain`, to what is to be sent. No plain
    /// bytes may be given before the handshake is done.
    pub(crate) fn take_out(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        match self {
            Tls::Handshaking(handshake) => handshake.take_out(out),
            Tls::Open(traffic) => traffic.take_out(plain, out),
        }
    }
}
