//! QPACK errors.

use std::fmt;

use crate::compression::{HuffmanError, IntegerError, StringError};

/// Error in a field section or on the encoder stream. The connection can no longer be used
/// (QPACK_DECOMPRESSION_FAILED or QPACK_ENCODER_STREAM_ERROR, RFC 9204 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DecodeError {
    /// The section ends within a field line or its prefix.
    Truncated,
    /// An integer with more than 32 bits, or with too many bytes (RFC 9204 §4.1.1).
    Integer,
    /// An index that isn't in its table, or is beyond the Required Insert Count (RFC 9204 §2.2.3).
    Index,
    /// An invalid Huffman-coded string (RFC 9204 §4.1.2).
    Huffman(HuffmanError),
    /// A Required Insert Count that no valid encoder can produce (RFC 9204 §4.5.1.1).
    InsertCount,
    /// A Base below 0 (RFC 9204 §4.5.1.2).
    Base,
    /// A reference to an entry that hasn't arrived, although blocked streams are not allowed (RFC
    /// 9204 §2.2.1).
    Blocked,
    /// A capacity of the dynamic table above the limit (RFC 9204 §4.3.1).
    CapacityTooLarge,
    /// An entry larger than the dynamic table (RFC 9204 §3.2.2).
    EntryTooLarge,
}

impl From<IntegerError> for DecodeError {
    fn from(error: IntegerError) -> DecodeError {
        match error {
            IntegerError::Truncated => DecodeError::Truncated,
            IntegerError::TooLarge => DecodeError::Integer,
        }
    }
}

impl From<HuffmanError> for DecodeError {
    fn from(error: HuffmanError) -> DecodeError {
        DecodeError::Huffman(error)
    }
}

impl From<StringError> for DecodeError {
    fn from(error: StringError) -> DecodeError {
        match error {
            StringError::Length(error) => error.into(),
            StringError::Huffman(error) => error.into(),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Truncated => "the data ends within a header",
            DecodeError::Integer => "an integer is too large",
            DecodeError::Index => "an index is not in the tables",
            DecodeError::Huffman(HuffmanError::EndOfString) => {
                "a Huffman-coded string contains EOS"
            }
            DecodeError::Huffman(HuffmanError::Padding) => {
                "a Huffman-coded string has invalid padding"
            }
            DecodeError::InsertCount => "the Required Insert Count is impossible",
            DecodeError::Base => "the Base is below 0",
            DecodeError::Blocked => {
                "a table entry that has not arrived is referenced, although streams must not block"
            }
            DecodeError::CapacityTooLarge => "the dynamic table would be larger than allowed",
            DecodeError::EntryTooLarge => "an entry is larger than the dynamic table",
        })
    }
}

impl std::error::Error for DecodeError {}
