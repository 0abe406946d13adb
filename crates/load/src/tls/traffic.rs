//! What follows the handshake: application data, and the few words that TLS still has to say.

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::{
    AlertDescription, Error, ExtractedSecrets, InvalidMessage, PeerMisbehaved, ProtocolVersion,
};

use super::cipher::{Cipher, Content, HEADER, LONGEST_PLAIN, record_length};
use super::{Agreed, Buffers, Event};

/// Records in a row without application data and without a ticket: more are a peer that keeps us busy.
const MOST_IDLE_RECORDS: u8 = 32;
/// Tickets that a connection hands on; those after them are ignored.
const TICKETS_MAX: u8 = 32;
/// The longest message that is put together from several records.
const LONGEST_MESSAGE: usize = 0xffff;
/// A handshake message's type and length (RFC 8446 §4).
const MESSAGE_HEADER: usize = 4;
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// A connection that can be used.
pub(crate) struct Traffic {
    /// rustls's key schedule, for what may still change the keys, and for tickets.
    schedule: KernelConnection<ClientConnectionData>,
    agreed: Agreed,
    opening: Cipher,
    sealing: Cipher,
    /// Records after which the sealing keys are to be replaced (RFC 8446 §5.5).
    worn_after: u64,
    /// What replaces the sealing keys before the next record.
    next_sealing: Option<Box<Cipher>>,
    /// A record that has come in part.
    partial: Vec<u8>,
    /// A handshake message that has come in part.
    message: Vec<u8>,
    /// What the handshake had left to send.
    outgoing: Vec<u8>,
    idle_records: u8,
    /// Tickets that came, up to [`TICKETS_MAX`].
    tickets: u8,
    /// The last message was a ticket.
    had_ticket: bool,
    peer_has_closed: bool,
    keeps_tickets: bool,
}

