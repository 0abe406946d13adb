//! Counts the messages of one body.

use super::PREFIX_BYTES;

/// Reason why a body doesn't consist of valid messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFault {
    /// The first byte of a prefix is neither 0 nor 1.
    Flag,
    /// A message is compressed, but the request accepted no compression.
    Compressed,
    /// A message is longer than the limit.
    TooLong,
}

/// Reads the messages of one body.
#[derive(Debug, Clone, Copy)]
pub struct MessageReader {
    /// True if messages may be compressed.
    accepts_compressed: bool,
    /// Maximum length of a message in bytes.
    length_max: u32,
    state: ReadState,
}

#[derive(Debug, Clone, Copy)]
enum ReadState {
    /// Within a prefix, of which the first `known` bytes have arrived.
    Prefix {
        known: u8,
        bytes: [u8; PREFIX_BYTES],
    },
    /// Within a message, of which `left` bytes are missing, at least one.
    Message { left: u32 },
}

/// The state between two messages.
const BETWEEN: ReadState = ReadState::Prefix {
    known: 0,
    bytes: [0; PREFIX_BYTES],
};

impl MessageReader {
    /// Creates a reader of one body, whose messages have at most `length_max` bytes.
    pub fn new(length_max: u32, accepts_compressed: bool) -> MessageReader {
        MessageReader {
            accepts_compressed,
            length_max,
            state: BETWEEN,
        }
    }

    /// Returns true if no message is incomplete.
    #[inline]
    pub fn is_between_messages(&self) -> bool {
        matches!(self.state, ReadState::Prefix { known: 0, .. })
    }

    /// Reads a part of the body. Returns the number of messages that it completes.
    ///
    /// # Errors
    ///
    /// A prefix isn't valid. The rest of the body can't be read then.
    #[inline]
    pub fn read(&mut self, mut bytes: &[u8]) -> Result<u32, MessageFault> {
        let mut complete = 0_u32;
        while !bytes.is_empty() {
            match self.state {
                ReadState::Message { left } => {
                    let taken = bytes.len().min(left as usize);
                    bytes = &bytes[taken..];
                    self.state = match left - taken as u32 {
                        0 => {
                            complete = complete.saturating_add(1);
                            BETWEEN
                        }
                        left => ReadState::Message { left },
                    };
                }
                ReadState::Prefix { known: 0, .. } if bytes.len() >= PREFIX_BYTES => {
                    let (prefix, rest) = bytes.split_at(PREFIX_BYTES);
                    bytes = rest;
                    let prefix = [prefix[0], prefix[1], prefix[2], prefix[3], prefix[4]];
                    complete = complete.saturating_add(self.begin(prefix)?);
                }
                ReadState::Prefix {
                    known,
                    bytes: mut prefix,
                } => {
                    let known = usize::from(known);
                    let taken = bytes.len().min(PREFIX_BYTES - known);
                    prefix[known..known + taken].copy_from_slice(&bytes[..taken]);
                    bytes = &bytes[taken..];
                    self.check_flag(prefix[0])?;
                    if known + taken == PREFIX_BYTES {
                        complete = complete.saturating_add(self.begin(prefix)?);
                    } else {
                        self.state = ReadState::Prefix {
                            known: (known + taken) as u8,
                            bytes: prefix,
                        };
                    }
                }
            }
        }
        Ok(complete)
    }

    /// Begins the message with this prefix. Returns 1 if the message is empty and thereby complete.
    #[inline]
    fn begin(&mut self, prefix: [u8; PREFIX_BYTES]) -> Result<u32, MessageFault> {
        self.check_flag(prefix[0])?;
        let left = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
        if left > self.length_max {
            return Err(MessageFault::TooLong);
        }
        if left == 0 {
            self.state = BETWEEN;
            return Ok(1);
        }
        self.state = ReadState::Message { left };
        Ok(0)
    }

    #[inline]
    fn check_flag(&self, flag: u8) -> Result<(), MessageFault> {
        match flag {
            0 => Ok(()),
            1 if self.accepts_compressed => Ok(()),
            1 => Err(MessageFault::Compressed),
            _ => Err(MessageFault::Flag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_message;
    use super::*;

    /// Reads the body in pieces of each size, which must not change the result.
    fn read(body: &[u8], accepts_compressed: bool) -> Result<(u32, bool), MessageFault> {
        let in_pieces = |size: usize| {
            let mut reader = MessageReader::new(8, accepts_compressed);
            let mut pieces = body.chunks(size);
            let sum = pieces.try_fold(0, |sum, piece| Ok(sum + reader.read(piece)?));
            sum.map(|sum| (sum, reader.is_between_messages()))
        };
        let whole = in_pieces(body.len().max(1));
        for size in 1..body.len().max(1) {
            assert_eq!(in_pieces(size), whole, "pieces of {size}");
        }
        whole
    }

    #[test]
    fn messages_are_counted_wherever_the_body_is_split() {
        let mut body = Vec::new();
        assert_eq!(read(&body, false), Ok((0, true)));
        write_message(b"", false, &mut body);
        write_message(b"12345678", false, &mut body);
        write_message(b"x", false, &mut body);
        assert_eq!(read(&body, false), Ok((3, true)));
        body.pop();
        assert_eq!(read(&body, false), Ok((2, false)));
        assert_eq!(read(&[0, 0, 0], false), Ok((0, false)));
    }

    #[test]
    fn invalid_prefixes_are_rejected() {
        assert_eq!(read(&[2, 0, 0, 0, 0], true), Err(MessageFault::Flag));
        assert_eq!(read(&[1, 0, 0, 0, 1], false), Err(MessageFault::Compressed));
        assert_eq!(read(&[1, 0, 0, 0, 1, 7], true), Ok((1, true)));
        assert_eq!(read(&[0, 0, 0, 0, 9], false), Err(MessageFault::TooLong));
        assert_eq!(
            read(&[0, 255, 255, 255, 255], false),
            Err(MessageFault::TooLong)
        );
    }
}
