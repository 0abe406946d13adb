//! Bytes that wait to be sent.

use crate::h2::{Violation, limits};

/// What is to be sent, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// How many of the bytes the peer asked for.
    answers: usize,
}

impl Outbox {
    /// Where this side's own frames are appended.
    #[inline]
    pub(super) fn own(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a frame that the peer asked for.
    ///
    /// # Errors
    ///
    /// It does so again and again and reads nothing of it.
    pub(super) fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Violation> {
        if self.answers >= limits::ANSWER_BYTES {
            let limit_bytes = limits::ANSWER_BYTES as u32;
            return Err(Violation::TooManyUnread { limit_bytes });
        }
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.answers += self.bytes.len() - before;
        Ok(())
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Moves all to the end of another buffer. Where that is empty, the two change places, and
    /// nothing is copied.
    #[inline]
    pub(super) fn take(&mut self, out: &mut Vec<u8>) {
        if out.is_empty() {
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.extend_from_slice(&self.bytes);
        }
        self.clear();
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.answers = 0;
    }
}
