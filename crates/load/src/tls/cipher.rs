//! Opens and seals the records of one direction (RFC 8446 §5.2, RFC 5246 §6.2.3.3, RFC 5288,
//! RFC 7905).

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, Error, ProtocolVersion};

/// A record's header: type, version, length.
pub(super) const HEADER: usize = 5;
/// Plain bytes in a record at most.
pub(super) const LONGEST_PLAIN: usize = 1 << 14;
/// What encryption may add to them (RFC 5246 §6.2.3; RFC 8446 §5.2 has less).
const LONGEST_EXPANSION: usize = 2048;
const TAG: usize = 16;
/// The part of the nonce that GCM of TLS 1.2 sends along.
const EXPLICIT: usize = 8;
/// The version that records of TLS 1.2 bear, and those of 1.3 that pretend to.
const VERSION: [u8; 2] = [3, 3];

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    ChangeCipherSpec = 20,
    Alert = 21,
    Handshake = 22,
    ApplicationData = 23,
}

impl Content {
    fn of(byte: u8) -> Result<Content, Error> {
        match byte {
            20 => Ok(Content::ChangeCipherSpec),
            21 => Ok(Content::Alert),
            22 => Ok(Content::Handshake),
            23 => Ok(Content::ApplicationData),
            _ => Err(Error::InvalidMessage(
                rustls::InvalidMessage::InvalidContentType,
            )),
        }
    }
}

/// The length of the record that begins so, its header included; none while that is incomplete.
///
/// # Errors
///
/// Where it is no record, or one that is longer than allowed.
#[inline]
pub(super) fn record_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(&[_, major, _, high, low]) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    if major != VERSION[0] {
        return Err(Error::InvalidMessage(
            rustls::InvalidMessage::UnknownProtocolVersion,
        ));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST_PLAIN + LONGEST_EXPANSION {
        return Err(Error::PeerSentOversizedRecord);
    }
    Ok(Some(HEADER + length))
}

/// How a record is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// TLS 1.3: the type is encrypted with the content.
    Tls13,
    /// TLS 1.2 with ChaCha20-Poly1305: the nonce is counted.
    Tls12,
    /// TLS 1.2 with AES-GCM: a part of the nonce is sent along.
    Tls12Gcm,
}

/// The keys of one direction, and how many records they have served.
#[derive(Debug)]
pub(super) struct Cipher {
    key: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    form: Form,
    sequence: u64,
}

impl Cipher {
    /// From what the key schedule gives.
    ///
    /// # Errors
    ///
    /// Where the secrets are of a kind that isn't known here; rustls has none today.
    pub(super) fn new(
        version: ProtocolVersion,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<Cipher, Error> {
        use ConnectionTrafficSecrets::{Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
        let (algorithm, key, iv) = match secrets {
            Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(unknown_cipher()),
        };
        let form = match version {
            ProtocolVersion::TLSv1_3 => Form::Tls13,
            _ if algorithm == &aead::CHACHA20_POLY1305 => Form::Tls12,
            _ => Form::Tls12Gcm,
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| unknown_cipher())?;
        Ok(Cipher {
            key: LessSafeKey::new(key),
            iv: iv.as_ref().try_into().map_err(|_| unknown_cipher())?,
            form,
            sequence,
        })
    }

    /// Records opened or sealed with these keys.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The nonce of a record (RFC 8446 §5.3): the counter over the initial vector.
    #[inline]
    fn nonce(&self) -> [u8; aead::NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, counted) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= counted;
        }
        nonce
    }

    /// What TLS 1.2 authenticates beside the content.
    #[inline]
    fn additional(&self, content: u8, version: [u8; 2], length: usize) -> [u8; 13] {
        let mut additional = [0; 13];
        additional[..8].copy_from_slice(&self.sequence.to_be_bytes());
        additional[8] = content;
        additional[9..11].copy_from_slice(&version);
        additional[11..].copy_from_slice(&(length as u16).to_be_bytes());
        additional
    }

