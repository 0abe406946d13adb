//! Decoder of field blocks (RFC 7541 §3.2 and §6).

use std::fmt;

use super::block_cache::CachedBlocks;
use super::{DEFAULT_TABLE_BYTES, static_table};
use crate::buffer::emptied;
use crate::compression::{
    CallMessageId, CallMessages, Field, FieldFault, Fields, HuffmanError, IntegerError, Name,
    StringError, Table, decode_integer, string,
};

/// Error in a field block. After such an error, the dynamic tables of sender and receiver differ,
/// so the connection can no longer be used (COMPRESSION_ERROR, RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DecodeError {
    /// The block ends within a field.
    Truncated,
    /// An integer with more than 32 bits, or with too many bytes (RFC 7541 §5.1).
    Integer,
    /// Index 0, or an index beyond both tables (RFC 7541 §2.3.3).
    Index,
    /// An invalid Huffman-coded string (RFC 7541 §5.2).
    Huffman(HuffmanError),
    /// A size of the dynamic table above the limit (RFC 7541 §6.3).
    TableTooLarge,
    /// A dynamic table size update after a field (RFC 7541 §4.2).
    ResizeLate,
    /// A missing dynamic table size update at the start of the first block after the limit was
    /// lowered (RFC 9113 §4.3.1).
    ResizeMissing,
}

impl From<IntegerError> for DecodeError {
    fn from(error: IntegerError) -> DecodeError {
        match error {
            IntegerError::Truncated => DecodeError::Truncated,
            IntegerError::TooLarge => DecodeError::Integer,
        }
    }
}

impl From<StringError> for DecodeError {
    fn from(error: StringError) -> DecodeError {
        match error {
            StringError::Length(error) => error.into(),
            StringError::Huffman(error) => DecodeError::Huffman(error),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the block ends within a header",
            DecodeError::Integer => "an integer is too large",
            DecodeError::Index => "an index is not in the tables",
            DecodeError::Huffman(HuffmanError::EndOfString) => {
                "a Huffman-coded string contains EOS"
            }
            DecodeError::Huffman(HuffmanError::Padding) => {
                "a Huffman-coded string has invalid padding"
            }
            DecodeError::TableTooLarge => "the dynamic table would be larger than allowed",
            DecodeError::ResizeLate => "the dynamic table is resized after a header",
            DecodeError::ResizeMissing => {
                "the block does not begin with a resize of the dynamic table, although the limit \
                 was lowered"
            }
        })
    }
}

/// Decoder for the field blocks of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Maximum size of the dynamic table that the peer may choose, in bytes.
    table_limit_bytes: u32,
    /// True if the limit was lowered below the table's size and the peer has not acknowledged that
    /// yet.
    resize_due: bool,
    /// Maximum size of a field list, in bytes as counted by RFC 9113 §6.5.2.
    list_limit_bytes: u32,
    static_entries: &'static [Field; static_table::ENTRIES],
    block_cache: CachedBlocks,
    /// Buffer for a decoded Huffman string: at most 8/5 of a block, because every code has at least
    /// 5 bits.
    text: Vec<u8>,
    call_messages: CallMessages,
}

impl Decoder {
    /// Creates a decoder for a new connection, with a dynamic table of [`DEFAULT_TABLE_BYTES`].
    /// Lists above the limit are decoded but marked as faulty.
    #[must_use]
    pub fn new(list_limit_bytes: u32) -> Decoder {
        Decoder {
            table: Table::new(DEFAULT_TABLE_BYTES),
            table_limit_bytes: DEFAULT_TABLE_BYTES,
            resize_due: false,
            list_limit_bytes,
            static_entries: static_table::entries(),
            block_cache: CachedBlocks::default(),
            text: Vec::new(),
            call_messages: CallMessages::default(),
        }
    }

    /// Returns a decoder for another connection. It takes over the memory, and the cached blocks
    /// that don't refer to the dynamic table. This decoder must not be used again.
    #[must_use]
    pub fn renewed(&mut self) -> Decoder {
        Decoder {
            table: self.table.renewed(DEFAULT_TABLE_BYTES),
            block_cache: std::mem::take(&mut self.block_cache),
            text: emptied(&mut self.text),
            // The cached blocks refer to the messages.
            call_messages: std::mem::take(&mut self.call_messages),
            ..Decoder::new(self.list_limit_bytes)
        }
    }