impl Traffic {
    pub(super) fn new(
        secrets: ExtractedSecrets,
        schedule: KernelConnection<ClientConnectionData>,
        agreed: Agreed,
        keeps_tickets: bool,
        outgoing: Vec<u8>,
    ) -> Result<Traffic, Error> {
        let worn_after = match agreed.suite.tls13() {
            Some(suite) => suite.common.confidentiality_limit,
            // Only 1.3 can replace keys. Its nonces don't repeat, and a load has no secrets.
            None => u64::MAX,
        };
        Ok(Traffic {
            opening: Cipher::new(agreed.version, secrets.rx)?,
            sealing: Cipher::new(agreed.version, secrets.tx)?,
            schedule,
            agreed,
            worn_after,
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

    pub(super) fn agreed(&self) -> &Agreed {
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
        buffers: &'b mut Buffers,
    ) -> Result<Event<'b>, Error> {
        while !self.peer_has_closed {
            let in_part = !self.partial.is_empty();
            if in_part && !self.complete(ciphertext)? {
                return Ok(Event::NeedMore);
            }
            let record = if in_part {
                &self.partial[..]
            } else {
                match whole_record(ciphertext)? {
                    Some(record) => record,
                    None => {
                        self.put_by(ciphertext, buffers)?;
                        return Ok(Event::NeedMore);
                    }
                }
            };
            let (content, plain) = self.opening.open(record, buffers.plain())?;
            let length = plain.len();
            let is_data = content == Content::ApplicationData && length > 0;
            if is_data && self.message.is_empty() {
                self.idle_records = 0;
            } else {
                self.take_control(content, length, buffers)?;
            }
            if in_part {
                buffers.give_back(std::mem::take(&mut self.partial));
            }
            if self.sealing.sequence() >= self.worn_after {
                self.renew_sealing()?;
            }
            if is_data {
                return Ok(Event::Plain(&buffers.plain()[..length]));
            }
        }
        // What follows a goodbye is not read (RFC 8446 §6.1).
        *ciphertext = &[];
        Ok(Event::NeedMore)
    }

    /// Adds to the record that has come in part; tells whether it is whole now.
    fn complete(&mut self, ciphertext: &mut &[u8]) -> Result<bool, Error> {
        loop {
            let (wanted, is_length_known) = match record_length(&self.partial)? {
                Some(length) => (length, true),
                None => (HEADER, false),
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

    /// Puts the begin of a record by until the rest comes.
    fn put_by(&mut self, ciphertext: &mut &[u8], buffers: &mut Buffers) -> Result<(), Error> {
        if !ciphertext.is_empty() {
            self.partial = buffers.take();
            self.partial
                .reserve(record_length(ciphertext)?.unwrap_or(HEADER));
            self.partial.extend_from_slice(ciphertext);
            *ciphertext = &[];
        }
        Ok(())
    }

    /// A record that is no application data, or none to speak of. Its content is what was opened
    /// last.
    #[cold]
    fn take_control(
        &mut self,
        content: Content,
        length: usize,
        buffers: &mut Buffers,
    ) -> Result<(), Error> {
        self.idle_records += 1;
        if self.idle_records > MOST_IDLE_RECORDS {
            return Err(Error::General(format!(
                "more than {MOST_IDLE_RECORDS} TLS records in a row without application data"
            )));
        }
        // "If a handshake message is split over two or more records, there MUST NOT be any other
        // records between them." (RFC 8446 §5.1)
        if content != Content::Handshake && !self.message.is_empty() {
            return Err(PeerMisbehaved::MessageInterleavedWithHandshakeMessage.into());
        }
        let bytes = &buffers.plain()[..length];
        match content {
            Content::ApplicationData => Ok(()),
            Content::Alert => self.alert(bytes),
            Content::Handshake => {
                self.message.extend_from_slice(bytes);
                let message = std::mem::take(&mut self.message);
                self.had_ticket = false;
                let taken = self.messages(&message)?;
                if self.had_ticket {
                    self.idle_records -= 1;
                }
                if message.len() - taken > LONGEST_MESSAGE {
                    return Err(InvalidMessage::HandshakePayloadTooLarge.into());
                }
                self.message.extend_from_slice(&message[taken..]);
                Ok(())
            }
            Content::ChangeCipherSpec => {
                Err(PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into())
            }
        }
    }

    fn is_tls13(&self) -> bool {
        self.agreed.version == ProtocolVersion::TLSv1_3
    }

    /// RFC 8446 §6, RFC 5246 §7.2.
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

    /// Takes the whole messages at the front of `bytes`; gives their length.
    fn messages(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut rest = bytes;
        while let Some((&[kind, high, middle, low], after)) =
            rest.split_first_chunk::<MESSAGE_HEADER>()
        {
            let length = u32::from_be_bytes([0, high, middle, low]) as usize;
            if length > LONGEST_MESSAGE {
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
                    // What follows is sealed with the next keys, and so in a record of its own.
                    if !rest.is_empty() {
                        return Err(PeerMisbehaved::KeyEpochWithPendingFragment.into());
                    }
                    self.key_update(payload)?;
                }
                // A wish to negotiate anew, which may be ignored (RFC 5246 §7.4.1.1).
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

    /// The peer seals with new keys from now on, and may ask for the same (RFC 8446 §4.6.3).
    fn key_update(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.opening = Cipher::new(self.agreed.version, self.schedule.update_rx_secret()?)?;
        match payload {
            [0] => Ok(()),
            [1] => self.renew_sealing(),
            _ => Err(InvalidMessage::InvalidKeyUpdate.into()),
        }
    }

    /// Has the sealing keys replaced before the next record; once, however often that is wished.
    fn renew_sealing(&mut self) -> Result<(), Error> {
        if self.next_sealing.is_none() {
            let secrets = self.schedule.update_tx_secret()?;
            let next = Cipher::new(self.agreed.version, secrets)?;
            self.next_sealing = Some(Box::new(next));
        }
        Ok(())
    }

    /// See [`super::Tls::take_out`].
    #[inline]
    pub(super) fn take_out(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        out.append(&mut self.outgoing);
        for piece in plain.chunks(LONGEST_PLAIN) {
            if let Some(next) = self.next_sealing.take() {
                self.update_keys(*next, out);
            }
            self.sealing.seal(Content::ApplicationData, piece, out);
        }
    }

    /// Says that the next record is sealed with new keys, as the last word under the old ones.
    #[cold]
    fn update_keys(&mut self, next: Cipher, out: &mut Vec<u8>) {
        const NOT_REQUESTED: u8 = 0;
        let message = [KEY_UPDATE, 0, 0, 1, NOT_REQUESTED];
        self.sealing.seal(Content::Handshake, &message, out);
        self.sealing = next;
    }
}

/// Splits the record off the front of the bytes, if it is there as a whole.
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
