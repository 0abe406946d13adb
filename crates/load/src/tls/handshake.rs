//! A handshake, made by rustls.

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError};
use rustls::{Error, HandshakeKind};

use super::records::{PeerSpeaks, RecordScan};
use super::traffic::Traffic;
use super::{Agreed, Buffers, Client, certificate};

/// More application data than this, in bytes, along with a handshake is not honest.
const MOST_EARLY: usize = 64 * 1024;

/// A connection between its first byte and the moment at which it can be used.
///
/// That moment is when the handshake is done and no part of a record is left over: then, and only
/// then, the keys can go to whoever opens the next record. What servers send right behind the
/// handshake (tickets) comes in whole records, so that nothing waits for this in practice.
pub(crate) struct Handshake {
    /// None once its keys are handed over.
    connection: Option<Box<UnbufferedClientConnection>>,
    /// Records that have come and are not yet taken in.
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Application data that came before this side was done: what a server that speaks first may
    /// send behind its part of the handshake (RFC 8446 §4.4.4).
    early: Vec<u8>,
    done: bool,
    peer_has_closed: bool,
    records: RecordScan,
    alpn: &'static [&'static [u8]],
    keeps_tickets: bool,
}

impl Handshake {
    pub(super) fn new(client: &Client, name: &ServerName<'static>) -> Result<Handshake, Error> {
        let connection = UnbufferedClientConnection::new(client.config.clone(), name.clone())?;
        let mut handshake = Handshake {
            connection: Some(Box::new(connection)),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            early: Vec::new(),
            done: false,
            peer_has_closed: false,
            records: RecordScan::default(),
            alpn: client.alpn,
            keeps_tickets: client.resumption,
        };
        handshake.advance()?;
        Ok(handshake)
    }

    pub(super) fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// The protocol that the peer's first bytes belong to.
    pub(super) fn peer_speaks(&self) -> PeerSpeaks {
        self.records.peer_speaks()
    }

    /// Takes in all of `bytes`.
    pub(super) fn receive(&mut self, bytes: &[u8], buffers: &mut Buffers) -> Result<(), Error> {
        // rustls ignores this alert before the version is agreed on.
        self.peer_has_closed |= self.records.has_close_notify(bytes);
        if self.incoming.capacity() == 0 {
            self.incoming = buffers.take();
        }
        self.incoming.extend_from_slice(bytes);
        self.advance()?;
        if self.incoming.is_empty() {
            buffers.give_back(std::mem::take(&mut self.incoming));
        }
        Ok(())
    }

    /// Lets rustls go on until it needs more bytes.
    fn advance(&mut self) -> Result<(), Error> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let mut used = 0;
        loop {
            let status = connection.process_tls_records(&mut self.incoming[used..]);
            let go_on = match status.state? {
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut self.outgoing, |out| data.encode(out))?;
                    true
                }
                // Sent by the caller, who asks for it whenever it may have come about.
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::ReadTraffic(mut data) => {
                    while let Some(record) = data.next_record() {
                        self.early.extend_from_slice(record?.payload);
                    }
                    if self.early.len() > MOST_EARLY {
                        let text = "the server sent too much before the handshake was done";
                        return Err(Error::General(text.to_owned()));
                    }
                    true
                }
                ConnectionState::PeerClosed => {
                    self.peer_has_closed = true;
                    true
                }
                ConnectionState::WriteTraffic(_) => {
                    self.done = true;
                    false
                }
                // Blocked, or closed, or what only servers meet.
                _ => false,
            };
            used += status.discard;
            if !go_on {
                break;
            }
        }
        self.incoming.drain(..used);
        Ok(())
    }

    /// What follows the handshake, once it is done.
    pub(super) fn finish(&mut self) -> Result<Option<Traffic>, Error> {
        if !self.done || !self.incoming.is_empty() {
            return Ok(None);
        }
        let Some(connection) = self.connection.take() else {
            return Ok(None);
        };
        let (Some(version), Some(suite)) = (
            connection.protocol_version(),
            connection.negotiated_cipher_suite(),
        ) else {
            return Err(Error::HandshakeNotComplete);
        };
        let chosen = connection.alpn_protocol();
        let agreed = Agreed {
            version,
            suite,
            group: connection
                .negotiated_key_exchange_group()
                .map(|group| group.name()),
            server_key_bits: connection
                .peer_certificates()
                .and_then(|chain| certificate::key_bits(chain.first()?)),
            alpn: self.alpn.iter().copied().find(|name| Some(*name) == chosen),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        };
        let (secrets, schedule) = connection.dangerous_into_kernel_connection()?;
        let outgoing = std::mem::take(&mut self.outgoing);
        Traffic::new(secrets, schedule, agreed, self.keeps_tickets, outgoing).map(Some)
    }

    /// The application data that came along with the handshake, once.
    pub(super) fn take_early(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.early)
    }

    /// Appends what is to be sent.
    pub(super) fn take_out(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.outgoing);
    }
}

/// Appends what `data` encodes, which first tells how long it is.
fn encode(
    out: &mut Vec<u8>,
    mut data: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) -> Result<(), Error> {
    let start = out.len();
    if let Err(EncodeError::InsufficientSize(needed)) = data(&mut []) {
        out.resize(start + needed.required_size, 0);
        data(&mut out[start..]).map_err(|error| Error::General(error.to_string()))?;
    }
    Ok(())
}
