//! TLS after the handshake: application data and other messages.

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::{
    AlertDescription, Error, ExtractedSecrets, InvalidMessage, PeerMisbehaved, ProtocolVersion,
};

use super::cipher::{ContentType, HEADER_BYTES, PLAINTEXT_BYTES_MAX, RecordCipher, record_length};
use super::state::{NegotiatedTls, TlsBuffers, TlsEvent};

/// Maximum number of consecutive records without application data or a ticket. Without this limit,
/// a peer could keep the worker busy forever.
const IDLE_RECORDS_MAX: u8 = 32;
/// Maximum number of tickets kept from a connection; additional ones are ignored.
const TICKETS_MAX: u8 = 32;
/// Longest handshake message assembled from several records, in bytes.
const MESSAGE_BYTES_MAX: usize = 0xffff;
/// Size of the type and length of a handshake message, in bytes (RFC 8446 §4).
const MESSAGE_HEADER_BYTES: usize = 4;
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// A connection after its handshake.
pub(crate) struct TlsTraffic {
    /// rustls's key schedule, for key updates and tickets.
    schedule: KernelConnection<ClientConnectionData>,
    agreed: NegotiatedTls,
    opening: RecordCipher,
    sealing: RecordCipher,
    /// Number of records after which the sending keys must be replaced (RFC 8446 §5.5).
    records_per_key_max: u64,
    /// Sending keys that replace the current ones from the next record on.
    next_sealing: Option<Box<RecordCipher>>,
    /// Beginning of a record whose rest has not arrived.
    partial: Vec<u8>,
    /// Beginning of a handshake message whose rest has not arrived.
    message: Vec<u8>,
    /// Output of the handshake that is not yet sent.
    outgoing: Vec<u8>,
    idle_records: u8,
    /// Number of tickets received, up to [`TICKETS_MAX`].
    tickets: u8,
    /// True if the last message was a ticket.
    had_ticket: bool,
    peer_has_closed: bool,
    keeps_tickets: bool,
}

impl TlsTraffic {
    pub(super) fn new(
        secrets: ExtractedSecrets,
        schedule: KernelConnection<ClientConnectionData>,
        agreed: NegotiatedTls,
        keeps_tickets: bool,
        outgoing: Vec<u8>,
    ) -> Result<TlsTraffic, Error> {
        let records_per_key_max = match agreed.suite.tls13() {
            Some(suite) => suite.common.confidentiality_limit,
            // Only TLS 1.3 can replace keys. In TLS 1.2, nonces don't repeat and the data of a load
            // is not secret, so keys are kept.
            None => u64::MAX,
        };
        Ok(TlsTraffic {
            opening: RecordCipher::new(agreed.version, secrets.rx)?,
            sealing: RecordCipher::new(agreed.version, secrets.tx)?,
            schedule,
            agreed,
            records_per_key_max,
            next_sealing: None,
            partial: Vec::new(),
            message: Vec::new(),
            outgoing,
            idle_records: 0,
            tickets: 0,
            had_ticket: false,
            peer_has_closed: false,
            keeps_tickets,
        })
    }

    pub(super) fn agreed(&self) -> &NegotiatedTls {
        &self.agreed
    }