    /// Sets the limit on the table's size, in bytes. Must be called once the peer has acknowledged
    /// the limit (SETTINGS_HEADER_TABLE_SIZE). The peer must shrink a larger table at the start of
    /// its next block.
    pub fn limit_table(&mut self, limit_bytes: u32) {
        self.table_limit_bytes = limit_bytes;
        self.resize_due = self.table.max_bytes() > limit_bytes;
    }

    /// Removes the traces of earlier connections that a new connection may use.
    #[cfg(test)]
    pub(crate) fn forget_cache(&mut self) {
        self.block_cache = CachedBlocks::default();
        self.table.forget_generation();
    }

    /// Decodes a complete block that equals an earlier one, if `accept` returns a value for its
    /// fields, and returns that value. Otherwise, changes nothing.
    #[inline]
    pub(in crate::h2) fn decode_known<T>(
        &mut self,
        block: &[u8],
        accept: impl FnOnce(&Fields) -> Option<T>,
    ) -> Option<T> {
        if self.resize_due {
            return None;
        }
        self.block_cache.recall(block, &mut self.table, accept)
    }

    /// Decodes a complete block.
    ///
    /// # Errors
    ///
    /// Returns the first error. The decoder must not be used again.
    pub fn decode(&mut self, block: &[u8]) -> Result<Fields, DecodeError> {
        if let Some(fields) = self.decode_known(block, |fields| Some(*fields)) {
            return Ok(fields);
        }
        self.block_cache.begin(block);
        let mut rest = block;
        self.resizes(&mut rest)?;
        let generation = self.table.generation();
        let mut fields = Fields::default();
        while let Some(&first) = rest.first() {
            // The first bits determine the field's representation (RFC 7541 §6).
            let field = match first {
                0x80.. => {
                    let index = decode_integer(7, &mut rest)?;
                    *self.entry(index, generation)?
                }
                0x40.. => {
                    let field = self.literal(6, &mut rest, generation)?;
                    self.table.insert(field);
                    self.block_cache.note_insertion(field);
                    field
                }
                0x20.. => return Err(DecodeError::ResizeLate),
                _ => self.literal(4, &mut rest, generation)?,
            };
            fields.add(&field);
        }
        if fields.list_bytes > u64::from(self.list_limit_bytes) {
            let limit_bytes = self.list_limit_bytes;
            fields.blame(FieldFault::ListTooLong { limit_bytes });
        }
        self.block_cache.end(block, fields);
        Ok(fields)
    }

    /// Applies dynamic table size updates at the start of a block (RFC 7541 §4.2).
    fn resizes(&mut self, rest: &mut &[u8]) -> Result<(), DecodeError> {
        while let Some(0x20..=0x3f) = rest.first() {
            let max_bytes = decode_integer(5, rest)?;
            if max_bytes > self.table_limit_bytes {
                return Err(DecodeError::TableTooLarge);
            }
            self.table.resize(max_bytes);
            self.block_cache.note_resize();
            self.resize_due = false;
        }
        if self.resize_due {
            return Err(DecodeError::ResizeMissing);
        }
        Ok(())
    }

    /// Returns the entry at an index in the combined index space of the static and dynamic tables
    /// (RFC 7541 §2.3.3).
    #[inline]
    fn entry(&mut self, index: u32, generation: u64) -> Result<&Field, DecodeError> {
        let at = (index as usize).checked_sub(1).ok_or(DecodeError::Index)?;
        if let Some(field) = self.static_entries.get(at) {
            return Ok(field);
        }
        self.block_cache.note_reference(generation);
        self.table
            .get(at - static_table::ENTRIES)
            .ok_or(DecodeError::Index)
    }

    /// Decodes a literal field (RFC 7541 §6.2). The name is an index with a `bits`-bit prefix or,
    /// if the index is 0, a string. The value is a string.
    #[inline]
    fn literal(
        &mut self,
        bits: u32,
        rest: &mut &[u8],
        generation: u64,
    ) -> Result<Field, DecodeError> {
        let name = match decode_integer(bits, rest)? {
            0 => Name::read(string(7, rest, &mut self.text)?),
            index => self.entry(index, generation)?.name,
        };
        let value = string(7, rest, &mut self.text)?;
        Ok(self.call_messages.field(name, value))
    }

