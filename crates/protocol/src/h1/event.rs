//! What goes into and comes out of the parser besides bytes.

/// The version of an HTTP/1 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0: a connection serves one exchange unless both sides say `keep-alive`.
    Http10,
    /// HTTP/1.1, or a later minor version that is read as 1.1 (RFC 9110 §2.5).
    Http11,
}

/// What the request that was sent says about the answer's body (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expects {
    /// The head of the answer says whether and how a body follows.
    Body,
    /// The request was a HEAD: no body follows, whatever the head says.
    NoBody,
    /// The request was a CONNECT: a status from 200 to 299 has no body and turns the connection
    /// into a tunnel, whose bytes are not for this parser.
    Connect,
}

/// How much of what is not body a peer may send. Beyond it the answer is a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one head, from its first byte to the empty line; at least [`Limits::HEAD_MIN`],
    /// smaller values are raised to it. Default 64 KiB.
    pub head_bytes: usize,
    /// Interim answers (1xx) before the final one. Default 32.
    pub interim: u32,
    /// Bytes of one line with a chunk's size and its extensions. Default 4 KiB.
    pub chunk_line_bytes: usize,
    /// Bytes of the trailer section, with the empty line that ends it. Default 64 KiB.
    pub trailer_bytes: usize,
}

impl Limits {
    /// The smallest limit on a head, in bytes. What is not HTTP/1 at all is recognised within it.
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

/// How the end of a body is known (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// There is none: the answer to a HEAD, status 204 or 304, a tunnel.
    Empty,
    /// By Content-Length, which may be 0.
    Length,
    /// By the last chunk.
    Chunked,
    /// By the peer closing the connection.
    UntilClose,
}

/// The head of a final answer, as far as it matters for an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The status code, 0 to 999: three digits. Those outside 100 to 599 are invalid but are to be
    /// treated like a 5xx (RFC 9110 §15), so they are passed on.
    pub status: u16,
    /// The version that the peer speaks.
    pub version: Version,
    /// How the end of the body will be known.
    pub framing: Framing,
    /// How many bytes of body follow, where that is known beforehand: 0 where none does.
    pub length: Option<u64>,
    /// Will the connection be fit for another exchange after this one (RFC 9112 §9.3)?
    pub reusable: bool,
}

/// What the bytes meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// All input is consumed and the answer is not at its end.
    NeedMore,
    /// An interim answer (1xx other than 101) with this status; another head follows.
    Interim(u16),
    /// The head of the final answer.
    Head(Head),
    /// A piece of the body, never empty.
    Body(&'a [u8]),
    /// The answer is complete. What is left of the input does not belong to it.
    End {
        /// May the connection serve another exchange? Never true for a tunnel.
        reusable: bool,
    },
}

/// What it means that the peer closed its side now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Eof {
    /// No byte of an answer had been seen.
    Idle,
    /// The answer is complete: the close was the end of its body.
    Complete,
    /// The answer broke off (RFC 9112 §8).
    Truncated,
}
