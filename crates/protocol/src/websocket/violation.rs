//! Violations of RFC 6455 by a server.

use std::fmt;

/// A violation of the rules for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// A reserved bit is set, although no extension that uses it was negotiated (§5.2).
    ReservedBits,
    /// An opcode without a meaning (§5.2).
    ReservedOpcode(u8),
    /// A server must not mask its frames (§5.1).
    Masked,
    /// A control frame must not be fragmented (§5.5).
    FragmentedControl,
    /// A control frame has at most 125 bytes (§5.5).
    LongControl,
    /// A length is not written in the shortest form, or is 2^63 or larger (§5.2).
    Length,
    /// A continuation frame without a message that it continues (§5.4).
    LoneContinuation,
    /// A message begins within another one (§5.4).
    NestedMessage,
    /// A text message is not UTF-8 (§8.1).
    Utf8,
    /// A close frame with one byte, an invalid code, or a reason that is not UTF-8 (§5.5.1).
    Close,
    /// Frames after a close frame (§5.5.1).
    AfterClose,
    /// A compressed message is not valid (RFC 7692 §7.2.2).
    Compression,
    /// A compressed message is longer than the limit on inflated messages.
    InflatedTooLong,
}

impl Violation {
    /// Returns the code for the close frame that ends the connection (§7.4.1).
    #[must_use]
    pub fn close_code(self) -> u16 {
        match self {
            Violation::Utf8 | Violation::Compression => 1007,
            Violation::InflatedTooLong => 1009,
            _ => 1002,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::ReservedBits => "a frame has a reserved bit set",
            Violation::ReservedOpcode(opcode) => {
                return write!(f, "a frame has the reserved opcode {opcode}");
            }
            Violation::Masked => "a frame from the server is masked",
            Violation::FragmentedControl => "a control frame is fragmented",
            Violation::LongControl => "a control frame has more than 125 bytes",
            Violation::Length => "the length of a frame is not in the shortest form, or too large",
            Violation::LoneContinuation => "a continuation frame continues no message",
            Violation::NestedMessage => "a message begins within another one",
            Violation::Utf8 => "a text message is not UTF-8",
            Violation::Close => "a close frame has an invalid code or reason",
            Violation::AfterClose => "a frame follows the close frame",
            Violation::Compression => "a compressed message can't be inflated",
            Violation::InflatedTooLong => "an inflated message is longer than 64 MiB",
        })
    }
}
