//! Faults: named protocol errors and unusual behavior of a server.

use std::fmt;

/// A wrong or unusual response, requested as `/fault/NAME`.
///
/// Over HTTP/1.0 and HTTP/1.1, each fault is a fixed script of bytes on the raw connection, inside
/// TLS if TLS is used. It works with every method and for every request on a connection. The
/// request body is read first, except by [`Fault::EarlyResponse`]. Requests that are pipelined
/// after the faulty one are lost. Each version of HTTP has only the faults for which
/// [`Fault::over_http1`], [`Fault::over_http2`] or [`Fault::over_http3`] returns true. For other
/// faults, the origin returns status 501.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A TCP reset (SO_LINGER 0) instead of a response. UNIX sockets have no reset, so they are
    /// closed in an orderly way.
    Reset,
    /// `Content-Length: 26` and 13 bytes of body, then an orderly close.
    Truncate,
    /// No response; the connection stays open until the client leaves.
    Stall,
    /// Bytes that aren't HTTP, then an orderly close.
    Garbage,
    /// Half of a response head, then an orderly close.
    Half,
    /// An orderly close without sending a byte.
    Close,
    /// A complete response with `Connection: keep-alive`, then an immediate close.
    EarlyCloseKeepalive,
    /// `Content-Length: 5` with a body of 13 bytes; the connection stays open.
    LiesShort,
    /// An interim response 103 before the 200. The connection continues normally.
    Interim,
    /// An interim response 100 before the 200. The connection continues normally.
    Continue,
    /// A chunked body with an invalid chunk size, then an orderly close.
    BadChunk,
    /// A chunked body with an orderly close after its first chunk.
    TruncateChunked,
    /// A chunked body with chunk extensions and trailers, which is valid, but breaks some clients.
    /// The connection continues normally.
    Trailers,
    /// `Content-Length: 26` and 13 bytes of body, then silence until the client leaves.
    StallBody,
    /// `Content-Length: 26` and 13 bytes of body, then a TCP reset.
    ResetBody,
    /// A body of 13 bytes that is sent byte by byte, at intervals of 10 ms. The connection
    /// continues normally.
    SlowBody,
    /// One header with a value that never ends.
    HugeHead,
    /// An endless series of headers.
    ManyHeaders,
    /// `Content-Length: 13` and `Content-Length: 5` with 13 bytes of body, then an orderly close.
    TwoLengths,
    /// An invalid `Content-Length` with 13 bytes of body, then an orderly close.
    BadLength,
    /// `Transfer-Encoding: chunked` together with `Content-Length: 13` and a chunked body, then an
    /// orderly close.
    LengthAndChunked,
    /// A five-digit status code.
    BadStatus,
    /// A complete response with `Connection: close`, but the socket stays open until the client
    /// leaves.
    CloseButOpen,
    /// A response with `Connection: close` that is sent before the request body is read. The
    /// sending side is closed immediately, and the rest of the request is read.
    EarlyResponse,
    /// An HTTP/1.0 response without Content-Length, in which an orderly close ends the body of 13
    /// bytes. This is valid, but outdated.
    NoLength,
    /// Like `no-length`, but TLS ends without `close_notify`, so the client can't distinguish the
    /// end from a truncation attack. In cleartext, the same as `no-length`.
    NoCloseNotify,
    /// For HTTP/3 only: closes the whole connection with H3_INTERNAL_ERROR. HTTP/1 has no
    /// equivalent.
    ConnectionError,
}

