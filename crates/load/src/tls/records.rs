//! Parsing of the record headers in a handshake.

use super::cipher::HEADER_BYTES;

/// Content type of an alert (RFC 8446 §5.1).
const ALERT: u8 = 21;
/// Content types of TLS: change_cipher_spec to heartbeat.
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=24;
/// The major version of all record headers since SSL 3.0.
const MAJOR_VERSION: u8 = 3;
/// Length of an alert's level and description in bytes, if the alert is not encrypted.
const ALERT_BYTES: usize = 2;
const CLOSE_NOTIFY: u8 = 0;

/// Protocol that a peer's first bytes suggest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerSpeaks {
    /// More bytes are needed.
    Unknown,
    /// TLS.
    Tls,
    /// HTTP/1 in cleartext.
    Http,
    /// Something else.
    Other,
}

/// Follows the records of a handshake without decrypting them.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordScan {
    /// Header of the current record, and the first two bytes after it.
    head: [u8; HEADER_BYTES + ALERT_BYTES],
    /// Number of bytes in `head`.
    have: usize,
    /// Number of bytes that are still to be skipped in the current record.
    skip: usize,
    first: Option<[u8; HEADER_BYTES]>,
}

impl RecordScan {
    /// Processes the next bytes. Returns true if they contain an unencrypted close_notify.
    pub(super) fn has_close_notify(&mut self, mut bytes: &[u8]) -> bool {
        let mut found = false;
        loop {
            let skipped = self.skip.min(bytes.len());
            bytes = &bytes[skipped..];
            self.skip -= skipped;
            if bytes.is_empty() {
                return found;
            }
            let wanted = if self.have < HEADER_BYTES {
                HEADER_BYTES
            } else {
                HEADER_BYTES + ALERT_BYTES.min(self.length())
            };
            let missing = (wanted - self.have).min(bytes.len());
            let (taken, rest) = bytes.split_at(missing);
            self.head[self.have..self.have + missing].copy_from_slice(taken);
            self.have += missing;
            bytes = rest;
            if self.have < HEADER_BYTES {
                continue;
            }
            if self.have == HEADER_BYTES && self.first.is_none() {
                self.first = self.head.first_chunk().copied();
            }
            let length = self.length();
            if self.have == HEADER_BYTES + ALERT_BYTES.min(length) {
                let [kind, .., description] = self.head;
                found |= kind == ALERT && length == ALERT_BYTES && description == CLOSE_NOTIFY;
                self.skip = length - ALERT_BYTES.min(length);
                self.have = 0;
            }
        }
    }

    /// Length of the current record. The header must be complete.
    fn length(&self) -> usize {
        usize::from(u16::from_be_bytes([self.head[3], self.head[4]]))
    }

    pub(super) fn peer_speaks(&self) -> PeerSpeaks {
        match self.first.as_ref() {
            None => PeerSpeaks::Unknown,
            Some(b"HTTP/") => PeerSpeaks::Http,
            Some([kind, MAJOR_VERSION, ..]) if CONTENT_TYPES.contains(kind) => PeerSpeaks::Tls,
            Some(_) => PeerSpeaks::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans the records in pieces of every possible length. Returns true if a close_notify is
    /// found.
    fn found(records: &[&[u8]]) -> bool {
        let bytes = records.concat();
        let found: Vec<bool> = (1..=bytes.len())
            .map(|length| {
                let mut scan = RecordScan::default();
                let mut found = false;
                for piece in bytes.chunks(length) {
                    found |= scan.has_close_notify(piece);
                }
                found
            })
            .collect();
        assert!(found.iter().all(|it| *it == found[0]));
        found[0]
    }

    #[test]
    fn a_cleartext_close_notify_is_found_at_any_offset() {
        const HELLO: &[u8] = &[22, 3, 3, 0, 4, 2, 0, 0, 0];
        const EMPTY: &[u8] = &[22, 3, 3, 0, 0];
        const CLOSE: &[u8] = &[21, 3, 3, 0, 2, 1, 0];
        const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 1, 112];
        const ENCRYPTED: &[u8] = &[21, 3, 3, 0, 4, 1, 0, 9, 9];
        assert!(found(&[CLOSE]));
        assert!(found(&[HELLO, EMPTY, UNRECOGNIZED_NAME, CLOSE]));
        assert!(!found(&[HELLO, UNRECOGNIZED_NAME, ENCRYPTED, EMPTY]));
    }

    #[test]
    fn the_first_bytes_identify_the_protocol() {
        for (bytes, speaks) in [
            (&b"HTTP"[..], PeerSpeaks::Unknown),
            (b"HTTP/1.1 400 Bad Request", PeerSpeaks::Http),
            (b"SSH-2.0-x", PeerSpeaks::Other),
            (&[22, 3, 3, 0, 4, 2], PeerSpeaks::Tls),
            (&[21, 3, 1, 0, 2, 2, 40], PeerSpeaks::Tls),
        ] {
            let mut scan = RecordScan::default();
            scan.has_close_notify(bytes);
            assert_eq!(scan.peer_speaks(), speaks, "{bytes:?}");
        }
    }
}
