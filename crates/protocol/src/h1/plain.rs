//! Heads as nearly all are: whole, final, without a folded or an ill-formed line, each line ended by
//! CRLF. They are read in one pass, sixteen bytes at a time.

use super::head::{HeadLines, whole_field};
use crate::field::line_length;

/// Reads the head that the bytes begin with into a new `head`, and gives its size. None for whatever
/// else the bytes may be, valid or not: that is for the others to judge, line by line.
pub(super) fn read(head: &mut HeadLines, bytes: &[u8]) -> Option<usize> {
    let (start, reason) = bytes.split_first_chunk::<12>()?;
    if !start.starts_with(super::opening::START) {
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
