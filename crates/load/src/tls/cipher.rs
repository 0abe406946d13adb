//! Encryption and decryption of records in one direction (RFC 8446 §5.2, RFC 5246 §6.2.3.3, RFC
//! 5288, RFC 7905).

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, Error, ProtocolVersion};

/// Size of a record's header (type, version, length), in bytes.
pub(super) const HEADER_BYTES: usize = 5;
/// Largest plaintext of a record, in bytes.
pub(super) const PLAINTEXT_BYTES_MAX: usize = 1 << 14;
/// Maximum number of bytes by which encryption lengthens a record (RFC 5246 §6.2.3; less in RFC
/// 8446 §5.2).
const EXPANSION_BYTES_MAX: usize = 2048;
const TAG_BYTES: usize = 16;
/// Length of the explicit nonce part for AES-GCM in TLS 1.2, in bytes.
const EXPLICIT_NONCE_BYTES: usize = 8;
/// Version in record headers. TLS 1.3 uses the version of TLS 1.2 for compatibility.
const VERSION: [u8; 2] = [3, 3];

/// Content type of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentType {
    ChangeCipherSpec = 20,
    Alert = 21,
    Handshake = 22,
    ApplicationData = 23,
}

impl ContentType {
    fn of(byte: u8) -> Result<ContentType, Error> {
        match byte {
            20 => Ok(ContentType::ChangeCipherSpec),
            21 => Ok(ContentType::Alert),
            22 => Ok(ContentType::Handshake),
            23 => Ok(ContentType::ApplicationData),
            _ => Err(Error::InvalidMessage(
                rustls::InvalidMessage::InvalidContentType,
            )),
        }
    }
}

