//! Strings of HPACK and QPACK (RFC 7541 §5.2, RFC 9204 §4.1.2).

use super::huffman::{self, HuffmanError};
use super::integer::{self, IntegerError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StringError {
    /// The length is invalid, or the block ends within the string.
    Length(IntegerError),
    /// The Huffman coding is invalid.
    Huffman(HuffmanError),
}

/// A string that hasn't been decoded yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodedString<'b> {
    bytes: &'b [u8],
    is_huffman: bool,
}

impl<'b> CodedString<'b> {
    /// Parses a string at the start of `rest` and consumes it. Its length begins in the lowest
    /// `bits` bits of the first byte. The bit above them is set if the string is Huffman-coded.
    #[inline]
    pub(crate) fn take(bits: u32, rest: &mut &'b [u8]) -> Result<CodedString<'b>, IntegerError> {
        let is_huffman = rest.first().is_some_and(|first| first & (1 << bits) != 0);
        let length = integer::decode(bits, rest)? as usize;
        let (bytes, behind) = rest
            .split_at_checked(length)
            .ok_or(IntegerError::Truncated)?;
        *rest = behind;
        Ok(CodedString { bytes, is_huffman })
    }

    /// Returns the decoded string. A Huffman-coded string is decoded into `text`.
    #[inline]
    pub(crate) fn decode<'t>(self, text: &'t mut Vec<u8>) -> Result<&'t [u8], HuffmanError>
    where
        'b: 't,
    {
        if !self.is_huffman {
            return Ok(self.bytes);
        }
        text.clear();
        huffman::decode(self.bytes, text)?;
        Ok(text)
    }

    /// Returns the decoded string as a new vector.
    pub(crate) fn to_vec(self) -> Result<Vec<u8>, HuffmanError> {
        let mut text = Vec::new();
        if self.is_huffman {
            huffman::decode(self.bytes, &mut text)?
        } else {
            text.extend_from_slice(self.bytes)
        }
        Ok(text)
    }
}

/// Parses and decodes a string at the start of `rest`; see [`CodedString::take`]. A Huffman-coded
/// string is decoded into `text`.
#[inline]
pub(crate) fn string<'t, 'b: 't>(
    bits: u32,
    rest: &mut &'b [u8],
    text: &'t mut Vec<u8>,
) -> Result<&'t [u8], StringError> {
    let coded = CodedString::take(bits, rest).map_err(StringError::Length)?;
    coded.decode(text).map_err(StringError::Huffman)
}

/// Appends a string in the shorter of the two codings. Its length begins in the lowest `bits` bits
/// of the first byte. The bit above them is set for the Huffman coding. The other bits are taken
/// from `pattern`.
pub(crate) fn encode_string(bits: u32, pattern: u8, text: &str, out: &mut Vec<u8>) {
    let coded_bytes = huffman::coded_bytes(text.as_bytes());
    if coded_bytes < text.len() {
        integer::encode(bits, pattern | 1 << bits, coded_bytes, out);
        huffman::encode(text.as_bytes(), out);
    } else {
        integer::encode(bits, pattern, text.len(), out);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Number of bits of the first byte that encode the length of a field's value.
const VALUE_BITS: u32 = 7;

/// Lengths below this number are encoded in one byte.
const LENGTH_IN_ONE_BYTE: usize = (1 << VALUE_BITS) - 1;

/// Appends a field's value. `write` appends the value as plain octets. Returns the length of the
/// value.
pub(crate) fn encode_value_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < LENGTH_IN_ONE_BYTE {
        out[start] = length as u8;
        return length;
    }
    // If the length takes several bytes, it is appended at the end and then moved before the value.
    let value_end = out.len();
    integer::encode(VALUE_BITS, 0, length, out);
    let length_bytes = out.len() - value_end;
    out[start + 1..].rotate_right(length_bytes);
    out.remove(start);
    length
}