/// All faults, each with its name in a path and a short description.
const FAULTS: [(Fault, &str, &str); 27] = [
    (Fault::Reset, "reset", "a reset instead of a response"),
    (
        Fault::Truncate,
        "truncate",
        "sends half of the body, then closes",
    ),
    (Fault::Stall, "stall", "no response until the client leaves"),
    (Fault::Garbage, "garbage", "bytes that are not HTTP"),
    (
        Fault::Half,
        "half",
        "sends half of the headers, then closes",
    ),
    (Fault::Close, "close", "closes without sending a byte"),
    (
        Fault::EarlyCloseKeepalive,
        "early-close-keepalive",
        "announces keep-alive, but closes immediately",
    ),
    (
        Fault::LiesShort,
        "lies-short",
        "sends a body longer than Content-Length, stays open",
    ),
    (
        Fault::Interim,
        "interim",
        "an interim 103 response before the 200",
    ),
    (
        Fault::Continue,
        "continue",
        "an interim 100 response before the 200",
    ),
    (
        Fault::BadChunk,
        "bad-chunk",
        "a chunk size that is not a number",
    ),
    (
        Fault::TruncateChunked,
        "truncate-chunked",
        "closes in the middle of a chunked body",
    ),
    (
        Fault::Trailers,
        "trailers",
        "chunk extensions and trailers (valid)",
    ),
    (
        Fault::StallBody,
        "stall-body",
        "sends half of the body, then nothing",
    ),
    (
        Fault::ResetBody,
        "reset-body",
        "sends half of the body, then resets",
    ),
    (
        Fault::SlowBody,
        "slow-body",
        "13 bytes, one every 10 ms (valid)",
    ),
    (Fault::HugeHead, "huge-head", "a header that never ends"),
    (
        Fault::ManyHeaders,
        "many-headers",
        "an endless series of headers",
    ),
    (
        Fault::TwoLengths,
        "two-lengths",
        "two different Content-Length values",
    ),
    (
        Fault::BadLength,
        "bad-length",
        "a Content-Length that is not a number",
    ),
    (
        Fault::LengthAndChunked,
        "length-and-chunked",
        "Content-Length together with a chunked body",
    ),
    (Fault::BadStatus, "bad-status", "a five-digit status code"),
    (
        Fault::CloseButOpen,
        "close-but-open",
        "sends Connection: close, but stays open",
    ),
    (
        Fault::EarlyResponse,
        "early-answer",
        "responds before reading the body, then closes",
    ),
    (
        Fault::NoLength,
        "no-length",
        "a body that ends when the connection closes (valid)",
    ),
    (
        Fault::NoCloseNotify,
        "no-close-notify",
        "like no-length, but without TLS close_notify",
    ),
    (
        Fault::ConnectionError,
        "connection-error",
        "closes with an error code (HTTP/3 only)",
    ),
];

impl Fault {
    /// Iterates over all faults in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        FAULTS.iter().map(|row| row.0)
    }

    /// Finds a fault by name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        FAULTS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the name of the fault in a path, such as `stall-body`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns a short description of the fault's effect.
    #[must_use]
    pub fn effect(self) -> &'static str {
        self.row().2
    }

    /// Returns true if the fault exists over HTTP/1.0 and HTTP/1.1.
    #[must_use]
    pub fn over_http1(self) -> bool {
        self != Self::ConnectionError
    }

    /// Returns true if the fault exists over HTTP/2. `reset`, `close` and `garbage` then affect the
    /// whole connection, whereas `stall`, `stall-body`, `slow-body`, `truncate` and `lies-short`
    /// affect only the stream. The last two send a length that contradicts the frames (RFC 9113
    /// §8.1.1).
    #[must_use]
    pub fn over_http2(self) -> bool {
        self.takes_http2_connection()
            || matches!(
                self,
                Self::Stall | Self::StallBody | Self::SlowBody | Self::Truncate | Self::LiesShort
            )
    }

    /// Returns true if the fault exists over HTTP/3. `close` and `early-close-keepalive` close the
    /// connection with H3_NO_ERROR, `connection-error` closes it with H3_INTERNAL_ERROR, and
    /// `reset` and `reset-body` reset the stream with H3_INTERNAL_ERROR. All other faults are
    /// faulty content of the stream. Some of this content is a connection error that a client must
    /// detect: a frame of HTTP/2 (`garbage`), and incomplete frames at the end of the stream
    /// (`half`, `truncate-chunked`).
    #[must_use]
    pub fn over_http3(self) -> bool {
        !matches!(
            self,
            Self::BadChunk | Self::CloseButOpen | Self::NoLength | Self::NoCloseNotify
        )
    }

    /// Returns true if the fault affects an HTTP/2 connection as a whole.
    pub(crate) fn takes_http2_connection(self) -> bool {
        matches!(self, Self::Reset | Self::Close | Self::Garbage)
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        // The table has a row for each fault, in the order of the enum; a test checks that.
        &FAULTS[self as usize]
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
        assert_eq!(Fault::ConnectionError as usize + 1, FAULTS.len());
        for (index, (fault, name, _)) in FAULTS.iter().enumerate() {
            assert_eq!(*fault as usize, index);
            assert_eq!(Fault::from_name(name), Some(*fault));
        }
    }
}
