//! The chunked coding (RFC 9112 §7.1), up to the trailers.
//!
//! ```text
//!  Size ──" "──► Padding ──";"──► Extension          for each chunk:
//!    │              │                 │                size [;extensions] CRLF bytes CRLF
//!    └──────CR──────┴───────CR────────┘              the last has size 0 and no bytes
//!                   ▼
//!                LineFeed ──► Data ──► DataCr ──► DataLf ──► Size
//!                   └─ size 0 ─► the trailers
//! ```

use super::Violation;
use crate::field::is_value_byte;

/// A chunked body under way.
#[derive(Debug)]
pub(super) struct Chunks {
    at: At,
    /// The size read so far, then what is left of the chunk's bytes.
    left: u64,
    /// Bytes of the line with the size so far.
    line_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first digit of a size.
    FirstDigit,
    Size,
    Padding,
    Extension,
    LineFeed,
    Data,
    DataCr,
    DataLf,
}

/// What the input meant.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    NeedMore,
    Data(&'a [u8]),
    /// The line of the last chunk has ended.
    Last,
}

impl Chunks {
    pub(super) const fn new() -> Chunks {
        Chunks {
            at: At::FirstDigit,
            left: 0,
            line_bytes: 0,
        }
    }

    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        line_limit: usize,
    ) -> Result<Piece<'a>, Violation> {
        loop {
            if self.at == At::Data {
                return Ok(self.data(input));
            }
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(Piece::NeedMore);
            };
            *input = rest;
            match self.at {
                At::DataCr if byte == b'\r' => self.at = At::DataLf,
                At::DataLf if byte == b'\n' => *self = Chunks::new(),
                At::DataCr | At::DataLf => return Err(Violation::ChunkEnd),
                _ => {
                    self.line_byte(byte, line_limit)?;
                    if self.at == At::Data && self.left == 0 {
                        return Ok(Piece::Last);
                    }
                }
            }
        }
    }

    fn data<'a>(&mut self, input: &mut &'a [u8]) -> Piece<'a> {
        if input.is_empty() {
            return Piece::NeedMore;
        }
        let piece = super::response::take(input, &mut self.left);
        if self.left == 0 {
            self.at = At::DataCr;
        }
        Piece::Data(piece)
    }

    /// One byte of the line with the size.
    fn line_byte(&mut self, byte: u8, limit: usize) -> Result<(), Violation> {
        self.line_bytes += 1;
        if self.line_bytes > limit {
            return Err(Violation::ChunkLineTooLong { limit_bytes: limit });
        }
        self.at = match (self.at, byte) {
            (At::FirstDigit | At::Size, _) if byte.is_ascii_hexdigit() => {
                self.digit(byte)?;
                At::Size
            }
            (At::FirstDigit, _) => return Err(Violation::ChunkSize),
            (At::LineFeed, b'\n') => At::Data,
            (At::LineFeed, _) | (_, b'\n') => return Err(Violation::ChunkLineEnd),
            (_, b'\r') => At::LineFeed,
            // The grammar allows white space only before a semicolon, but some servers pad the size.
            (At::Size | At::Padding, b' ' | b'\t') => At::Padding,
            (At::Size | At::Padding, b';') => At::Extension,
            // Extensions are for those who know them; all others ignore them (§7.1.1).
            (At::Extension, _) if is_value_byte(byte) => At::Extension,
            (At::Extension, _) => return Err(Violation::ChunkExtension),
            _ => return Err(Violation::ChunkSize),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8) -> Result<(), Violation> {
        if self.left >> 60 != 0 {
            return Err(Violation::ChunkSizeOverflow);
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        self.left = self.left << 4 | u64::from(digit);
        Ok(())
    }
}
