//! Lines out of bytes that come in pieces.

use memchr::memchr;

/// Cuts the lines of one section (a head or the trailers) out of the input. A line that lies whole
/// in the input is handed out where it lies; only one that is split is copied.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come, or the last line that was put together.
    carry: Vec<u8>,
    /// The carry holds a line that has been handed out.
    handed_out: bool,
    /// Bytes of this section so far.
    section_bytes: usize,
}

/// The section is longer than its limit.
#[derive(Debug)]
pub(super) struct TooLong;

impl Lines {
    /// A new section begins. Keeps the memory.
    pub(super) fn start_section(&mut self) {
        self.carry.clear();
        self.handed_out = false;
        self.section_bytes = 0;
    }

    /// The next line, without its terminator, or None if its end has not come; then all input is
    /// kept and consumed.
    ///
    /// The terminator is CRLF or a lone LF, as RFC 9112 §2.2 allows: prony forwards nothing, so no
    /// other reader can be misled by it. Any other CR stays in the line, where it is invalid.
    pub(super) fn next<'l, 'a: 'l>(
        &'l mut self,
        input: &mut &'a [u8],
        limit: usize,
    ) -> Result<Option<&'l [u8]>, TooLong> {
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

    /// Is nothing of a line kept, so that the input begins with the beginning of one?
    #[inline]
    pub(super) fn at_beginning(&self) -> bool {
        self.carry.is_empty() || self.handed_out
    }

    /// Consumes a line that the caller found at the beginning of the input, with its terminator.
    #[inline]
    pub(super) fn skip(
        &mut self,
        input: &mut &[u8],
        bytes: usize,
        limit: usize,
    ) -> Result<(), TooLong> {
        self.count(bytes, limit)?;
        *input = &input[bytes..];
        Ok(())
    }

    /// Keeps and consumes all input as part of a line.
    pub(super) fn keep(&mut self, input: &mut &[u8], limit: usize) -> Result<(), TooLong> {
        self.count(input.len(), limit)?;
        self.carry.extend_from_slice(input);
        *input = &[];
        Ok(())
    }

    /// What has been kept of the line whose end has not come.
    pub(super) fn kept(&self) -> &[u8] {
        &self.carry
    }

    fn count(&mut self, bytes: usize, limit: usize) -> Result<(), TooLong> {
        self.section_bytes = self.section_bytes.saturating_add(bytes);
        if self.section_bytes > limit {
            Err(TooLong)
        } else {
            Ok(())
        }
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