    /// Opens a whole record into the front of `plain`, which must be as long as the longest.
    ///
    /// # Errors
    ///
    /// Where it isn't the peer's next record, or holds more than allowed or nothing that is known.
    #[inline]
    pub(super) fn open<'b>(
        &mut self,
        record: &[u8],
        plain: &'b mut [u8],
    ) -> Result<(Content, &'b [u8]), Error> {
        let (header, payload) = record
            .split_first_chunk::<HEADER>()
            .ok_or(Error::DecryptError)?;
        let mut nonce = self.nonce();
        let sealed = match self.form {
            Form::Tls12Gcm => {
                let (explicit, sealed) = payload
                    .split_first_chunk::<EXPLICIT>()
                    .ok_or(Error::DecryptError)?;
                nonce[4..].copy_from_slice(explicit);
                sealed
            }
            _ => payload,
        };
        let length = sealed.len().checked_sub(TAG).ok_or(Error::DecryptError)?;
        let (text, tag) = sealed.split_at(length);
        let out = plain
            .get_mut(..length)
            .ok_or(Error::PeerSentOversizedRecord)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = match self.form {
            Form::Tls13 => self
                .key
                .open_separate_gather(nonce, Aad::from(header), text, tag, out),
            _ => {
                let additional = self.additional(header[0], [header[1], header[2]], length);
                let additional = Aad::from(additional);
                self.key
                    .open_separate_gather(nonce, additional, text, tag, out)
            }
        };
        opened.map_err(|_| Error::DecryptError)?;
        self.sequence += 1;
        let (content, opened) = match self.form {
            Form::Tls13 => inner(out)?,
            _ => (header[0], &*out),
        };
        if opened.len() > LONGEST_PLAIN {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok((Content::of(content)?, opened))
    }

    /// Appends one record to `out`; `plain` must fit into it.
    #[inline]
    pub(super) fn seal(&mut self, content: Content, plain: &[u8], out: &mut Vec<u8>) {
        debug_assert!(plain.len() <= LONGEST_PLAIN);
        let nonce = self.nonce();
        let (outer, added) = match self.form {
            Form::Tls13 => (Content::ApplicationData, 1 + TAG),
            Form::Tls12 => (content, TAG),
            Form::Tls12Gcm => (content, EXPLICIT + TAG),
        };
        let length = ((plain.len() + added) as u16).to_be_bytes();
        let header = [outer as u8, VERSION[0], VERSION[1], length[0], length[1]];
        out.reserve(HEADER + plain.len() + added);
        out.extend_from_slice(&header);
        if self.form == Form::Tls12Gcm {
            out.extend_from_slice(&nonce[4..]);
        }
        let start = out.len();
        out.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = match self.form {
            Form::Tls13 => {
                out.push(content as u8);
                let text = &mut out[start..];
                self.key
                    .seal_in_place_separate_tag(nonce, Aad::from(header), text)
            }
            _ => {
                let additional = self.additional(content as u8, VERSION, plain.len());
                let text = &mut out[start..];
                self.key
                    .seal_in_place_separate_tag(nonce, Aad::from(additional), text)
            }
        };
        let tag = tag.expect("a record is far shorter than what a cipher takes");
        out.extend_from_slice(tag.as_ref());
        self.sequence += 1;
    }
}

/// TLS 1.3's type and content, without the zeros that may follow them (RFC 8446 §5.4).
#[inline]
fn inner(opened: &[u8]) -> Result<(u8, &[u8]), Error> {
    let last = opened.iter().rposition(|byte| *byte != 0);
    let Some(last) = last else {
        let nothing = rustls::PeerMisbehaved::IllegalTlsInnerPlaintext;
        return Err(Error::PeerMisbehaved(nothing));
    };
    Ok((opened[last], &opened[..last]))
}

fn unknown_cipher() -> Error {
    Error::General("the cipher agreed on is not one that prony can use".to_owned())
}
