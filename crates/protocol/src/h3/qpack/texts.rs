//! Decoding of fields as text, for the few callers that need heads as text.

use super::instruction::EncoderInstruction;
use super::prefix::SectionPrefix;
use super::{INITIAL_TABLE_BYTES, static_table};
use crate::buffer::emptied;
use crate::compression::{CodedString, FieldText, TextTable, decode_integer, write_line};

/// Fields of the last section as text, decoded with a separate dynamic table.
///
/// Each section and instruction must have been accepted by the
/// [`Decoder`](super::Decoder), so it contains no errors and is within the decoder's
/// limits.
#[derive(Debug)]
pub(super) struct SectionTexts {
    table: TextTable,
    capacity_limit: u32,
    inserts: u64,
    /// The last section, one line per field.
    lines: Vec<u8>,
}

impl SectionTexts {
    pub(super) fn new(capacity_limit: u32) -> SectionTexts {
        SectionTexts {
            table: TextTable::new(INITIAL_TABLE_BYTES),
            capacity_limit,
            inserts: 0,
            lines: Vec::new(),
        }
    }

    /// Returns the texts of a new connection, which take over the memory.
    pub(super) fn renewed(&mut self) -> SectionTexts {
        SectionTexts {
            table: self.table.renewed(INITIAL_TABLE_BYTES),
            lines: emptied(&mut self.lines),
            ..SectionTexts::new(self.capacity_limit)
        }
    }

    /// Returns the fields of the last section, one line per field.
    pub(super) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Applies an instruction that the decoder has accepted.
    pub(super) fn apply(&mut self, instruction: EncoderInstruction) {
        if let EncoderInstruction::Capacity(bytes) = instruction {
            self.table.resize(bytes);
        } else if let Some(field) = self.inserted(instruction) {
            self.table.insert(field);
            self.inserts += 1;
        }
    }

    /// Returns the entry that an instruction inserts.
    fn inserted(&self, instruction: EncoderInstruction) -> Option<FieldText> {
        let dynamic = |index: u32| self.table.get(index as usize).cloned();
        Some(match instruction {
            EncoderInstruction::Capacity(_) => return None,
            EncoderInstruction::InsertStaticName { index, value } => {
                (static_entry(index)?.0, value.to_vec().ok()?)
            }
            EncoderInstruction::InsertDynamicName { index, value } => {
                (dynamic(index)?.0, value.to_vec().ok()?)
            }
            EncoderInstruction::InsertLiteral { name, value } => {
                (name.to_vec().ok()?, value.to_vec().ok()?)
            }
            EncoderInstruction::Duplicate { index } => dynamic(index)?,
        })
    }

    /// Reads a section that the decoder has accepted.
    pub(super) fn read(&mut self, section: &[u8]) {
        self.lines.clear();
        let mut rest = section;
        let prefix = SectionPrefix::take(&mut rest, self.inserts, self.capacity_limit);
        let Ok(prefix) = prefix else { return };
        // The loop ends early only for a section that the decoder rejects.
        while let Some(&first) = rest.first()
            && let Some(field) = self.line(first, prefix, &mut rest)
        {
            write_line("HTTP/3", &field, &mut self.lines);
        }
    }

    /// Reads a field line (RFC 9204 §4.5).
    fn line(&self, first: u8, prefix: SectionPrefix, rest: &mut &[u8]) -> Option<FieldText> {
        let mut integer = |bits| decode_integer(bits, rest).ok();
        let name = match first {
            0xc0.. => return static_entry(integer(6)?),
            0x80.. => return self.entry(prefix.relative(integer(6)?).ok()?),
            0x50..=0x5f | 0x70.. => static_entry(integer(4)?)?.0,
            0x40.. => self.entry(prefix.relative(integer(4)?).ok()?)?.0,
            0x20.. => CodedString::take(3, rest).ok()?.to_vec().ok()?,
            0x10.. => return self.entry(prefix.post_base(integer(4)?)),
            _ => self.entry(prefix.post_base(integer(3)?))?.0,
        };
        Some((name, CodedString::take(7, rest).ok()?.to_vec().ok()?))
    }

    /// Returns the entry of the dynamic table at an absolute index.
    fn entry(&self, absolute: u64) -> Option<FieldText> {
        let index = self.inserts.checked_sub(absolute)?.checked_sub(1)?;
        self.table.get(usize::try_from(index).ok()?).cloned()
    }
}

/// Returns the entry of the static table at this index.
fn static_entry(index: u32) -> Option<FieldText> {
    let (name, value) = static_table::TEXTS.get(index as usize)?;
    Some((name.as_bytes().to_vec(), value.as_bytes().to_vec()))
}