/// Returns the length of the record at the start of `bytes`, including its header, or `None` if the
/// header is incomplete.
///
/// # Errors
///
/// Returns an error if the bytes aren't a record, or if the record is longer than allowed.
#[inline]
pub(super) fn record_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(&[_, major, _, high, low]) = bytes.first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    if major != VERSION[0] {
        return Err(Error::InvalidMessage(
            rustls::InvalidMessage::UnknownProtocolVersion,
        ));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > PLAINTEXT_BYTES_MAX + EXPANSION_BYTES_MAX {
        return Err(Error::PeerSentOversizedRecord);
    }
    Ok(Some(HEADER_BYTES + length))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordLayout {
    /// TLS 1.3: the type is encrypted with the content.
    Tls13,
    /// TLS 1.2 with ChaCha20-Poly1305: the nonce is implicit.
    Tls12,
    /// TLS 1.2 with AES-GCM: part of the nonce is explicit.
    Tls12Gcm,
}

/// The keys of one direction, and the number of records they were used for.
#[derive(Debug)]
pub(super) struct RecordCipher {
    key: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    form: RecordLayout,
    sequence: u64,
}

impl RecordCipher {
    /// Creates a cipher from the key schedule's secrets.
    ///
    /// # Errors
    ///
    /// Returns an error for an unknown kind of secret; rustls has none today.
    pub(super) fn new(
        version: ProtocolVersion,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<RecordCipher, Error> {
        use ConnectionTrafficSecrets::{Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
        let (algorithm, key, iv) = match secrets {
            Aes128Gcm { key, iv } => (&aead::AES_128_GCM, key, iv),
            Aes256Gcm { key, iv } => (&aead::AES_256_GCM, key, iv),
            Chacha20Poly1305 { key, iv } => (&aead::CHACHA20_POLY1305, key, iv),
            _ => return Err(unknown_cipher()),
        };
        let form = match version {
            ProtocolVersion::TLSv1_3 => RecordLayout::Tls13,
            _ if algorithm == &aead::CHACHA20_POLY1305 => RecordLayout::Tls12,
            _ => RecordLayout::Tls12Gcm,
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| unknown_cipher())?;
        Ok(RecordCipher {
            key: LessSafeKey::new(key),
            iv: iv.as_ref().try_into().map_err(|_| unknown_cipher())?,
            form,
            sequence,
        })
    }

    /// Number of records decrypted or encrypted with these keys.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Nonce of a record (RFC 8446 §5.3): the initialization vector XOR the sequence number.
    #[inline]
    fn nonce(&self) -> [u8; aead::NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, counted) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= counted;
        }
        nonce
    }

    /// Additional authenticated data in TLS 1.2.
    #[inline]
    fn additional(&self, content: u8, version: [u8; 2], length: usize) -> [u8; 13] {
        let mut additional = [0; 13];
        additional[..8].copy_from_slice(&self.sequence.to_be_bytes());
        additional[8] = content;
        additional[9..11].copy_from_slice(&version);
        additional[11..].copy_from_slice(&(length as u16).to_be_bytes());
        additional
    }

    /// Decrypts a complete record into the front of `plain`, which must have room for the longest
    /// record.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes aren't the peer's next record, or if its content is too long
    /// or of an unknown type.
    #[inline]
    pub(super) fn open<'b>(
        &mut self,
        record: &[u8],
        plain: &'b mut [u8],
    ) -> Result<(ContentType, &'b [u8]), Error> {
        let (header, payload) = record
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(Error::DecryptError)?;
        let mut nonce = self.nonce();
        let sealed = match self.form {
            RecordLayout::Tls12Gcm => {
                let (explicit, sealed) = payload
                    .split_first_chunk::<EXPLICIT_NONCE_BYTES>()
                    .ok_or(Error::DecryptError)?;
                nonce[4..].copy_from_slice(explicit);
                sealed
            }
            _ => payload,
        };
        let length = sealed
            .len()
            .checked_sub(TAG_BYTES)
            .ok_or(Error::DecryptError)?;
        let (text, tag) = sealed.split_at(length);
        let out = plain
            .get_mut(..length)
            .ok_or(Error::PeerSentOversizedRecord)?;
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = match self.form {
            RecordLayout::Tls13 => {
                self.key
                    .open_separate_gather(nonce, Aad::from(header), text, tag, out)
            }
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
            RecordLayout::Tls13 => inner(out)?,
            _ => (header[0], &*out),
        };
        if opened.len() > PLAINTEXT_BYTES_MAX {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok((ContentType::of(content)?, opened))
    }

    /// Encrypts `plain` as one record and appends the record to `out`. `plain` must fit into one
    /// record.
    #[inline]
    pub(super) fn seal(&mut self, content: ContentType, plain: &[u8], out: &mut Vec<u8>) {
        debug_assert!(plain.len() <= PLAINTEXT_BYTES_MAX);
        let nonce = self.nonce();
        let (outer, added) = match self.form {
            RecordLayout::Tls13 => (ContentType::ApplicationData, 1 + TAG_BYTES),
            RecordLayout::Tls12 => (content, TAG_BYTES),
            RecordLayout::Tls12Gcm => (content, EXPLICIT_NONCE_BYTES + TAG_BYTES),
        };
        let length = ((plain.len() + added) as u16).to_be_bytes();
        let header = [outer as u8, VERSION[0], VERSION[1], length[0], length[1]];
        out.reserve(HEADER_BYTES + plain.len() + added);
        out.extend_from_slice(&header);
        if self.form == RecordLayout::Tls12Gcm {
            out.extend_from_slice(&nonce[4..]);
        }
        let start = out.len();
        out.extend_from_slice(plain);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = match self.form {
            RecordLayout::Tls13 => {
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
        let tag = tag.expect("a record is far shorter than the limit of a cipher");
        out.extend_from_slice(tag.as_ref());
        self.sequence += 1;
    }
}

/// Splits a TLS 1.3 plaintext into its type and content, without zero padding (RFC 8446 §5.4).
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
    Error::General("prony does not support the negotiated cipher".to_owned())
}
