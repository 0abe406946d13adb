//! Decoder of field sections and of the encoder stream (RFC 9204 §2.2).

use super::instruction::EncoderInstruction;
use super::prefix::SectionPrefix;
use super::texts::SectionTexts;
use super::{DecodeError, INITIAL_TABLE_BYTES, static_table};
use crate::buffer::emptied;
use crate::compression::{
    BlockCache, CallMessageId, CallMessages, CodedString, Field, FieldFault, Fields, IntegerError,
    Name, Table, decode_integer, encode_integer, string,
};

/// Largest dynamic table that a decoder can allow, in bytes.
const CAPACITY_MAX: u32 = 64 * 1_024;

/// Maximum size of an instruction without its strings, in bytes, with a margin.
const INSTRUCTION_OVERHEAD_BYTES: usize = 64;

/// Maximum length in bytes of the Huffman code of one symbol. The longest code has 30 bits.
const CODED_BYTES_MAX: usize = 4;

/// Number of bytes of the encoder stream that are added at a time to an incomplete instruction.
const INSTRUCTION_PIECE_BYTES: usize = 4_096;

/// Decoder for the field sections of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Largest capacity that the peer may choose, in bytes (SETTINGS_QPACK_MAX_TABLE_CAPACITY).
    capacity_limit: u32,
    /// Total number of entries inserted so far (Insert Count).
    inserts: u64,
    /// Number of insertions whose arrival was acknowledged to the peer (Known Received Count).
    acknowledged: u64,
    /// Maximum size of a field list, in bytes as counted by RFC 9114 §4.2.2.
    list_limit_bytes: u32,
    static_entries: &'static [Field; static_table::ENTRIES],
    block_cache: BlockCache<Option<TableUse>>,
    /// Buffer for a decoded Huffman string: at most 8/5 of a section or instruction, because every
    /// code has at least 5 bits.
    text: Vec<u8>,
    call_messages: CallMessages,
    /// The part of an incomplete instruction that has arrived.
    partial: Vec<u8>,
    /// Instructions for the decoder stream.
    out: Vec<u8>,
    /// The fields as text, if requested.
    texts: Option<Box<SectionTexts>>,
}

/// State of the dynamic table that a cached section requires.
#[derive(Debug, Clone, Copy)]
struct TableUse {
    /// Generation of the table for which the cached meaning is valid.
    generation: u64,
    /// Required Insert Count of the section.
    required: u64,
}

impl Decoder {
    /// Creates a decoder for a new connection. The peer may use a dynamic table of up to
    /// `capacity_limit` bytes. Lists above `list_limit_bytes` are decoded but marked as faulty.
    #[must_use]
    pub fn new(capacity_limit: u32, list_limit_bytes: u32) -> Decoder {
        Decoder {
            table: Table::new(INITIAL_TABLE_BYTES),
            capacity_limit: capacity_limit.min(CAPACITY_MAX),
            inserts: 0,
            acknowledged: 0,
            list_limit_bytes,
            static_entries: static_table::entries(),
            block_cache: BlockCache::default(),
            text: Vec::new(),
            call_messages: CallMessages::default(),
            partial: Vec::new(),
            out: Vec::new(),
            texts: None,
        }
    }

    /// Returns a decoder for another connection. It takes over the memory, and the cached sections
    /// that don't refer to the dynamic table. This decoder must not be used again.
    #[must_use]
    pub fn renewed(&mut self) -> Decoder {
        Decoder {
            table: self.table.renewed(INITIAL_TABLE_BYTES),
            block_cache: std::mem::take(&mut self.block_cache),
            text: emptied(&mut self.text),
            // The cached sections refer to the messages.
            call_messages: std::mem::take(&mut self.call_messages),
            partial: emptied(&mut self.partial),
            out: emptied(&mut self.out),
            texts: self.texts.take().map(|mut texts| {
                *texts = texts.renewed();
                texts
            }),
            ..Decoder::new(self.capacity_limit, self.list_limit_bytes)
        }
    }

    /// Removes the traces of earlier connections that a new connection may use.
    #[cfg(test)]
    pub(crate) fn forget_cache(&mut self) {
        self.block_cache = BlockCache::default();
        self.table.forget_generation();
    }

