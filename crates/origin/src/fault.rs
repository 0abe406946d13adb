//! The faults: what a server can do wrong, by name.

use std::fmt;

/// A wrong or unusual answer, asked for as `/fault/NAME`.
///
/// Over HTTP/1.0 and HTTP/1.1 each is a fixed script of bytes on the bare connection (inside TLS,
/// if there is TLS), whatever the method, and also when it is not the first request of its
/// connection. The request body is read first, except by [`Fault::EarlyAnswer`]. What a client
/// has pipelined behind the request is lost. Over HTTP/2 only those apply for which
/// [`Fault::over_http2`] holds; the others answer 501.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A TCP reset (SO_LINGER 0) instead of an answer. On a UNIX socket, which knows none, it is
    /// an orderly close.
    Reset,
    /// `Content-Length: 26`, 13 bytes of body, orderly close.
    Truncate,
    /// No byte until the client leaves.
    Stall,
    /// Bytes that are no HTTP, then an orderly close.
    Garbage,
    /// Half of a response head, then an orderly close.
    Half,
    /// An orderly close without a byte.
    Close,
    /// Says `Connection: keep-alive`, answers fully, closes at once.
    EarlyCloseKeepalive,
    /// `Content-Length: 5` with a body of 13 bytes; the connection stays open.
    LiesShort,
    /// 103 before the 200; then the connection goes on as usual.
    Interim,
    /// 100 before the 200; then the connection goes on as usual.
    Continue,
    /// Chunked, with a chunk size that is no number, then an orderly close.
    BadChunk,
    /// Chunked, closed in an orderly way after the first chunk.
    TruncateChunked,
    /// Chunked with chunk extensions and trailers: no fault, though a weak client fails; the
    /// connection goes on as usual.
    Trailers,
    /// `Content-Length: 26`, 13 bytes of body, then silence until the client leaves.
    StallBody,
    /// `Content-Length: 26`, 13 bytes of body, then a TCP reset.
    ResetBody,
    /// A body of 13 bytes in 13 pieces, 10 ms apart; then the connection goes on as usual.
    SlowBody,
    /// One header whose value never ends.
    HugeHead,
    /// Headers without end.
    ManyHeaders,
    /// `Content-Length: 13` and `Content-Length: 5`, 13 bytes of body, orderly close.
    TwoLengths,
    /// `Content-Length` that is no number, 13 bytes of body, orderly close.
    BadLength,
    /// `Transfer-Encoding: chunked` beside `Content-Length: 13`, a chunked body, orderly close.
    LengthAndChunked,
    /// A status code of five digits.
    BadStatus,
    /// Says `Connection: close`, answers fully, keeps the socket open until the client leaves.
    CloseButOpen,
    /// Answers before reading the request body, says `Connection: close`, closes its sending side
    /// at once and reads what the client still sends.
    EarlyAnswer,
    /// HTTP/1.0 and no length: the body of 13 bytes ends with an orderly close. Right, though old.
    NoLength,
    /// As `no-length`, but TLS ends without `close_notify`, so that the client can't tell the end
    /// from an attack. In clear text the same as `no-length`.
    NoCloseNotify,
}

/// Every fault with its name in a path and its effect in a few words.
const TABLE: [(Fault, &str, &str); 26] = [
    (Fault::Reset, "reset", "a reset instead of an answer"),
    (
        Fault::Truncate,
        "truncate",
        "half of the promised body, then a close",
    ),
    (Fault::Stall, "stall", "nothing until the client leaves"),
    (Fault::Garbage, "garbage", "bytes that are no HTTP"),
    (Fault::Half, "half", "half of a head, then a close"),
    (Fault::Close, "close", "a close without a byte"),
    (
        Fault::EarlyCloseKeepalive,
        "early-close-keepalive",
        "says keep-alive, closes at once",
    ),
    (
        Fault::LiesShort,
        "lies-short",
        "a longer body than promised, stays open",
    ),
    (Fault::Interim, "interim", "103 before the 200"),
    (Fault::Continue, "continue", "100 before the 200"),
    (
        Fault::BadChunk,
        "bad-chunk",
        "a chunk size that is no number",
    ),
    (
        Fault::TruncateChunked,
        "truncate-chunked",
        "a close within a chunked body",
    ),
    (
        Fault::Trailers,
        "trailers",
        "chunk extensions and trailers (valid)",
    ),
    (
        Fault::StallBody,
        "stall-body",
        "half of the promised body, then silence",
    ),
    (
        Fault::ResetBody,
        "reset-body",
        "half of the promised body, then a reset",
    ),
    (
        Fault::SlowBody,
        "slow-body",
        "13 bytes, one each 10 ms (valid)",
    ),
    (Fault::HugeHead, "huge-head", "a header without end"),
    (Fault::ManyHeaders, "many-headers", "headers without end"),
    (Fault::TwoLengths, "two-lengths", "two lengths that differ"),
    (Fault::BadLength, "bad-length", "a length that is no number"),
    (
        Fault::LengthAndChunked,
        "length-and-chunked",
        "a length beside a chunked body",
    ),
    (Fault::BadStatus, "bad-status", "a status of five digits"),
    (
        Fault::CloseButOpen,
        "close-but-open",
        "says close, stays open",
    ),
    (
        Fault::EarlyAnswer,
        "early-answer",
        "answers before the request body, closes",
    ),
    (
        Fault::NoLength,
        "no-length",
        "a body that ends with the connection (valid)",
    ),
    (
        Fault::NoCloseNotify,
        "no-close-notify",
        "the same, but TLS ends without a word",
    ),
];

impl Fault {
    /// Every fault, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.0)
    }

    /// The fault of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name in a path, such as `stall-body`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its effect in a few words.
    #[must_use]
    pub fn effect(self) -> &'static str {
        self.row().2
    }

    /// Whether the fault exists over HTTP/2 too. `reset`, `close` and `garbage` then hit the whole
    /// connection, `stall`, `stall-body`, `slow-body`, `truncate` and `lies-short` the stream (the
    /// last two as a length that the frames contradict: RFC 9113, section 8.1.1).
    #[must_use]
    pub fn over_http2(self) -> bool {
        self.takes_http2_connection()
            || matches!(
                self,
                Self::Stall | Self::StallBody | Self::SlowBody | Self::Truncate | Self::LiesShort
            )
    }

    /// Whether it acts on an HTTP/2 connection as a whole.
    pub(crate) fn takes_http2_connection(self) -> bool {
        matches!(self, Self::Reset | Self::Close | Self::Garbage)
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        // The table has a row for each fault, in the order of the enum: a test holds it.
        &TABLE[self as usize]
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_follows_the_enum_and_names_are_unique() {
        assert_eq!(Fault::NoCloseNotify as usize + 1, TABLE.len());
        for (index, (fault, name, _)) in TABLE.iter().enumerate() {
            assert_eq!(*fault as usize, index);
            assert_eq!(Fault::from_name(name), Some(*fault));
        }
    }
}