    pub(super) fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// See [`super::Tls::receive`].
    #[inline]
    pub(super) fn receive<'b>(
        &mut self,
        ciphertext: &mut &[u8],
        buffers: &'b mut TlsBuffers,
    ) -> Result<TlsEvent<'b>, Error> {
        while !self.peer_has_closed {
            let in_part = !self.partial.is_empty();
            if in_part && !self.complete(ciphertext)? {
                return Ok(TlsEvent::NeedMore);
            }
            let record = if in_part {
                &self.partial[..]
            } else {
                match whole_record(ciphertext)? {
                    Some(record) => record,
                    None => {
                        self.store_partial(ciphertext, buffers)?;
                        return Ok(TlsEvent::NeedMore);
                    }
                }
            };
            let (content, plain) = self.opening.open(record, buffers.plain())?;
            let length = plain.len();
            let is_data = content == ContentType::ApplicationData && length > 0;
            if is_data && self.message.is_empty() {
                self.idle_records = 0;
            } else {
                self.take_control(content, length, buffers)?;
            }
            if in_part {
                buffers.give_back(std::mem::take(&mut self.partial));
            }
            if self.sealing.sequence() >= self.records_per_key_max {
                self.renew_sealing()?;
            }
            if is_data {
                return Ok(TlsEvent::Plain(&buffers.plain()[..length]));
            }
        }
        // Data after close_notify is ignored (RFC 8446 §6.1).
        *ciphertext = &[];
        Ok(TlsEvent::NeedMore)
    }

    /// Extends the partial record. Returns true if it is complete.
    fn complete(&mut self, ciphertext: &mut &[u8]) -> Result<bool, Error> {
        loop {
            let (wanted, is_length_known) = match record_length(&self.partial)? {
                Some(length) => (length, true),
                None => (HEADER_BYTES, false),
            };
            let missing = wanted - self.partial.len();
            let (more, rest) = ciphertext.split_at(missing.min(ciphertext.len()));
            self.partial.extend_from_slice(more);
            *ciphertext = rest;
            if more.len() < missing {
                return Ok(false);
            }
            if is_length_known {
                return Ok(true);
            }
        }
    }

    /// Stores the start of a record until the rest arrives.
    fn store_partial(
        &mut self,
        ciphertext: &mut &[u8],
        buffers: &mut TlsBuffers,
    ) -> Result<(), Error> {
        if !ciphertext.is_empty() {
            self.partial = buffers.take();
            self.partial
                .reserve(record_length(ciphertext)?.unwrap_or(HEADER_BYTES));
            self.partial.extend_from_slice(ciphertext);
            *ciphertext = &[];
        }
        Ok(())
    }

    /// Handles a record without application data, whose content is the latest plaintext.
    #[cold]
    fn take_control(
        &mut self,
        content: ContentType,
        length: usize,
        buffers: &mut TlsBuffers,
    ) -> Result<(), Error> {
        self.idle_records += 1;
        if self.idle_records > IDLE_RECORDS_MAX {
            return Err(Error::General(format!(
                "more than {IDLE_RECORDS_MAX} consecutive TLS records without application data"
            )));
        }
        // "If a handshake message is split over two or more records, there MUST NOT be any other
        // records between them." (RFC 8446 §5.1)
        if content != ContentType::Handshake && !self.message.is_empty() {
            return Err(PeerMisbehaved::MessageInterleavedWithHandshakeMessage.into());
        }
        let bytes = &buffers.plain()[..length];
        match content {
            ContentType::ApplicationData => Ok(()),
            ContentType::Alert => self.alert(bytes),
            ContentType::Handshake => {
                self.message.extend_from_slice(bytes);
                let message = std::mem::take(&mut self.message);
                self.had_ticket = false;
                let taken = self.messages(&message)?;
                if self.had_ticket {
                    self.idle_records -= 1;
                }
                if message.len() - taken > MESSAGE_BYTES_MAX {
                    return Err(InvalidMessage::HandshakePayloadTooLarge.into());
                }
                self.message.extend_from_slice(&message[taken..]);
                Ok(())
            }
            ContentType::ChangeCipherSpec => {
                Err(PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into())
            }
        }
    }

    fn is_tls13(&self) -> bool {
        self.agreed.version == ProtocolVersion::TLSv1_3
    }

    /// Handles an alert (RFC 8446 §6, RFC 5246 §7.2). Returns an error if it ends the connection
    /// other than by `close_notify`.
    fn alert(&mut self, bytes: &[u8]) -> Result<(), Error> {
        const WARNING: u8 = 1;
        let &[level, description] = bytes else {
            return Err(InvalidMessage::MessageTooShort.into());
        };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => self.peer_has_closed = true,
            AlertDescription::UserCanceled if self.is_tls13() => {}
            _ if level == WARNING && !self.is_tls13() => {}
            other => return Err(Error::AlertReceived(other)),
        }
        Ok(())
    }

    /// Handles the complete messages at the front of `bytes`; returns their length.
    fn messages(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut rest = bytes;
        while let Some((&[kind, high, middle, low], after)) =
            rest.split_first_chunk::<MESSAGE_HEADER_BYTES>()
        {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            if length > MESSAGE_BYTES_MAX {
                return Err(InvalidMessage::HandshakePayloadTooLarge.into());
            }
            let Some((payload, after)) = after.split_at_checked(length) else {
                break;
            };
            rest = after;
            match (kind, self.is_tls13()) {
                (NEW_SESSION_TICKET, true) => {
                    self.had_ticket = true;
                    if self.keeps_tickets && self.tickets < TICKETS_MAX {
                        self.tickets += 1;
                        self.schedule.handle_new_session_ticket(payload)?;
                    }
                }
                (KEY_UPDATE, true) => {
                    // Data after a key update must be in another record, because it uses the next
                    // keys.
                    if !rest.is_empty() {
                        return Err(PeerMisbehaved::KeyEpochWithPendingFragment.into());
                    }
                    self.key_update(payload)?;
                }
                // A request to renegotiate, which may be ignored (RFC 5246 §7.4.1.1).
                (HELLO_REQUEST, false) if payload.is_empty() => {}
                _ => {
                    return Err(Error::InappropriateHandshakeMessage {
                        expect_types: vec![
                            rustls::HandshakeType::NewSessionTicket,
                            rustls::HandshakeType::KeyUpdate,
                        ],
                        got_type: rustls::HandshakeType::from(kind),
                    });
                }
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Handles a key update: the peer's next records use new keys, and the peer may request that
    /// this side update its keys too (RFC 8446 §4.6.3).
    fn key_update(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.opening = RecordCipher::new(self.agreed.version, self.schedule.update_rx_secret()?)?;
        match payload {
            [0] => Ok(()),
            [1] => self.renew_sealing(),
            _ => Err(InvalidMessage::InvalidKeyUpdate.into()),
        }
    }

    /// Schedules new sending keys for the next record; repeated requests have no effect.
    fn renew_sealing(&mut self) -> Result<(), Error> {
        if self.next_sealing.is_none() {
            let secrets = self.schedule.update_tx_secret()?;
            let next = RecordCipher::new(self.agreed.version, secrets)?;
            self.next_sealing = Some(Box::new(next));
        }
        Ok(())
    }

    /// See [`super::Tls::take_out`].
    #[inline]
    pub(super) fn take_out(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        out.append(&mut self.outgoing);
        for piece in plain.chunks(PLAINTEXT_BYTES_MAX) {
            if let Some(next) = self.next_sealing.take() {
                self.update_keys(*next, out);
            }
            self.sealing.seal(ContentType::ApplicationData, piece, out);
        }
    }

    /// Sends a key update as the last record with the old keys.
    #[cold]
    fn update_keys(&mut self, next: RecordCipher, out: &mut Vec<u8>) {
        const NOT_REQUESTED: u8 = 0;
        let message = [KEY_UPDATE, 0, 0, 1, NOT_REQUESTED];
        self.sealing.seal(ContentType::Handshake, &message, out);
        self.sealing = next;
    }
}

/// Removes a record from the front of the bytes if it is complete.
#[inline]
fn whole_record<'a>(ciphertext: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
    let Some(length) = record_length(ciphertext)? else {
        return Ok(None);
    };
    let Some((record, rest)) = ciphertext.split_at_checked(length) else {
        return Ok(None);
    };
    *ciphertext = rest;
    Ok(Some(record))
}