    /// Enables [`lines`](Decoder::lines), which returns the fields of sections as text. Must
    /// be called before anything is read.
    pub fn keep_texts(&mut self) {
        let limit = self.capacity_limit;
        self.texts
            .get_or_insert_with(|| Box::new(SectionTexts::new(limit)));
    }

    /// Returns the fields of the last section, as `name: value` with CRLF. In a head, the status
    /// line `HTTP/3 200` comes first. The result is empty without
    /// [`keep_texts`](Decoder::keep_texts).
    #[must_use]
    pub fn lines(&self) -> &[u8] {
        self.texts.as_ref().map_or(&[], |texts| texts.lines())
    }

    /// Decodes a complete section of a stream, and acknowledges it if it refers to the dynamic
    /// table (RFC 9204 §4.4.1).
    ///
    /// # Errors
    ///
    /// Returns the first error. The decoder must not be used again.
    #[inline]
    pub fn decode(&mut self, stream: u64, section: &[u8]) -> Result<Fields, DecodeError> {
        let fields = match self.recall(stream, section) {
            Some(fields) => fields,
            None => self.decode_unknown(stream, section)?,
        };
        if let Some(texts) = &mut self.texts {
            texts.read(section);
        }
        Ok(fields)
    }

    /// Returns the fields of a cached section if it still has the same meaning.
    #[inline]
    fn recall(&mut self, stream: u64, section: &[u8]) -> Option<Fields> {
        // Unused entries of the cache are empty, but no valid section is.
        if section.is_empty() {
            return None;
        }
        let known = self.block_cache.find(section)?;
        let fields = known.fields;
        if let Some(table_use) = known.effects {
            if table_use.generation != self.table.generation() {
                return None;
            }
            self.acknowledge(stream, table_use.required);
        }
        Some(fields)
    }

    fn decode_unknown(&mut self, stream: u64, section: &[u8]) -> Result<Fields, DecodeError> {
        let mut rest = section;
        let prefix = SectionPrefix::take(&mut rest, self.inserts, self.capacity_limit)?;
        if prefix.required > self.inserts {
            return Err(DecodeError::Blocked);
        }
        let mut fields = Fields::default();
        while let Some(&first) = rest.first() {
            let field = self.line(first, prefix, &mut rest)?;
            fields.add(&field);
        }
        if fields.list_bytes > u64::from(self.list_limit_bytes) {
            let limit_bytes = self.list_limit_bytes;
            fields.blame(FieldFault::ListTooLong { limit_bytes });
        }
        let table_use = (prefix.required > 0).then(|| TableUse {
            generation: self.table.generation(),
            required: prefix.required,
        });
        if BlockCache::<Option<TableUse>>::is_cacheable(section) {
            *self.block_cache.store(section, fields) = table_use;
        }
        if table_use.is_some() {
            self.acknowledge(stream, prefix.required);
        }
        Ok(fields)
    }

    /// Decodes a field line, whose first bits determine its representation (RFC 9204 §4.5).
    #[inline]
    fn line(
        &mut self,
        first: u8,
        prefix: SectionPrefix,
        rest: &mut &[u8],
    ) -> Result<Field, DecodeError> {
        let name = match first {
            0xc0.. => return self.static_entry(decode_integer(6, rest)?),
            0x80.. => {
                let at = prefix.relative(decode_integer(6, rest)?)?;
                return self.section_entry(at, prefix);
            }
            0x50..=0x5f | 0x70.. => self.static_entry(decode_integer(4, rest)?)?.name,
            0x40.. => {
                let at = prefix.relative(decode_integer(4, rest)?)?;
                self.section_entry(at, prefix)?.name
            }
            0x20.. => Name::read(string(3, rest, &mut self.text)?),
            0x10.. => {
                let at = prefix.post_base(decode_integer(4, rest)?);
                return self.section_entry(at, prefix);
            }
            _ => {
                let at = prefix.post_base(decode_integer(3, rest)?);
                self.section_entry(at, prefix)?.name
            }
        };
        let value = string(7, rest, &mut self.text)?;
        Ok(self.call_messages.field(name, value))
    }

