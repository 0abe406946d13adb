//! How a peer can break HTTP/1.

use std::fmt;

/// The first thing wrong with an answer. The peer is at fault in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Violation {
    /// The answer does not begin with `HTTP/` (RFC 9112 §4).
    NotHttp,
    /// The status line names a version other than 1.x, or none that can be read (RFC 9112 §2.3).
    Version,
    /// The answer is a TLS record: the port speaks TLS (RFC 8446 §5.1).
    Tls,
    /// The answer is an HTTP/2 frame or preface (RFC 9113 §3.4).
    Http2,
    /// An empty line stands before the status line. Only servers are to skip such lines (RFC 9112
    /// §2.2); before an answer it shows that the one before had a wrong length.
    EmptyLineFirst,
    /// The status is not three digits after a single space, with a space or nothing behind it (RFC
    /// 9112 §4).
    Status,
    /// A status 101 that no upgrade was asked for (RFC 9110 §15.2.2).
    Upgrade,
    /// More interim answers than the limit.
    TooManyInterim {
        /// The limit, in answers.
        limit: u32,
    },
    /// A head longer than the limit.
    HeadTooLong {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A field line without a colon (RFC 9112 §5).
    NoColon,
    /// A field line that begins with its colon (RFC 9110 §5.1).
    EmptyName,
    /// Space or tab between a field's name and its colon (RFC 9112 §5.1).
    SpaceBeforeColon,
    /// A character in a field's name that a token can't hold (RFC 9110 §5.1).
    Name,
    /// A NUL in a field's value or in the reason (RFC 9110 §5.5).
    Nul,
    /// A CR that no LF follows (RFC 9112 §2.2).
    LoneCr,
    /// Another control character in a field's value or in the reason (RFC 9110 §5.5).
    Control,
    /// The first line after the status line begins with space or tab (RFC 9112 §2.2).
    SpaceBeforeFields,
    /// A Content-Length, Transfer-Encoding or Connection that goes on in a second line. Folding is
    /// forbidden to senders (RFC 9112 §5.2), and these fields say where the answer ends.
    FoldedFraming,
    /// A Content-Length that is not made of digits (RFC 9110 §8.6).
    Length,
    /// A Content-Length over 2⁶⁴ − 1 bytes.
    LengthOverflow,
    /// Two values of Content-Length that differ (RFC 9112 §6.3).
    LengthsDiffer,
    /// Transfer-Encoding beside Content-Length: it can't be known which is meant (RFC 9112 §6.3).
    LengthAndCoding,
    /// Transfer-Encoding in an answer of HTTP/1.0, which has none (RFC 9112 §6.1).
    CodingInHttp10,
    /// A Transfer-Encoding other than `chunked`, the only one acceptable to a request without TE
    /// (RFC 9110 §10.1.4).
    Coding,
    /// `chunked` applied twice (RFC 9112 §6.1).
    ChunkedTwice,
    /// A chunk's size that is not hexadecimal, or is missing (RFC 9112 §7.1).
    ChunkSize,
    /// A chunk's size over 2⁶⁴ − 1 bytes (RFC 9112 §7.1).
    ChunkSizeOverflow,
    /// A control character in a chunk's extension (RFC 9112 §7.1.1).
    ChunkExtension,
    /// The line of a chunk's size does not end in CRLF (RFC 9112 §7.1; the leniency of §2.2 is for
    /// the start line and fields only).
    ChunkLineEnd,
    /// The line of a chunk's size is longer than the limit.
    ChunkLineTooLong {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A chunk's bytes are not followed by CRLF: its size was wrong (RFC 9112 §7.1).
    ChunkEnd,
    /// A trailer section longer than the limit.
    TrailerTooLong {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// Bytes that came when no answer was due: after the end of one, or before a request.
    BytesAfterEnd,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match *self {
            Violation::NotHttp => "the answer is not HTTP: it does not begin with \"HTTP/\"",
            Violation::Version => "the status line is not HTTP/1.x",
            Violation::Tls => "the server answered with TLS; use https",
            Violation::Http2 => "the server answered an HTTP/1 request with HTTP/2",
            Violation::EmptyLineFirst => "an empty line before the status line",
            Violation::Status => "the status code is not three digits between spaces",
            Violation::Upgrade => "status 101 without a request to switch protocols",
            Violation::TooManyInterim { limit } => {
                return write!(f, "more than {limit} interim answers (1xx)");
            }
            Violation::HeadTooLong { limit_bytes } => {
                return write!(f, "head over {}", Size(limit_bytes));
            }
            Violation::NoColon => "a header line without a colon",
            Violation::EmptyName => "a header line without a name",
            Violation::SpaceBeforeColon => "whitespace between a header's name and its colon",
            Violation::Name => "a character in a header's name that is not allowed there",
            Violation::Nul => "a NUL in the head",
            Violation::LoneCr => "a CR without its LF in the head",
            Violation::Control => "a control character in the head",
            Violation::SpaceBeforeFields => "whitespace before the first header",
            Violation::FoldedFraming => {
                "a Content-Length, Transfer-Encoding or Connection header folded over two lines"
            }
            Violation::Length => "Content-Length is not a number",
            Violation::LengthOverflow => "Content-Length does not fit into 64 bits",
            Violation::LengthsDiffer => "two different Content-Length values",
            Violation::LengthAndCoding => "both Transfer-Encoding and Content-Length",
            Violation::CodingInHttp10 => "Transfer-Encoding in an HTTP/1.0 answer",
            Violation::Coding => "a Transfer-Encoding other than chunked",
            Violation::ChunkedTwice => "Transfer-Encoding names chunked twice",
            Violation::ChunkSize => "chunk size is not hexadecimal",
            Violation::ChunkSizeOverflow => "chunk size does not fit into 64 bits",
            Violation::ChunkExtension => "a control character in a chunk's extension",
            Violation::ChunkLineEnd => "the line of a chunk's size does not end in CRLF",
            Violation::ChunkLineTooLong { limit_bytes } => {
                return write!(
                    f,
                    "the line of a chunk's size is over {}",
                    Size(limit_bytes)
                );
            }
            Violation::ChunkEnd => "a chunk is not followed by CRLF: its size is wrong",
            Violation::TrailerTooLong { limit_bytes } => {
                return write!(f, "trailers over {}", Size(limit_bytes));
            }
            Violation::BytesAfterEnd => "bytes after the end of the answer",
        };
        f.write_str(reason)
    }
}

impl std::error::Error for Violation {}

/// A size in whole KiB where it is one.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1024 && bytes % 1024 == 0 => write!(f, "{} KiB", bytes / 1024),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}
