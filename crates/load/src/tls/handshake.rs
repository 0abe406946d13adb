//! A handshake, performed by rustls.

use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError};

use super::config::{GivenTlsOptions, TlsClient};
use super::records::{PeerSpeaks, RecordScan};
use super::state::{NegotiatedTls, TlsBuffers};
use super::traffic::TlsTraffic;

/// Largest amount of application data that a correct server sends during a handshake, in bytes.
const EARLY_BYTES_MAX: usize = 64 * 1024;

/// A connection until its handshake is complete.
///
/// The handshake is complete when TLS is established and no partial record remains. Only then can
/// the keys be passed to [`TlsTraffic`], which decrypts the next record. In practice this causes no
/// delay, because servers send the messages that follow the handshake (tickets) in complete
/// records.
pub(crate) struct TlsHandshake {
    /// The rustls connection; `None` once the keys have been passed on.
    connection: Option<Box<UnbufferedClientConnection>>,
    /// Received records that aren't processed yet.
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Application data that arrived before this side had completed the handshake, from a server
    /// that sends first (RFC 8446 §4.4.4).
    early: Vec<u8>,
    done: bool,
    peer_has_closed: bool,
    records: RecordScan,
    pub(super) given: GivenTlsOptions,
    alpn: &'static [&'static [u8]],
    keeps_tickets: bool,
}

impl TlsHandshake {
    pub(super) fn new(
        client: &TlsClient,
        name: &ServerName<'static>,
    ) -> Result<TlsHandshake, Error> {
        let connection = UnbufferedClientConnection::new(client.config.clone(), name.clone())?;
        let mut handshake = TlsHandshake {
            connection: Some(Box::new(connection)),
            incoming: Vec::new(),
            outgoing: Vec::new(),
            early: Vec::new(),
            done: false,
            peer_has_closed: false,
            records: RecordScan::default(),
            given: client.given,
            alpn: client.alpn,
            keeps_tickets: client.resumption,
        };
        handshake.advance()?;
        Ok(handshake)
    }

    pub(super) fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// Protocol that the peer's first bytes suggest.
    pub(super) fn peer_speaks(&self) -> PeerSpeaks {
        self.records.peer_speaks()
    }

    /// Adds `bytes` to the handshake, and advances the handshake as far as possible.
    pub(super) fn receive(&mut self, bytes: &[u8], buffers: &mut TlsBuffers) -> Result<(), Error> {
        // rustls ignores close_notify until the version is negotiated.
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

    /// Runs rustls until it needs more input.
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
                // The caller sends the output later.
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    true
                }
                ConnectionState::ReadTraffic(mut data) => {
                    while let Some(record) = data.next_record() {
                        self.early.extend_from_slice(record?.payload);
                    }
                    if self.early.len() > EARLY_BYTES_MAX {
                        let text = "the server sent too much data before the end of the handshake";
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
                // The connection is blocked or closed, or in a state that only servers have.
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

    /// Returns the connection for application data once the handshake is complete.
    pub(super) fn finish(&mut self) -> Result<Option<TlsTraffic>, Error> {
        if !self.done || !self.incoming.is_empty() {
            return Ok(None);
        }
        let Some(connection) = self.connection.take() else {
            return Ok(None);
        };
        let Some(agreed) = NegotiatedTls::of(&connection, self.alpn) else {
            return Err(Error::HandshakeNotComplete);
        };
        let (secrets, schedule) = connection.dangerous_into_kernel_connection()?;
        let outgoing = std::mem::take(&mut self.outgoing);
        TlsTraffic::new(secrets, schedule, agreed, self.keeps_tickets, outgoing).map(Some)
    }

    /// Removes and returns the application data that arrived during the handshake.
    pub(super) fn take_early(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.early)
    }

    /// Appends the output that is not yet sent.
    pub(super) fn take_out(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.outgoing);
    }
}

/// Appends the output of `encode`, which first reports its size.
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
