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

/// Decoder of a chunked body.
#[derive(Debug)]
pub(super) struct ChunkDecoder {
    at: ChunkState,
    /// Size of the chunk while it is being parsed, then the number of remaining bytes.
    left: u64,
    /// Number of bytes of the size line that have been read.
    line_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// No digit of the size has been read yet.
    FirstDigit,
    Size,
    Padding,
    Extension,
    LineFeed,
    Data,
    DataCr,
    DataLf,
}

/// Result of a decoding step.
#[derive(Debug)]
pub(super) enum ChunkPiece<'a> {
    NeedMore,
    Data(&'a [u8]),
    /// The size line of the last chunk has ended.
    Last,
}

impl ChunkDecoder {
    pub(super) const fn new() -> ChunkDecoder {
        ChunkDecoder {
            at: ChunkState::FirstDigit,
            left: 0,
            line_bytes: 0,
        }
    }

    /// Returns true if the last part of a chunk has just been returned.
    pub(super) fn is_at_end(&self) -> bool {
        self.at == ChunkState::DataCr
    }

    pub(super) fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        line_limit: usize,
    ) -> Result<ChunkPiece<'a>, Violation> {
        loop {
            if self.at == ChunkState::Data {
                return Ok(self.data(input));
            }
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(ChunkPiece::NeedMore);
            };
            *input = rest;
            match self.at {
                ChunkState::DataCr if byte == b'\r' => self.at = ChunkState::DataLf,
                ChunkState::DataLf if byte == b'\n' => *self = ChunkDecoder::new(),
                ChunkState::DataCr | ChunkState::DataLf => return Err(Violation::ChunkEnd),
                _ => {
                    self.line_byte(byte, line_limit)?;
                    if self.at == ChunkState::Data && self.left == 0 {
                        return Ok(ChunkPiece::Last);
                    }
                }
            }
        }
    }

    fn data<'a>(&mut self, input: &mut &'a [u8]) -> ChunkPiece<'a> {
        if input.is_empty() {
            return ChunkPiece::NeedMore;
        }
        let piece = take(input, &mut self.left);
        if self.left == 0 {
            self.at = ChunkState::DataCr;
        }
        ChunkPiece::Data(piece)
    }

    /// Consumes one byte of the size line.
    fn line_byte(&mut self, byte: u8, limit: usize) -> Result<(), Violation> {
        self.line_bytes += 1;
        if self.line_bytes > limit {
            return Err(Violation::ChunkLineTooLong { limit_bytes: limit });
        }
        self.at = match (self.at, byte) {
            (ChunkState::FirstDigit | ChunkState::Size, _) if byte.is_ascii_hexdigit() => {
                self.digit(byte)?;
                ChunkState::Size
            }
            (ChunkState::FirstDigit, _) => return Err(Violation::ChunkSize),
            (ChunkState::LineFeed, b'\n') => ChunkState::Data,
            (ChunkState::LineFeed, _) | (_, b'\n') => return Err(Violation::ChunkLineEnd),
            (_, b'\r') => ChunkState::LineFeed,
            // The grammar allows white space only before a semicolon, but some servers pad the
            // size.
            (ChunkState::Size | ChunkState::Padding, b' ' | b'\t') => ChunkState::Padding,
            (ChunkState::Size | ChunkState::Padding, b';') => ChunkState::Extension,
            // Unknown extensions must be ignored (§7.1.1).
            (ChunkState::Extension, _) if is_value_byte(byte) => ChunkState::Extension,
            (ChunkState::Extension, _) => return Err(Violation::ChunkExtension),
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

/// Consumes up to `left` bytes of the input, and subtracts their number from `left`.
pub(super) fn take<'a>(input: &mut &'a [u8], left: &mut u64) -> &'a [u8] {
    let length = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    let (piece, rest) = input.split_at(length);
    *input = rest;
    *left -= length as u64;
    piece
}
