//! Error codes (RFC 9114 §8.1, RFC 9204 §6).

use std::fmt;

/// An error code of a stream or of the connection, which may be undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(
    /// Value of the error code on the wire.
    pub u64,
);

impl ErrorCode {
    /// No error.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x100);
    /// A protocol violation without a more specific code.
    pub const GENERAL_PROTOCOL_ERROR: ErrorCode = ErrorCode(0x101);
    /// An internal error of the sender.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x102);
    /// The peer opened a stream that it must not open.
    pub const STREAM_CREATION_ERROR: ErrorCode = ErrorCode(0x103);
    /// The peer closed a stream that must stay open.
    pub const CLOSED_CRITICAL_STREAM: ErrorCode = ErrorCode(0x104);
    /// A frame that isn't allowed now or on this stream.
    pub const FRAME_UNEXPECTED: ErrorCode = ErrorCode(0x105);
    /// A frame with an invalid layout or length.
    pub const FRAME_ERROR: ErrorCode = ErrorCode(0x106);
    /// The peer caused excessive load.
    pub const EXCESSIVE_LOAD: ErrorCode = ErrorCode(0x107);
    /// An identifier was used incorrectly.
    pub const ID_ERROR: ErrorCode = ErrorCode(0x108);
    /// An error in SETTINGS.
    pub const SETTINGS_ERROR: ErrorCode = ErrorCode(0x109);
    /// The control stream doesn't begin with SETTINGS.
    pub const MISSING_SETTINGS: ErrorCode = ErrorCode(0x10a);
    /// The request was not processed.
    pub const REQUEST_REJECTED: ErrorCode = ErrorCode(0x10b);
    /// The request or its response is no longer needed.
    pub const REQUEST_CANCELLED: ErrorCode = ErrorCode(0x10c);
    /// The client's stream ended before the request was complete.
    pub const REQUEST_INCOMPLETE: ErrorCode = ErrorCode(0x10d);
    /// A malformed message.
    pub const MESSAGE_ERROR: ErrorCode = ErrorCode(0x10e);
    /// The tunneled connection of a CONNECT was reset.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0x10f);
    /// The request must be made with another version of HTTP.
    pub const VERSION_FALLBACK: ErrorCode = ErrorCode(0x110);
    /// A field section can't be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: ErrorCode = ErrorCode(0x200);
    /// An error on the encoder stream.
    pub const QPACK_ENCODER_STREAM_ERROR: ErrorCode = ErrorCode(0x201);
    /// An error on the decoder stream.
    pub const QPACK_DECODER_STREAM_ERROR: ErrorCode = ErrorCode(0x202);

    /// Returns the name of a code that RFC 9114 or RFC 9204 defines.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        const HTTP: [&str; 17] = [
            "H3_NO_ERROR",
            "H3_GENERAL_PROTOCOL_ERROR",
            "H3_INTERNAL_ERROR",
            "H3_STREAM_CREATION_ERROR",
            "H3_CLOSED_CRITICAL_STREAM",
            "H3_FRAME_UNEXPECTED",
            "H3_FRAME_ERROR",
            "H3_EXCESSIVE_LOAD",
            "H3_ID_ERROR",
            "H3_SETTINGS_ERROR",
            "H3_MISSING_SETTINGS",
            "H3_REQUEST_REJECTED",
            "H3_REQUEST_CANCELLED",
            "H3_REQUEST_INCOMPLETE",
            "H3_MESSAGE_ERROR",
            "H3_CONNECT_ERROR",
            "H3_VERSION_FALLBACK",
        ];
        const QPACK: [&str; 3] = [
            "QPACK_DECOMPRESSION_FAILED",
            "QPACK_ENCODER_STREAM_ERROR",
            "QPACK_DECODER_STREAM_ERROR",
        ];
        let (names, first): (&[&str], _) = match self.0 {
            0x200.. => (&QPACK, 0x200),
            _ => (&HTTP, 0x100),
        };
        let at = usize::try_from(self.0.checked_sub(first)?).ok()?;
        names.get(at).copied()
    }

    /// Returns true for H3_NO_ERROR, and for the reserved codes that have the same meaning (RFC
    /// 9114 §8.1).
    #[must_use]
    pub fn is_no_error(self) -> bool {
        self == ErrorCode::NO_ERROR || is_reserved(self.0)
    }
}

/// Returns true for codes, types and identifiers that are reserved to test whether a receiver
/// ignores unknown ones (RFC 9114 §6.2.3, §7.2.4.1, §7.2.8, §8.1).
fn is_reserved(number: u64) -> bool {
    number >= 0x21 && (number - 0x21).is_multiple_of(0x1f)
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None if self.is_no_error() => write!(f, "H3_NO_ERROR (reserved code {:#x})", self.0),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        for (code, name) in [
            (ErrorCode::NO_ERROR, "H3_NO_ERROR"),
            (ErrorCode::REQUEST_REJECTED, "H3_REQUEST_REJECTED"),
            (ErrorCode(0x110), "H3_VERSION_FALLBACK"),
            (ErrorCode(0x200), "QPACK_DECOMPRESSION_FAILED"),
            (ErrorCode(0x202), "QPACK_DECODER_STREAM_ERROR"),
            (ErrorCode(0x203), "error code 0x203"),
            (ErrorCode(0), "error code 0x0"),
            (ErrorCode(0x111), "error code 0x111"),
            (ErrorCode(0x21), "H3_NO_ERROR (reserved code 0x21)"),
        ] {
            assert_eq!(code.to_string(), name);
        }
    }

    #[test]
    fn reserved_codes_are_no_errors() {
        assert!(ErrorCode::NO_ERROR.is_no_error());
        for number in 0..100 {
            assert!(ErrorCode(0x1f * number + 0x21).is_no_error());
            assert!(!ErrorCode(0x1f * number + 0x22).is_no_error());
        }
        assert!(!ErrorCode::REQUEST_CANCELLED.is_no_error());
    }
}
