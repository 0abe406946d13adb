//! Instructions on the encoder stream (RFC 9204 §4.3).

use crate::compression::{CodedString, IntegerError, decode_integer};

/// An instruction of the peer's encoder.
#[derive(Debug, Clone, Copy)]
pub(super) enum EncoderInstruction<'b> {
    /// Sets the capacity of the dynamic table, in bytes (§4.3.1).
    Capacity(u32),
    /// Inserts an entry that shares the name of a static entry (§4.3.2).
    InsertStaticName { index: u32, value: CodedString<'b> },
    /// Inserts an entry that shares the name of a dynamic entry (§4.3.2).
    InsertDynamicName { index: u32, value: CodedString<'b> },
    /// Inserts an entry with a literal name (§4.3.3).
    InsertLiteral {
        name: CodedString<'b>,
        value: CodedString<'b>,
    },
    /// Inserts a copy of a dynamic entry (§4.3.4).
    Duplicate { index: u32 },
}

impl<'b> EncoderInstruction<'b> {
    /// Parses an instruction at the start of `rest` and consumes it. The error `Truncated` means
    /// that the rest of the instruction hasn't arrived.
    pub(super) fn take(rest: &mut &'b [u8]) -> Result<EncoderInstruction<'b>, IntegerError> {
        let first = *rest.first().ok_or(IntegerError::Truncated)?;
        Ok(match first {
            0xc0.. => EncoderInstruction::InsertStaticName {
                index: decode_integer(6, rest)?,
                value: CodedString::take(7, rest)?,
            },
            0x80.. => EncoderInstruction::InsertDynamicName {
                index: decode_integer(6, rest)?,
                value: CodedString::take(7, rest)?,
            },
            0x40.. => EncoderInstruction::InsertLiteral {
                name: CodedString::take(5, rest)?,
                value: CodedString::take(7, rest)?,
            },
            0x20.. => EncoderInstruction::Capacity(decode_integer(5, rest)?),
            _ => EncoderInstruction::Duplicate {
                index: decode_integer(5, rest)?,
            },
        })
    }
}
