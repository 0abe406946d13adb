//! Fast path for ordinary heads. They are complete and final, have no folded or malformed lines,
//! and every line ends with CRLF. Such heads are parsed in one pass, sixteen bytes at a time.

use super::head::{HeadLines, whole_field};
use crate::field::line_length;

/// Parses the head at the start of `bytes` into `head`, which must be new. Returns the size of the
/// head. Returns `None` for any other input, valid or not, which must then be parsed line by line.
pub(super) fn read_head(head: &mut HeadLines, bytes: &[u8]) -> Option<usize> {
    let (start, reason) = bytes.split_first_chunk::<12>()?;
    if !start.starts_with(super::first_bytes::STATUS_LINE_START) {
        return None;
    }
    head.version_and_status(start).ok()?;
    if reason.first() != Some(&b' ') || (100..200).contains(&head.status()) {
        return None;
    }
    let mut rest = after_line(reason, line_length(reason)?)?;
    while !rest.starts_with(b"\r\n") {
        let (field, bytes) = whole_field(rest)?;
        head.field(field).ok()?;
        rest = rest.get(bytes..)?;
    }
    Some(bytes.len() - rest.len() + b"\r\n".len())
}

#[inline]
fn after_line(bytes: &[u8], length: usize) -> Option<&[u8]> {
    bytes.get(length + b"\r\n".len()..)
}
