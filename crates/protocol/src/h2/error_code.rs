//! Error codes of RST_STREAM and GOAWAY (RFC 9113 §7).

use std::fmt;

/// An error code, which may be undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(
    /// Value of the error code in the frame.
    pub u32,
);

impl ErrorCode {
    /// No error.
    pub const NO_ERROR: ErrorCode = ErrorCode(0x00);
    /// A protocol violation without a more specific code.
    pub const PROTOCOL_ERROR: ErrorCode = ErrorCode(0x01);
    /// An internal error of the sender.
    pub const INTERNAL_ERROR: ErrorCode = ErrorCode(0x02);
    /// The peer sent more than a window allowed, or made a window too large.
    pub const FLOW_CONTROL_ERROR: ErrorCode = ErrorCode(0x03);
    /// The peer did not acknowledge SETTINGS in time.
    pub const SETTINGS_TIMEOUT: ErrorCode = ErrorCode(0x04);
    /// A frame on a closed stream.
    pub const STREAM_CLOSED: ErrorCode = ErrorCode(0x05);
    /// A frame of the wrong size.
    pub const FRAME_SIZE_ERROR: ErrorCode = ErrorCode(0x06);
    /// The request was not processed.
    pub const REFUSED_STREAM: ErrorCode = ErrorCode(0x07);
    /// The stream is no longer needed.
    pub const CANCEL: ErrorCode = ErrorCode(0x08);
    /// The state of HPACK compression is lost.
    pub const COMPRESSION_ERROR: ErrorCode = ErrorCode(0x09);
    /// The tunneled connection of a CONNECT was reset.
    pub const CONNECT_ERROR: ErrorCode = ErrorCode(0x0a);
    /// The peer caused excessive load.
    pub const ENHANCE_YOUR_CALM: ErrorCode = ErrorCode(0x0b);
    /// The transport is not secure enough.
    pub const INADEQUATE_SECURITY: ErrorCode = ErrorCode(0x0c);
    /// The request must be made with HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: ErrorCode = ErrorCode(0x0d);

    /// Returns the name of a code that RFC 9113 defines.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).copied()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        assert_eq!(ErrorCode::NO_ERROR.to_string(), "NO_ERROR");
        assert_eq!(ErrorCode::CANCEL.to_string(), "CANCEL");
        assert_eq!(ErrorCode(13).to_string(), "HTTP_1_1_REQUIRED");
        assert_eq!(ErrorCode(14).to_string(), "error code 0xe");
    }
}