    /// Returns the value of a `grpc-message`, percent-encoded.
    pub fn call_message(&self, id: CallMessageId) -> &[u8] {
        self.call_messages.get(id)
    }

    /// Returns the entry of the static table at this index.
    #[inline]
    fn static_entry(&self, index: u32) -> Result<Field, DecodeError> {
        let entry = self.static_entries.get(index as usize);
        entry.copied().ok_or(DecodeError::Index)
    }

    /// Returns the dynamic table entry with the given absolute index, if a section with this prefix
    /// may refer to it (RFC 9204 §2.2.3).
    fn section_entry(&self, absolute: u64, prefix: SectionPrefix) -> Result<Field, DecodeError> {
        if absolute >= prefix.required {
            return Err(DecodeError::Index);
        }
        // The Required Insert Count is at most the number of insertions.
        self.dynamic_entry(self.inserts - 1 - absolute)
    }

    /// Returns the entry of the dynamic table at an index, counted from 0 for the newest entry.
    fn dynamic_entry(&self, index: u64) -> Result<Field, DecodeError> {
        let index = usize::try_from(index).map_err(|_| DecodeError::Index)?;
        self.table.get(index).copied().ok_or(DecodeError::Index)
    }

    /// Acknowledges a section that refers to the dynamic table (RFC 9204 §4.4.1).
    fn acknowledge(&mut self, stream: u64, required: u64) {
        encode_integer(7, 0x80, stream as usize, &mut self.out);
        self.acknowledged = self.acknowledged.max(required);
    }

