//! Decoder of field sections and of the encoder stream (RFC 9204 §2.2).

use super::instruction::EncoderInstruction;
use super::prefix::SectionPrefix;
use super::texts::SectionTexts;
use super::{INITIAL_TABLE_BYTES, QpackError, static_table};
use crate::compression::{
    BlockCache, CodedString, Field, FieldFault, Fields, IntegerError, Name, Table, decode_integer,
    encode_integer, string,
};

/// Largest dynamic table that a decoder can allow, in bytes.
const CAPACITY_MAX: u32 = 64 * 1_024;

/// Largest instruction other than its strings, in bytes, with room to spare.
const INSTRUCTION_OVERHEAD_BYTES: usize = 64;

/// Largest number of bytes with which the Huffman coding codes one: at most 30 bits.
const CODED_BYTES_MAX: usize = 4;

/// Bytes of the encoder stream that are added to an incomplete instruction at once.
const INSTRUCTION_PIECE_BYTES: usize = 4_096;

/// Decoder for the field sections of one connection.
#[derive(Debug)]
pub struct QpackDecoder {
    table: Table,
    /// Largest capacity that the peer may choose, in bytes (SETTINGS_QPACK_MAX_TABLE_CAPACITY).
    capacity_limit: u32,
    /// Number of entries that were ever inserted (Insert Count).
    inserts: u64,
    /// Number of insertions that the peer knows to have arrived (Known Received Count).
    acknowledged: u64,
    /// Longest list of fields, in bytes as counted by RFC 9114 §4.2.2.
    list_limit_bytes: u32,
    static_entries: &'static [Field; static_table::ENTRIES],
    block_cache: BlockCache<Option<TableUse>>,
    /// Buffer for a decoded Huffman string: at most 8/5 of a section or instruction, because every
    /// code has at least 5 bits.
    text: Vec<u8>,
    /// Start of an instruction that arrived in parts.
    partial: Vec<u8>,
    /// Instructions for the decoder stream.
    out: Vec<u8>,
    /// The fields as text, if requested.
    texts: Option<Box<SectionTexts>>,
}

/// Reference of a cached section to the dynamic table.
#[derive(Debug, Clone, Copy)]
struct TableUse {
    /// Generation of the table for which the section has its meaning.
    generation: u64,
    /// Required Insert Count of the section.
    required: u64,
}

impl QpackDecoder {
    /// Creates a decoder for a new connection. The peer may use a dynamic table of up to
    /// `capacity_limit` bytes. Lists above `list_limit_bytes` are decoded, and marked as faulty.
    #[must_use]
    pub fn new(capacity_limit: u32, list_limit_bytes: u32) -> QpackDecoder {
        QpackDecoder {
            table: Table::new(INITIAL_TABLE_BYTES),
            capacity_limit: capacity_limit.min(CAPACITY_MAX),
            inserts: 0,
            acknowledged: 0,
            list_limit_bytes,
            static_entries: static_table::entries(),
            block_cache: BlockCache::default(),
            text: Vec::new(),
            partial: Vec::new(),
            out: Vec::new(),
            texts: None,
        }
    }

    /// Resets the decoder for another connection. Keeps its memory, and the cached sections that
    /// don't refer to the dynamic table.
    pub fn restart(&mut self) {
        self.table.restart(INITIAL_TABLE_BYTES);
        self.inserts = 0;
        self.acknowledged = 0;
        self.partial.clear();
        self.out.clear();
        if let Some(texts) = &mut self.texts {
            texts.restart();
        }
    }

    /// Keeps the fields of sections as text for [`lines`](QpackDecoder::lines). Must be called
    /// before anything is read.
    pub fn keep_texts(&mut self) {
        let limit = self.capacity_limit;
        self.texts
            .get_or_insert_with(|| Box::new(SectionTexts::new(limit)));
    }

