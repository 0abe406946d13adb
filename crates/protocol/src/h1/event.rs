//! Inputs and outputs of the parser other than bytes.

/// The version of an HTTP/1 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0: a connection serves one exchange unless both sides send `keep-alive`.
    Http10,
    /// HTTP/1.1, or a later minor version that is treated as 1.1 (RFC 9110 §2.5).
    Http11,
}

/// Effect of the request on the framing of its response (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Expects {
    /// The response head determines the body.
    #[default]
    Body,
    /// The request was a HEAD, so there is no body even if the response head has a Content-Length
    /// or Transfer-Encoding.
    NoBody,
    /// The request was a CONNECT. After a status from 200 to 299 there is no body, and the
    /// connection becomes a tunnel, whose bytes this parser does not process.
    Connect,
}

/// Limits on all parts of a response except the body. Exceeding them is a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of one head in bytes, including the empty line. Values below
    /// [`Limits::HEAD_MIN`] are raised to it. Default: 64 KiB.
    pub head_bytes: usize,
    /// Maximum number of interim responses (1xx) before the final one. Default: 32.
    pub interim: u32,
    /// Maximum size in bytes of one line with a chunk's size and extensions. Default: 4 KiB.
    pub chunk_line_bytes: usize,
    /// Maximum size of the trailer section in bytes, including its empty line. Default: 64 KiB.
    pub trailer_bytes: usize,
}

impl Limits {
    /// Smallest possible limit on a head, in bytes. It suffices to detect input that isn't HTTP/1.
    pub const HEAD_MIN: usize = 64;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head_bytes: 64 * 1024,
            interim: 32,
            chunk_line_bytes: 4 * 1024,
            trailer_bytes: 64 * 1024,
        }
    }
}

/// Method by which the end of a body is determined (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// There is no body: response to a HEAD, status 204 or 304, or a tunnel.
    Empty,
    /// Content-Length gives the length of the body, which may be 0.
    Length,
    /// The last chunk ends the body.
    Chunked,
    /// The body ends when the peer closes the connection.
    UntilClose,
}

/// Head of a final response, reduced to the properties that affect an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Status code, 0 to 999 (three digits). Codes outside 100 to 599 are invalid but must be
    /// treated like a 5xx (RFC 9110 §15), so they are reported.
    pub status: u16,
    /// The HTTP version in the status line.
    pub version: Version,
    /// Method by which the end of the body is determined.
    pub framing: Framing,
    /// Number of body bytes, if known in advance; 0 without a body.
    pub length: Option<u64>,
    /// True if the connection can be reused after this exchange (RFC 9112 §9.3).
    pub reusable: bool,
}

/// Result of a parsing step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseEvent<'a> {
    /// All input has been consumed, but the response is incomplete.
    NeedMore,
    /// An interim response (1xx other than 101) with this status; another head follows.
    Interim(u16),
    /// The head of the final response.
    Head(Head),
    /// The head of a response with status 101, which has no body. The remaining input belongs to
    /// the new protocol (RFC 9110 §15.2.2).
    SwitchingProtocols,
    /// Part of the body, never empty.
    Body(&'a [u8]),
    /// The response is complete. The remaining input doesn't belong to it.
    End {
        /// True if the connection can serve another exchange. Always false for a tunnel.
        reusable: bool,
    },
}

/// Effect of the peer closing the connection on the current response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Eof {
    /// No byte of a response had been received.
    Idle,
    /// The response is complete, because the close marks the end of its body.
    Complete,
    /// The response is truncated (RFC 9112 §8).
    Truncated,
}
