//! Compression of messages (RFC 7692).

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use prony_protocol::websocket::{DeflateParameters, Utf8Check, Violation, WINDOW_BITS_MAX};

/// Bytes that a sender removes from the end of a message, and a receiver adds (RFC 7692 §7.2).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// An empty block, which stands for an empty message (RFC 7692 §7.2.3.6).
const EMPTY: u8 = 0;
/// Maximum length of an inflated message in bytes. Inflated bytes are not stored, so the limit bounds
/// the time that a message takes.
const INFLATED_BYTES_MAX: u64 = 64 << 20;
/// Smallest window of the library, in bits.
const LIBRARY_BITS_MIN: u8 = 9;
/// Size of the buffer into which messages are inflated, in bytes.
const PIECE_BYTES: usize = 8 << 10;

/// The compression of one WebSocket. An idle WebSocket has neither window.
#[derive(Debug)]
pub(super) struct Deflate {
    parameters: DeflateParameters,
    inflater: Option<Decompress>,
    deflater: Option<Compress>,
    /// Number of inflated bytes of the message that is being received.
    inflated: u64,
    text: Utf8Check,
    /// The last message that was compressed.
    compressed: Vec<u8>,
}

impl Deflate {
    pub(super) fn new(parameters: DeflateParameters) -> Deflate {
        Deflate {
            parameters,
            inflater: None,
            deflater: None,
            inflated: 0,
            text: Utf8Check::default(),
            compressed: Vec::new(),
        }
    }

