//! Bytes waiting to be sent.

use crate::h2::{Violation, limits};

/// Output, in the order in which it is sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// Number of bytes of replies to the peer's frames.
    reply_bytes: usize,
}

impl Outbox {
    /// Returns the buffer to which this side's own frames are appended.
    #[inline]
    pub(super) fn own(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a reply to a frame of the peer.
    ///
    /// # Errors
    ///
    /// Returns an error if too many replies are unsent because the peer doesn't read them.
    pub(super) fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Violation> {
        if self.reply_bytes >= limits::REPLY_BYTES_MAX {
            let limit_bytes = limits::REPLY_BYTES_MAX as u32;
            return Err(Violation::TooManyUnread { limit_bytes });
        }
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.reply_bytes += self.bytes.len() - before;
        Ok(())
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Moves all bytes to the end of `out`. If `out` is empty, the two buffers are swapped, which
    /// avoids a copy.
    #[inline]
    pub(super) fn take(&mut self, out: &mut Vec<u8>) {
        if out.is_empty() {
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.extend_from_slice(&self.bytes);
        }
        self.bytes.clear();
        self.reply_bytes = 0;
    }

    /// Returns an empty outbox, which takes over the memory.
    pub(super) fn renewed(&mut self) -> Outbox {
        self.bytes.clear();
        Outbox {
            bytes: std::mem::take(&mut self.bytes),
            reply_bytes: 0,
        }
    }
}