    /// Returns the value of a `grpc-message`, percent-encoded.
    pub fn call_message(&self, id: CallMessageId) -> &[u8] {
        self.call_messages.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::encode_integer;

    const LIMIT: u32 = 1_000;

    fn decoder() -> Decoder {
        Decoder::new(LIMIT)
    }

    /// Tests the responses in the examples of RFC 7541 §C.5 and §C.6, with a table of 256 bytes.
    #[test]
    fn the_examples_of_the_rfc() {
        let plain: [&[u8]; 3] = [
            b"\x48\x03302\x58\x07private\x61\x1dMon, 21 Oct 2013 20:13:21 GMT\
              \x6e\x17https://www.example.com",
            b"\x48\x03307\xc1\xc0\xbf",
            b"\x88\xc1\x61\x1dMon, 21 Oct 2013 20:13:22 GMT\xc0\x5a\x04gzip\x77\x38\
              foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        ];
        let coded: [&[u8]; 3] = [
            b"\x48\x82\x64\x02\x58\x85\xae\xc3\x77\x1a\x4b\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\
              \xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff\x6e\x91\x9d\x29\xad\x17\x18\
              \x63\xc7\x8f\x0b\x97\xc8\xe9\xae\x82\xae\x43\xd3",
            b"\x48\x83\x64\x0e\xff\xc1\xc0\xbf",
            b"\x88\xc1\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\
              \x84\xa6\x2d\x1b\xff\xc0\x5a\x83\x9b\xd9\xab\x77\xad\x94\xe7\x82\x1d\xd7\xf2\xe6\xc7\
              \xb3\x35\xdf\xdf\xcd\x5b\x39\x60\xd5\xaf\x27\x08\x7f\x36\x72\xc1\xab\x27\x0f\xb5\x29\
              \x1f\x95\x87\x31\x60\x65\xc0\x03\xed\x4e\xe5\xb1\x06\x3d\x50\x07",
        ];
        for blocks in [plain, coded] {
            let mut decoder = decoder();
            decoder.limit_table(256);
            let mut resized = b"\x3f\xe1\x01".to_vec();
            resized.extend_from_slice(blocks[0]);
            let blocks = [resized.as_slice(), blocks[1], blocks[2]];
            for (block, status, table_bytes) in [
                (blocks[0], 302, 222),
                (blocks[1], 307, 222),
                (blocks[2], 200, 215),
            ] {
                let fields = decoder.decode(block).expect("a valid block");
                assert_eq!(fields.head_status(), Ok(status));
                assert_eq!(decoder.table.bytes(), table_bytes);
            }
        }
    }

    #[test]
    fn what_can_not_be_decoded() {
        let rows: [(&[u8], DecodeError); 14] = [
            (b"\x80", DecodeError::Index),
            (b"\xbe", DecodeError::Index),
            (b"\xff\x00", DecodeError::Index),
            (b"\x7f\x00\x01a", DecodeError::Index),
            (b"\xff", DecodeError::Truncated),
            (b"\x40", DecodeError::Truncated),
            (b"\x40\x01", DecodeError::Truncated),
            (b"\x40\x01a\x05bcde", DecodeError::Truncated),
            (b"\xff\xff\xff\xff\xff\x7f", DecodeError::Integer),
            (b"\x00\x7f\xff\xff\xff\xff\x7f", DecodeError::Integer),
            (
                b"\x00\x81\x1e\x00",
                DecodeError::Huffman(HuffmanError::Padding),
            ),
            (
                b"\x00\x84\xff\xff\xff\xff\x00",
                DecodeError::Huffman(HuffmanError::EndOfString),
            ),
            (b"\x3f\xe2\x1f", DecodeError::TableTooLarge),
            (b"\x88\x20", DecodeError::ResizeLate),
        ];
        for (block, error) in rows {
            assert_eq!(
                decoder().decode(block),
                Err(error),
                "{}",
                block.escape_ascii()
            );
        }
    }

    #[test]
    fn a_lowered_limit_is_acknowledged_at_the_start_of_the_next_block() {
        let mut kept = decoder();
        kept.limit_table(DEFAULT_TABLE_BYTES);
        assert!(kept.decode(b"\x88").is_ok());
        for block in [b"\x88".as_slice(), b""] {
            let mut lowered = decoder();
            // The block is cached, but it refers to the table and must be decoded again.
            assert!(lowered.decode(block).is_ok());
            lowered.limit_table(0);
            assert_eq!(lowered.decode(block), Err(DecodeError::ResizeMissing));
        }
        let mut lowered = decoder();
        lowered.limit_table(100);
        assert!(lowered.decode(b"\x20\x3f\x45\x88").is_ok());
        assert_eq!(lowered.table.max_bytes(), 100);
        assert!(lowered.decode(b"\x88").is_ok());
        assert_eq!(lowered.decode(b"\x3f\x46"), Err(DecodeError::TableTooLarge));
    }

    #[test]
    fn cached_blocks_have_the_same_meaning_and_effect() {
        let inserts = b"\x88\x40\x01a\x01b";
        let refers = b"\xbe\x88";
        let mut decoder = decoder();
        let first = decoder.decode(inserts).expect("valid");
        for round in 2..200 {
            assert_eq!(decoder.decode(inserts), Ok(first));
            let bytes = (34 * round).min(DEFAULT_TABLE_BYTES / 34 * 34);
            assert_eq!(decoder.table.bytes(), bytes);
        }
        // The newest entry is `a`, after which a status is not allowed. Later, another entry is the
        // newest.
        let fault = |fields: Result<Fields, DecodeError>| fields.map(|fields| fields.fault);
        for _ in 0..3 {
            assert_eq!(
                fault(decoder.decode(refers)),
                Ok(Some(FieldFault::PseudoHeaderLate))
            );
        }
        assert_eq!(fault(decoder.decode(b"\x48\x03404")), Ok(None));
        for _ in 0..3 {
            assert_eq!(
                fault(decoder.decode(refers)),
                Ok(Some(FieldFault::StatusTwice))
            );
        }
        decoder = decoder.renewed();
        assert_eq!(decoder.decode(refers), Err(DecodeError::Index));
    }

    /// Compares a decoder that caches blocks with one that always decodes.
    #[test]
    fn tables_do_not_depend_on_how_often_a_block_is_received() {
        let entry = |letter: u8, value_bytes: usize| {
            let mut block = vec![0x40, 1, letter, value_bytes as u8];
            block.resize(4 + value_bytes, b'v');
            block
        };
        let rows = [
            entry(b'a', 100),
            [entry(b'a', 90), entry(b'b', 0), entry(b'c', 70)].concat(),
            // Inserts the same entry twice, and then small entries after a large one.
            [entry(b'a', 60), entry(b'a', 60)].concat(),
            [
                entry(b'l', 120),
                entry(b's', 1),
                entry(b's', 2),
                entry(b's', 3),
            ]
            .concat(),
            // Two entries of the same size.
            b"\x48\x03404".to_vec(),
            b"\x48\x03503".to_vec(),
        ];
        for limit_bytes in [0, 100, 135, 300, 1_000, 4_096] {
            for (first, second) in rows
                .iter()
                .flat_map(|row| rows.iter().map(move |to| (row, to)))
            {
                let (mut known, mut plain) = (decoder(), decoder());
                for decoder in [&mut known, &mut plain] {
                    let mut resize = Vec::new();
                    encode_integer(5, 0x20, limit_bytes, &mut resize);
                    decoder.decode(&resize).expect("a lawful size");
                }
                for (block, rounds) in [(first, 130), (second, 10), (first, 10), (second, 200)] {
                    for _ in 0..rounds {
                        plain.block_cache = CachedBlocks::default();
                        assert_eq!(known.decode(block), plain.decode(block));
                        assert!(known.table.is_like(&plain.table));
                    }
                }
                // If all entries fit, nothing needs to be inserted again.
                let before = known.table.generation();
                assert!(known.decode(second).is_ok());
                assert!(limit_bytes < 1_000 || known.table.generation() == before);
            }
        }
    }

    #[test]
    fn a_known_block_is_looked_at_again_when_the_table_has_grown() {
        let mut decoder = decoder();
        let status = |fields: Result<Fields, DecodeError>| fields.map(|fields| fields.status);
        for (insertion, expected) in [
            (b"\x48\x03404", 404),
            (b"\x48\x03503", 503),
            (b"\x48\x03404", 404),
        ] {
            assert!(decoder.decode(insertion).is_ok());
            for _ in 0..2 {
                assert_eq!(status(decoder.decode(b"\xbe")), Ok(Some(expected)));
            }
        }
    }

    #[test]
    fn a_list_beyond_the_limit_has_a_fault_and_little_memory() {
        let mut decoder = decoder();
        let entry = [b"\x40\x01a\x7f\x94\x0e".as_slice(), &[b'v'; 1939]].concat();
        let fault = Some(FieldFault::ListTooLong { limit_bytes: LIMIT });
        assert_eq!(decoder.decode(&entry).expect("valid").fault, fault);
        let bomb = vec![0xbe; 16_384];
        let fields = decoder.decode(&bomb).expect("valid");
        assert_eq!(fields.fault, fault);
        assert_eq!(fields.list_bytes, 16_384 * (1 + 1_939 + 32));
        assert_eq!(decoder.text.capacity(), 0);
    }
}
