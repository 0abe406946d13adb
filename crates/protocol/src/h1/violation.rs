//! Violations of HTTP/1 by a peer.

use std::fmt;

/// The first violation in a response. The peer is always at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// The response doesn't begin with `HTTP/` (RFC 9112 §4).
    NotHttp,
    /// The version in the status line is malformed or is not 1.x (RFC 9112 §2.3).
    Version,
    /// The response is a TLS record: the port speaks TLS (RFC 8446 §5.1).
    Tls,
    /// The response is an HTTP/2 frame or preface (RFC 9113 §3.4).
    Http2,
    /// An empty line precedes the status line. Only servers may skip such lines (RFC 9112 §2.2).
    /// Before a response, the empty line shows that the length of the previous response was wrong.
    EmptyLineFirst,
    /// The status isn't three digits after a single space, followed by a space or nothing (RFC 9112
    /// §4).
    Status,
    /// More interim responses than the limit allows.
    TooManyInterim {
        /// Largest accepted number of interim responses.
        limit: u32,
    },
    /// A head longer than the limit.
    HeadTooLong {
        /// Limit that was exceeded, in bytes.
        limit_bytes: usize,
    },
    /// A field line without a colon (RFC 9112 §5).
    NoColon,
    /// A field line that begins with its colon (RFC 9110 §5.1).
    EmptyName,
    /// Space or tab between a field's name and its colon (RFC 9112 §5.1).
    SpaceBeforeColon,
    /// An invalid character in a field's name (RFC 9110 §5.1).
    Name,
    /// A NUL byte in a field's value or in the reason (RFC 9110 §5.5).
    Nul,
    /// A CR without LF (RFC 9112 §2.2).
    LoneCr,
    /// A control character other than NUL or CR in a field's value or in the reason (RFC 9110
    /// §5.5).
    Control,
    /// The first line after the status line begins with space or tab (RFC 9112 §2.2).
    SpaceBeforeFields,
    /// A Content-Length, Transfer-Encoding or Connection that continues on a second line. Senders
    /// must not fold (RFC 9112 §5.2), and these fields frame the response.
    FoldedFraming,
    /// A Content-Length that doesn't consist of digits (RFC 9110 §8.6).
    Length,
    /// A Content-Length above 2⁶⁴ − 1 bytes.
    LengthOverflow,
    /// Two different values of Content-Length (RFC 9112 §6.3).
    LengthsDiffer,
    /// Transfer-Encoding together with Content-Length, which is ambiguous (RFC 9112 §6.3).
    LengthAndCoding,
    /// Transfer-Encoding in an HTTP/1.0 response (RFC 9112 §6.1).
    CodingInHttp10,
    /// A Transfer-Encoding other than `chunked`, which is the only one acceptable for a request
    /// without TE (RFC 9110 §10.1.4).
    Coding,
    /// `chunked` applied twice (RFC 9112 §6.1).
    ChunkedTwice,
    /// A chunk size that is missing or not hexadecimal (RFC 9112 §7.1).
    ChunkSize,
    /// A chunk size above 2⁶⁴ − 1 bytes (RFC 9112 §7.1).
    ChunkSizeOverflow,
    /// A control character in a chunk's extension (RFC 9112 §7.1.1).
    ChunkExtension,
    /// The line of a chunk's size doesn't end in CRLF (RFC 9112 §7.1; the leniency of §2.2 applies
    /// to the start line and fields only).
    ChunkLineEnd,
    /// The line of a chunk's size is longer than the limit.
    ChunkLineTooLong {
        /// Limit that was exceeded, in bytes.
        limit_bytes: usize,
    },
    /// A chunk's bytes aren't followed by CRLF, so its size is wrong (RFC 9112 §7.1).
    ChunkEnd,
    /// A trailer section longer than the limit.
    TrailerTooLong {
        /// Limit that was exceeded, in bytes.
        limit_bytes: usize,
    },
    /// Bytes received when no response was expected: after the end of a response, or before a
    /// request.
    BytesAfterEnd,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match *self {
            Violation::NotHttp => "the response is not HTTP: it does not begin with \"HTTP/\"",
            Violation::Version => "the status line is not HTTP/1.x",
            Violation::Tls => "the server responded with TLS",
            Violation::Http2 => "the server responded to an HTTP/1 request with HTTP/2",
            Violation::EmptyLineFirst => "an empty line before the status line",
            Violation::Status => "the status code is not three digits between spaces",
            Violation::TooManyInterim { limit } => {
                return write!(f, "more than {limit} interim responses (1xx)");
            }
            Violation::HeadTooLong { limit_bytes } => {
                return write!(f, "head over {}", Size(limit_bytes));
            }
            Violation::NoColon => "a header line without a colon",
            Violation::EmptyName => "a header line without a name",
            Violation::SpaceBeforeColon => "whitespace between a header's name and its colon",
            Violation::Name => "an invalid character in a header's name",
            Violation::Nul => "a NUL byte in the head",
            Violation::LoneCr => "a CR without LF in the head",
            Violation::Control => "a control character in the head",
            Violation::SpaceBeforeFields => "whitespace before the first header",
            Violation::FoldedFraming => {
                "a Content-Length, Transfer-Encoding or Connection header folded over two lines"
            }
            Violation::Length => "Content-Length is not a number",
            Violation::LengthOverflow => "Content-Length does not fit into 64 bits",
            Violation::LengthsDiffer => "two different Content-Length values",
            Violation::LengthAndCoding => "both Transfer-Encoding and Content-Length",
            Violation::CodingInHttp10 => "Transfer-Encoding in an HTTP/1.0 response",
            Violation::Coding => "a Transfer-Encoding other than chunked",
            Violation::ChunkedTwice => "Transfer-Encoding lists chunked twice",
            Violation::ChunkSize => "chunk size is not hexadecimal",
            Violation::ChunkSizeOverflow => "chunk size does not fit into 64 bits",
            Violation::ChunkExtension => "a control character in a chunk's extension",
            Violation::ChunkLineEnd => "a chunk-size line does not end in CRLF",
            Violation::ChunkLineTooLong { limit_bytes } => {
                return write!(f, "a chunk-size line is longer than {}", Size(limit_bytes));
            }
            Violation::ChunkEnd => "a chunk is not followed by CRLF, so its size is wrong",
            Violation::TrailerTooLong { limit_bytes } => {
                return write!(f, "trailers over {}", Size(limit_bytes));
            }
            Violation::BytesAfterEnd => "bytes after the end of the response",
        };
        f.write_str(reason)
    }
}

impl std::error::Error for Violation {}

/// A size, printed in KiB if it is a multiple of 1 KiB.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1024 && bytes % 1024 == 0 => write!(f, "{} KiB", bytes / 1024),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}
