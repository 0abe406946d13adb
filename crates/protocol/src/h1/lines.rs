//! Assembly of lines from input that arrives in pieces.

use memchr::memchr;

use crate::buffer::emptied;

/// Splits one section (a head or the trailers) into lines. A line is copied only if it arrived in
/// pieces.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The incomplete line, or the last line that was assembled.
    carry: Vec<u8>,
    /// True if `carry` contains a line that was already returned.
    handed_out: bool,
    /// Bytes of this section received so far.
    section_bytes: usize,
}

/// Error for a section that exceeds its limit.
#[derive(Debug)]
pub(super) struct SectionTooLong;

impl Lines {
    /// Returns the lines of a new section, which take over the memory.
    #[inline]
    pub(super) fn next_section(&mut self) -> Lines {
        Lines {
            carry: emptied(&mut self.carry),
            ..Lines::default()
        }
    }

    /// Returns the next line without its terminator. If it is incomplete, stores and consumes all
    /// input and returns `None`.
    ///
    /// The terminator is CRLF or a lone LF, as RFC 9112 §2.2 allows. This is safe because prony
    /// forwards nothing, so no other parser can interpret the bytes differently. Any other CR stays
    /// in the line, where it is invalid.
    pub(super) fn next<'l, 'a: 'l>(
        &'l mut self,
        input: &mut &'a [u8],
        limit: usize,
    ) -> Result<Option<&'l [u8]>, SectionTooLong> {
        if self.handed_out {
            self.carry.clear();
            self.handed_out = false;
        }
        let bytes = *input;
        let Some(end) = memchr(b'\n', bytes) else {
            return self.keep(input, limit).map(|()| None);
        };
        self.count(end + 1, limit)?;
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        *input = rest;
        if self.carry.is_empty() {
            return Ok(Some(without_cr(line)));
        }
        self.carry.extend_from_slice(line);
        self.handed_out = true;
        Ok(Some(without_cr(&self.carry)))
    }

    /// Returns true if no partial line is stored, so the input starts with a new line.
    #[inline]
    pub(super) fn at_beginning(&self) -> bool {
        self.carry.is_empty() || self.handed_out
    }

    /// Consumes a line, including its terminator, that the caller found at the start of the input.
    #[inline]
    pub(super) fn skip(
        &mut self,
        input: &mut &[u8],
        bytes: usize,
        limit: usize,
    ) -> Result<(), SectionTooLong> {
        self.count(bytes, limit)?;
        *input = &input[bytes..];
        Ok(())
    }

    /// Stores and consumes all input as part of a line.
    pub(super) fn keep(&mut self, input: &mut &[u8], limit: usize) -> Result<(), SectionTooLong> {
        self.count(input.len(), limit)?;
        self.carry.extend_from_slice(input);
        *input = &[];
        Ok(())
    }

    /// Returns the stored part of the incomplete line.
    pub(super) fn kept(&self) -> &[u8] {
        &self.carry
    }

    fn count(&mut self, bytes: usize, limit: usize) -> Result<(), SectionTooLong> {
        self.section_bytes = self.section_bytes.saturating_add(bytes);
        if self.section_bytes > limit {
            Err(SectionTooLong)
        } else {
            Ok(())
        }
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