    /// Fields of the last section: `name: value` and CRLF for each; for a head, after the status
    /// line `HTTP/3 200`. Empty if they aren't kept.
    #[must_use]
    pub fn lines(&self) -> &[u8] {
        self.texts.as_ref().map_or(&[], |texts| texts.lines())
    }

    /// Decodes a complete section of a stream, and acknowledges it if it refers to the dynamic
    /// table (RFC 9204 §4.4.1).
    ///
    /// # Errors
    ///
    /// Returns the first error. The decoder must not be used further.
    #[inline]
    pub fn decode(&mut self, stream: u64, section: &[u8]) -> Result<Fields, QpackError> {
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

    fn decode_unknown(&mut self, stream: u64, section: &[u8]) -> Result<Fields, QpackError> {
        let mut rest = section;
        let prefix = SectionPrefix::take(&mut rest, self.inserts, self.capacity_limit)?;
        if prefix.required > self.inserts {
            return Err(QpackError::Blocked);
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
    ) -> Result<Field, QpackError> {
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
        Ok(Field::read(name, value))
    }

    /// Entry of the static table.
    #[inline]
    fn static_entry(&self, index: u32) -> Result<Field, QpackError> {
        let entry = self.static_entries.get(index as usize);
        entry.copied().ok_or(QpackError::Index)
    }

    /// Entry of the dynamic table at an absolute index, to which a section with this prefix may
    /// refer (RFC 9204 §2.2.3).
    fn section_entry(&self, absolute: u64, prefix: SectionPrefix) -> Result<Field, QpackError> {
        if absolute >= prefix.required {
            return Err(QpackError::Index);
        }
        // The required count is at most the number of insertions.
        self.dynamic_entry(self.inserts - 1 - absolute)
    }

    /// Entry of the dynamic table at an index that starts at 0 with the newest.
    fn dynamic_entry(&self, index: u64) -> Result<Field, QpackError> {
        let index = usize::try_from(index).map_err(|_| QpackError::Index)?;
        self.table.get(index).copied().ok_or(QpackError::Index)
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
    /// Returns the first error. The decoder must not be used further.
    pub fn read_instructions(&mut self, input: &[u8]) -> Result<u32, QpackError> {
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
                return Err(QpackError::EntryTooLarge);
            }
        }
        Ok(count)
    }

    /// Applies the complete instructions at the front.
    fn apply_all(&mut self, rest: &mut &[u8]) -> Result<u32, QpackError> {
        let mut count = 0;
        loop {
            let mut behind = *rest;
            match EncoderInstruction::take(&mut behind) {
                Ok(instruction) => self.apply(instruction)?,
                Err(IntegerError::Truncated) => return Ok(count),
                Err(IntegerError::TooLarge) => return Err(QpackError::Integer),
            }
            *rest = behind;
            count += 1;
        }
    }

    /// Applies an instruction (RFC 9204 §4.3).
    fn apply(&mut self, instruction: EncoderInstruction) -> Result<(), QpackError> {
        let field = match instruction {
            EncoderInstruction::Capacity(bytes) if bytes > self.capacity_limit => {
                return Err(QpackError::CapacityTooLarge);
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
            if field.bytes > self.table.most_bytes() {
                return Err(QpackError::EntryTooLarge);
            }
            self.table.insert(field);
            self.inserts += 1;
        }
        if let Some(texts) = &mut self.texts {
            texts.apply(instruction);
        }
        Ok(())
    }

    fn with_value(&mut self, name: Name, value: CodedString) -> Result<Field, QpackError> {
        Ok(Field::read(name, value.decode(&mut self.text)?))
    }

    /// Notes that a stream is abandoned before all its sections were decoded (RFC 9204 §2.2.2.2).
    pub fn cancel(&mut self, stream: u64) {
        // Without insertions, the peer has nothing to which the stream could refer.
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

    /// Size of the unsent instructions, in bytes.
    #[inline]
    pub(crate) fn output_bytes(&self) -> usize {
        self.out.len()
    }

    /// Appends the instructions for the decoder stream, and then the increment of the insert count
    /// (RFC 9204 §4.4.3).
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