    /// Inflates a part of a message, and passes what it yields to `take`.
    pub(super) fn inflate(
        &mut self,
        mut bytes: &[u8],
        is_binary: bool,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Violation> {
        let bits = self.parameters.server_max_window_bits;
        let bits = bits.unwrap_or(WINDOW_BITS_MAX).max(LIBRARY_BITS_MIN);
        let new = || Decompress::new_with_window_bits(false, bits);
        let inflater = self.inflater.get_or_insert_with(new);
        let mut piece = [0; PIECE_BYTES];
        loop {
            let (before_in, before_out) = (inflater.total_in(), inflater.total_out());
            let status = inflater.decompress(bytes, &mut piece, FlushDecompress::Sync);
            let used = (inflater.total_in() - before_in) as usize;
            let made = (inflater.total_out() - before_out) as usize;
            bytes = bytes.get(used..).unwrap_or_default();
            self.inflated += made as u64;
            if self.inflated > INFLATED_BYTES_MAX {
                return Err(Violation::InflatedTooLong);
            }
            let inflated = &piece[..made];
            if !is_binary && !self.text.add(inflated) {
                return Err(Violation::Utf8);
            }
            if made > 0 {
                take(inflated);
            }
            match status {
                Err(_) => return Err(Violation::Compression),
                // The last block of a stream, after which another stream may begin (RFC 7692
                // §7.2.3.4).
                Ok(Status::StreamEnd) => inflater.reset(false),
                Ok(Status::Ok | Status::BufError) if used == 0 && made == 0 => {
                    return if bytes.is_empty() {
                        Ok(())
                    } else {
                        Err(Violation::Compression)
                    };
                }
                Ok(Status::Ok | Status::BufError) => {}
            }
            if bytes.is_empty() && made < PIECE_BYTES {
                return Ok(());
            }
        }
    }

    /// Inflates the end of a message.
    pub(super) fn end(
        &mut self,
        is_binary: bool,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Violation> {
        self.inflate(&TAIL, is_binary, take)?;
        self.inflated = 0;
        let text = std::mem::take(&mut self.text);
        if !is_binary && !text.is_complete() {
            return Err(Violation::Utf8);
        }
        if self.parameters.server_no_context_takeover
            && let Some(inflater) = &mut self.inflater
        {
            inflater.reset(false);
        }
        Ok(())
    }

    /// Compresses a message. Returns the length of [`Deflate::compressed`]; `None` if messages are
    /// sent as they are, because the window on which both sides agreed is smaller than the library's.
    pub(super) fn deflate(&mut self, payload: &[u8]) -> Option<usize> {
        let bits = self.parameters.client_max_window_bits;
        let bits = bits.unwrap_or(WINDOW_BITS_MAX);
        if bits < LIBRARY_BITS_MIN {
            return None;
        }
        let new = || Compress::new_with_window_bits(Compression::default(), false, bits);
        let deflater = self.deflater.get_or_insert_with(new);
        let out = &mut self.compressed;
        out.clear();
        let before = deflater.total_in();
        loop {
            out.reserve(PIECE_BYTES.min(payload.len()) + 64);
            let used = (deflater.total_in() - before) as usize;
            let rest = payload.get(used..).unwrap_or_default();
            // Compression into memory doesn't fail.
            let result = deflater.compress_vec(rest, out, FlushCompress::Sync);
            let is_complete = (deflater.total_in() - before) as usize == payload.len();
            if result.is_err() || is_complete && out.len() < out.capacity() {
                break;
            }
        }
        if out.ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
        if out.is_empty() {
            out.push(EMPTY);
        }
        if self.parameters.client_no_context_takeover {
            deflater.reset();
        }
        Some(out.len())
    }

    /// The last message that was compressed.
    pub(super) fn compressed(&self) -> &[u8] {
        &self.compressed
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inflated(deflate: &mut Deflate, bytes: &[u8]) -> Result<Vec<u8>, Violation> {
        let mut all = Vec::new();
        for piece in bytes.chunks(3) {
            deflate.inflate(piece, true, &mut |piece| all.extend_from_slice(piece))?;
        }
        deflate.end(true, &mut |piece| all.extend_from_slice(piece))?;
        Ok(all)
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7692 §7.2.3.1 to §7.2.3.5, in the same context.
        let mut deflate = Deflate::new(DeflateParameters::default());
        for bytes in [
            &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..],
            &[0xf2, 0x00, 0x11, 0x00, 0x00],
            &[
                0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00,
            ],
            &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
            &[
                0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
            ],
        ] {
            assert_eq!(
                inflated(&mut deflate, bytes).unwrap(),
                b"Hello",
                "{bytes:x?}"
            );
        }
        assert_eq!(inflated(&mut deflate, &[0]).unwrap(), b"");
    }

    #[test]
    fn hostile_messages_have_names() {
        let mut deflate = Deflate::new(DeflateParameters::default());
        assert_eq!(
            inflated(&mut deflate, &[0xff; 20]),
            Err(Violation::Compression)
        );
        let mut sender = Deflate::new(DeflateParameters::default());
        sender.deflate(&[b'x'; 70 << 20]).unwrap();
        assert!(sender.compressed().len() < 100_000);
        let mut deflate = Deflate::new(DeflateParameters::default());
        let end = deflate.inflate(sender.compressed(), true, &mut |_| {});
        assert_eq!(end, Err(Violation::InflatedTooLong));
        // Text whose last character is incomplete, and text that is none.
        for (text, ends) in [(&b"K\xc3"[..], true), (b"\xff", false)] {
            let mut deflate = Deflate::new(DeflateParameters::default());
            sender.deflate(text).unwrap();
            let mut sender = Deflate::new(DeflateParameters::default());
            sender.deflate(text).unwrap();
            let mut end = deflate.inflate(sender.compressed(), false, &mut |_| {});
            if ends {
                assert_eq!(end, Ok(()));
                end = deflate.end(false, &mut |_| {});
            }
            assert_eq!(end, Err(Violation::Utf8));
        }
    }

    #[test]
    fn a_context_makes_repeated_messages_shorter_unless_it_is_given_up() {
        let lengths = |parameters: &str| {
            let parameters = DeflateParameters::parse_offer(parameters).unwrap();
            let mut deflate = Deflate::new(parameters);
            let text = b"a message that is long enough to be compressed, and that is repeated";
            [deflate.deflate(text), deflate.deflate(text)]
        };
        let [first, second] = lengths("");
        assert!(second < first, "{first:?} {second:?}");
        let [first, second] = lengths("client_no_context_takeover");
        assert_eq!(first, second);
        assert_eq!(lengths("client_max_window_bits=8"), [None, None]);
    }

    proptest! {
        #[test]
        fn messages_are_read_as_they_were_sent(
            messages in prop::collection::vec(prop::collection::vec(0_u8..4, 0..20_000), 1..5),
            bits in 9_u8..=15,
            resets: bool,
        ) {
            let mut sender = Deflate::new(DeflateParameters {
                client_max_window_bits: Some(bits),
                client_no_context_takeover: resets,
                ..DeflateParameters::default()
            });
            let mut receiver = Deflate::new(DeflateParameters {
                server_max_window_bits: Some(bits),
                server_no_context_takeover: resets,
                ..DeflateParameters::default()
            });
            for message in messages {
                sender.deflate(&message);
                prop_assert_eq!(inflated(&mut receiver, sender.compressed()), Ok(message));
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = inflated(&mut Deflate::new(DeflateParameters::default()), &bytes);
        }
    }
}