    /// Reads bytes of the encoder stream, in pieces of any size. Returns the number of complete
    /// instructions.
    ///
    /// # Errors
    ///
    /// Returns the first error. The decoder must not be used again.
    pub fn read_instructions(&mut self, input: &[u8]) -> Result<u32, DecodeError> {
        let mut count = 0;
        let mut rest = input;
        if self.partial.is_empty() {
            count += self.apply_all(&mut rest)?;
        }
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(INSTRUCTION_PIECE_BYTES));
            rest = behind;
            self.partial.extend_from_slice(piece);
            let partial = std::mem::take(&mut self.partial);
            let mut unread = partial.as_slice();
            let result = self.apply_all(&mut unread);
            let read = partial.len() - unread.len();
            self.partial = partial;
            self.partial.drain(..read);
            count += result?;
            let text_bytes_max = self.capacity_limit as usize * CODED_BYTES_MAX;
            if self.partial.len() > text_bytes_max + INSTRUCTION_OVERHEAD_BYTES {
                return Err(DecodeError::EntryTooLarge);
            }
        }
        Ok(count)
    }

    /// Applies the complete instructions at the start of the input.
    fn apply_all(&mut self, rest: &mut &[u8]) -> Result<u32, DecodeError> {
        let mut count = 0;
        loop {
            let mut behind = *rest;
            match EncoderInstruction::take(&mut behind) {
                Ok(instruction) => self.apply(instruction)?,
                Err(IntegerError::Truncated) => return Ok(count),
                Err(IntegerError::TooLarge) => return Err(DecodeError::Integer),
            }
            *rest = behind;
            count += 1;
        }
    }

    /// Applies an instruction (RFC 9204 §4.3).
    fn apply(&mut self, instruction: EncoderInstruction) -> Result<(), DecodeError> {
        let field = match instruction {
            EncoderInstruction::Capacity(bytes) if bytes > self.capacity_limit => {
                return Err(DecodeError::CapacityTooLarge);
            }
            EncoderInstruction::Capacity(bytes) => {
                self.table.resize(bytes);
                None
            }
            EncoderInstruction::InsertStaticName { index, value } => {
                let name = self.static_entry(index)?.name;
                Some(self.with_value(name, value)?)
            }
            EncoderInstruction::InsertDynamicName { index, value } => {
                let name = self.dynamic_entry(u64::from(index))?.name;
                Some(self.with_value(name, value)?)
            }
            EncoderInstruction::InsertLiteral { name, value } => {
                let name = Name::read(name.decode(&mut self.text)?);
                Some(self.with_value(name, value)?)
            }
            EncoderInstruction::Duplicate { index } => Some(self.dynamic_entry(u64::from(index))?),
        };
        if let Some(field) = field {
            if field.bytes > self.table.max_bytes() {
                return Err(DecodeError::EntryTooLarge);
            }
            self.table.insert(field);
            self.inserts += 1;
        }
        if let Some(texts) = &mut self.texts {
            texts.apply(instruction);
        }
        Ok(())
    }

    fn with_value(&mut self, name: Name, value: CodedString) -> Result<Field, DecodeError> {
        let value = value.decode(&mut self.text)?;
        Ok(self.call_messages.field(name, value))
    }

    /// Records that a stream was abandoned before all its sections were decoded (RFC 9204
    /// §2.2.2.2).
    pub fn cancel(&mut self, stream: u64) {
        // Without insertions, the stream can't contain references, so the peer doesn't wait for
        // their release.
        if self.inserts > 0 {
            encode_integer(6, 0x40, stream as usize, &mut self.out);
        }
    }

    /// Returns true if there are instructions for the decoder stream.
    #[inline]
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() || self.inserts > self.acknowledged
    }

    /// Returns the size of the unsent instructions, in bytes.
    #[inline]
    pub(crate) fn output_bytes(&self) -> usize {
        self.out.len()
    }

    /// Appends the instructions for the decoder stream, followed by an Insert Count Increment if
    /// some insertions are not acknowledged yet (RFC 9204 §4.4.3).
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.out);
        self.out.clear();
        let increment = self.inserts - self.acknowledged;
        if increment > 0 {
            encode_integer(6, 0, increment as usize, out);
            self.acknowledged = self.inserts;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::HuffmanError;

    const LIST_LIMIT: u32 = 1_000;

    fn decoder() -> Decoder {
        let mut decoder = Decoder::new(4_096, LIST_LIMIT);
        decoder.keep_texts();
        decoder
    }

    fn output(decoder: &mut Decoder) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(decoder.has_output(), {
            decoder.take_output(&mut out);
            !out.is_empty()
        });
        assert!(!decoder.has_output());
        out
    }

    /// Decodes a section twice and returns its lines. The second time, the section may be in the
    /// cache.
    fn lines(decoder: &mut Decoder, stream: u64, section: &[u8]) -> String {
        let fields = decoder.decode(stream, section);
        let lines = String::from_utf8_lossy(decoder.lines()).into_owned();
        assert_eq!(decoder.decode(stream, section), fields);
        assert_eq!(decoder.lines(), lines.as_bytes());
        let fault = fields.expect("a valid section").fault;
        assert_eq!(fault, Some(FieldFault::PseudoHeader));
        lines
    }

    /// Tests the examples of RFC 9204 Appendix B. They contain request fields. A
    /// client's decoder decodes these too, but marks them as invalid in a response.
    #[test]
    fn the_examples_of_the_rfc() {
        for piece_bytes in [1, 2, 7, 1_000] {
            let mut decoder = Decoder::new(220, LIST_LIMIT);
            decoder.keep_texts();
            let instruct = |decoder: &mut Decoder, bytes: &[u8]| {
                for piece in bytes.chunks(piece_bytes) {
                    decoder
                        .read_instructions(piece)
                        .expect("valid instructions");
                }
                (decoder.inserts, decoder.table.bytes())
            };
            let path = lines(&mut decoder, 0, b"\x00\x00\x51\x0b/index.html");
            assert_eq!(path, ":path: /index.html\r\n");
            assert_eq!(output(&mut decoder), b"");

            let inserts = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
            assert_eq!(instruct(&mut decoder, inserts), (2, 106));
            let both = lines(&mut decoder, 4, b"\x03\x81\x10\x11");
            assert_eq!(
                both,
                ":authority: www.example.com\r\n:path: /sample/path\r\n"
            );
            assert_eq!(output(&mut decoder), b"\x84\x84");

            let insert = b"\x4acustom-key\x0ccustom-value";
            assert_eq!(instruct(&mut decoder, insert), (3, 160));
            assert_eq!(output(&mut decoder), b"\x01");

            assert_eq!(instruct(&mut decoder, b"\x02"), (4, 217));
            let three = lines(&mut decoder, 8, b"\x05\x00\x80\xc1\x81");
            assert_eq!(
                three,
                ":authority: www.example.com\r\n:path: /\r\ncustom-key: custom-value\r\n"
            );
            decoder.cancel(8);
            assert_eq!(output(&mut decoder), b"\x88\x88\x48");

            let evicts = b"\x81\x0dcustom-value2";
            assert_eq!(instruct(&mut decoder, evicts), (5, 215));
            assert_eq!(output(&mut decoder), b"\x01");
            // The first entry was evicted.
            assert_eq!(decoder.decode(12, b"\x03\x81\x10"), Err(DecodeError::Index));
        }
    }

    #[test]
    fn errors_in_sections() {
        let rows: [(&[u8], DecodeError); 23] = [
            (b"", DecodeError::Truncated),
            (b"\x00", DecodeError::Truncated),
            (b"\x00\x00\xff", DecodeError::Truncated),
            (b"\x00\x00\x51", DecodeError::Truncated),
            (b"\x00\x00\x51\x02a", DecodeError::Truncated),
            (b"\x00\x00\x23ab", DecodeError::Truncated),
            (b"\x00\x00\x21a", DecodeError::Truncated),
            (b"\x00\x00\xff\x24", DecodeError::Index),
            (b"\x00\x00\x5f\x54\x00", DecodeError::Index),
            (b"\x00\x00\x80", DecodeError::Index),
            (b"\x00\x00\x40\x00", DecodeError::Index),
            (b"\x00\x00\x10", DecodeError::Index),
            (b"\x00\x00\x00\x00", DecodeError::Index),
            // The table has three entries, and the section requires two of them.
            (b"\x03\x00\x82", DecodeError::Index),
            (b"\x03\x01\x80", DecodeError::Index),
            (b"\x03\x00\x10", DecodeError::Index),
            (b"\x03\x82\x10", DecodeError::Base),
            (b"\x05\x00\x80", DecodeError::Blocked),
            (b"\xff\xff\xff\xff\xff\x7f", DecodeError::Integer),
            (b"\xff\x80\x20", DecodeError::InsertCount),
            (b"\x01\x00", DecodeError::InsertCount),
            (
                b"\x00\x00\x51\x81\x1e",
                DecodeError::Huffman(HuffmanError::Padding),
            ),
            (
                b"\x00\x00\x2c\xff\xff\xff\xff\x00",
                DecodeError::Huffman(HuffmanError::EndOfString),
            ),
        ];
        for (section, error) in rows {
            let mut decoder = decoder();
            let inserts = b"\x3f\xe1\x1f\x41a\x01b\x41a\x01c\x41a\x01d";
            assert_eq!(decoder.read_instructions(inserts), Ok(4));
            let result = decoder.decode(0, section);
            assert_eq!(result, Err(error), "{}", section.escape_ascii());
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn errors_in_instructions() {
        let rows: [(&[u8], DecodeError); 10] = [
            (b"\x3f\xe2\x1f", DecodeError::CapacityTooLarge),
            (b"\x41a\x01b", DecodeError::EntryTooLarge),
            (b"\x3f\x02\x41a\x01b", DecodeError::EntryTooLarge),
            (b"\x3f\x03\x41a\x01b\x41a\x02bc", DecodeError::EntryTooLarge),
            (b"\x3f\x45\x00", DecodeError::Index),
            (b"\x3f\x45\x80\x00", DecodeError::Index),
            (b"\x3f\x45\x41a\x01b\x01", DecodeError::Index),
            (b"\x3f\x45\xff\x24\x00", DecodeError::Index),
            (b"\x1f\xff\xff\xff\xff\x7f", DecodeError::Integer),
            (
                b"\x3f\x45\x61\x1e\x00",
                DecodeError::Huffman(HuffmanError::Padding),
            ),
        ];
        for (bytes, error) in rows {
            for piece_bytes in [1, 2, 1_000] {
                let mut decoder = decoder();
                let mut pieces = bytes.chunks(piece_bytes);
                let result = pieces.find_map(|piece| decoder.read_instructions(piece).err());
                assert_eq!(result, Some(error), "{}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn incomplete_instructions_use_little_memory() {
        for start in [&b"\x7f\xff\xff\xff\x07"[..], b"\x41a\x7f\xff\xff\xff\x07"] {
            let mut decoder = decoder();
            assert_eq!(decoder.read_instructions(start), Ok(0));
            let endless = std::iter::repeat_n([b'a'; 1_000], 1_000);
            let error = endless
                .map(|piece| decoder.read_instructions(&piece))
                .find_map(Result::err);
            assert_eq!(error, Some(DecodeError::EntryTooLarge));
            assert!(decoder.partial.capacity() < 64 * 1_024);
        }
    }

    #[test]
    fn a_known_section_is_decoded_again_when_the_table_has_changed() {
        let mut decoder = decoder();
        let status = |fields: Result<Fields, DecodeError>| fields.map(|fields| fields.status);
        decoder
            .read_instructions(b"\x3f\xe1\x1f")
            .expect("a valid capacity");
        // The encoded Required Insert Count wraps around at twice the maximum number of entries.
        let counts =
            (1..=2 * 128 * 3).map(|count: u64| (count, [404, 503][(count / 256) as usize % 2]));
        for (count, expected) in counts {
            let insert = format!("\u{18}\u{3}{expected}").into_bytes();
            let insert = [&[0xc0 | 24][..], &insert[1..]].concat();
            assert_eq!(decoder.read_instructions(&insert), Ok(1));
            let mut section = Vec::new();
            encode_integer(8, 0, (count % 256) as usize + 1, &mut section);
            section.extend_from_slice(b"\x00\x80");
            for _ in 0..3 {
                assert_eq!(status(decoder.decode(0, &section)), Ok(Some(expected)));
            }
            assert_eq!(output(&mut decoder), b"\x80\x80\x80");
        }
        decoder = decoder.renewed();
        assert_eq!(
            decoder.decode(0, b"\x02\x00\x80"),
            Err(DecodeError::Blocked)
        );
    }

    #[test]
    fn a_section_that_needs_insertions_is_not_known_on_the_next_connection() {
        let mut decoder = decoder();
        // An entry that is evicted immediately, and a section that requires the entry but doesn't
        // refer to it.
        let instructions = b"\x3f\xe1\x1f\x41a\x01b\x20";
        assert_eq!(decoder.read_instructions(instructions), Ok(3));
        let section = b"\x02\x00\xd9";
        for _ in 0..2 {
            assert!(decoder.decode(0, section).is_ok());
        }
        decoder = decoder.renewed();
        assert_eq!(decoder.decode(0, section), Err(DecodeError::Blocked));
        assert_eq!(output(&mut decoder), b"");
    }

    #[test]
    fn insertions_are_acknowledged_once() {
        let mut decoder = decoder();
        let inserts = b"\x3f\xe1\x1f\x41a\x01b\x41a\x01c\x41a\x01d";
        assert_eq!(decoder.read_instructions(inserts), Ok(4));
        decoder.decode(400, b"\x03\x00\x81").expect("valid");
        // The section already acknowledges two of the insertions.
        assert_eq!(output(&mut decoder), b"\xff\x91\x02\x01");
        decoder.decode(4, b"\x04\x00\x81").expect("valid");
        assert_eq!(output(&mut decoder), b"\x84");
        decoder.decode(8, b"\x00\x00\xd9").expect("valid");
        assert_eq!(output(&mut decoder), b"");
        decoder = decoder.renewed();
        decoder.cancel(4);
        assert_eq!(output(&mut decoder), b"");
    }

    #[test]
    fn a_list_beyond_the_limit_has_a_fault() {
        let mut decoder = decoder();
        let insert = [b"\x3f\xe1\x1f\x41a\x7f\x94\x0e".as_slice(), &[b'v'; 1_939]].concat();
        assert_eq!(decoder.read_instructions(&insert), Ok(2));
        let bomb = [&b"\x02\x00"[..], &[0x80; 16_384]].concat();
        let fields = Decoder::decode(&mut decoder, 0, &bomb).expect("valid");
        let fault = FieldFault::ListTooLong {
            limit_bytes: LIST_LIMIT,
        };
        assert_eq!(fields.fault, Some(fault));
        assert_eq!(fields.list_bytes, 16_384 * (1 + 1_939 + 32));
    }
}
