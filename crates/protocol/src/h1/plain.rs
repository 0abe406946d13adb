//! Heads as nearly all are: whole, final, without a folded or an ill-formed line, each line ended by
//! CRLF. They are read in one pass, sixteen bytes at a time.

use super::head::{HeadLines, whole_field};
use super::{Expects, Head};
use crate::field::line_length;

/// The longest head that is kept.
const LONGEST: usize = 4096;

/// The plain head that was read last, and what it meant. One serves any number of parsers.
///
/// Most servers' answers to one request differ in their heads once a second, by the date. A head that is
/// byte for byte the one before needs no second look: reading depends on nothing else.
#[derive(Debug, Default)]
pub struct KnownHead {
    bytes: Vec<u8>,
    /// None as long as there is none.
    meaning: Option<(Expects, Head)>,
}

impl KnownHead {
    /// The plain head that the bytes begin with, and its size, if there is one.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], expects: Expects) -> Option<(Head, usize)> {
        match self.meaning {
            Some((to, head)) if to == expects && bytes.starts_with(&self.bytes) => {
                Some((head, self.bytes.len()))
            }
            _ => self.read_anew(bytes, expects),
        }
    }

    fn read_anew(&mut self, bytes: &[u8], expects: Expects) -> Option<(Head, usize)> {
        let mut lines = HeadLines::new();
        let length = read(&mut lines, bytes)?;
        let head = lines.finish(expects).ok()?;
        if length <= LONGEST {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[..length]);
            self.meaning = Some((expects, head));
        }
        Some((head, length))
    }
}

/// Reads the head that the bytes begin with into a new `head`, and gives its size. None for whatever
/// else the bytes may be, valid or not: that is for the others to judge, line by line.
fn read(head: &mut HeadLines, bytes: &[u8]) -> Option<usize> {
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
