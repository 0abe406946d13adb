//! Early detection of peers that don't speak HTTP/1. The parser can't wait for the end of a line,
//! because peers with other protocols may never send one.

use super::Violation;

/// Result of examining the first bytes of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstBytes {
    /// The beginning of an HTTP/1 status line.
    Http1,
    /// More bytes are needed.
    Undecided,
}

/// Beginning of every status line. The name is case-sensitive (RFC 9112 §2.3).
pub(super) const STATUS_LINE_START: &[u8] = b"HTTP/1.";

/// First bytes that an HTTP/2 client sends (RFC 9113 §3.4). An echo server, for example, returns
/// these bytes.
const PREFACE: &[u8] = b"PRI * HTTP/2";

/// Number of bytes that is always sufficient for a decision.
pub(super) const FIRST_BYTES_MAX: usize = PREFACE.len();

/// Examines the first bytes of a response. More bytes never change a result other than
/// [`FirstBytes::Undecided`], so the result doesn't depend on how the input is split.
pub(super) fn judge(bytes: &[u8]) -> Result<FirstBytes, Violation> {
    let same = bytes
        .iter()
        .zip(STATUS_LINE_START)
        .take_while(|(a, b)| a == b)
        .count();
    if same == STATUS_LINE_START.len() {
        return Ok(FirstBytes::Http1);
    }
    if same == bytes.len() {
        return Ok(FirstBytes::Undecided);
    }
    if same >= b"HTTP/".len() {
        return Err(Violation::Version);
    }
    match *bytes {
        // This may be a TLS record: its type (alert or handshake), then the major version 3 (RFC
        // 8446 §5.1).
        [0x15 | 0x16] => Ok(FirstBytes::Undecided),
        [0x15 | 0x16, 0x03, ..] => Err(Violation::Tls),
        // This may be an HTTP/2 frame: 24 bits of length, then the type, which is SETTINGS in the
        // first frame (RFC 9113 §4.1, §3.4).
        [0] | [0, 0] | [0, 0, _] => Ok(FirstBytes::Undecided),
        [0, 0, _, 0x04, ..] => Err(Violation::Http2),
        _ if bytes.starts_with(PREFACE) => Err(Violation::Http2),
        _ if PREFACE.starts_with(bytes) => Ok(FirstBytes::Undecided),
        [b'\r' | b'\n', ..] => Err(Violation::EmptyLineFirst),
        _ => Err(Violation::NotHttp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgment_does_not_change_with_further_bytes() {
        let openings: [&[u8]; 11] = [
            b"HTTP/1.1 200 OK",
            b"HTTP/2.0 200 OK",
            b"HTTP/0.9",
            b"HTTX",
            b"http/1.1 200 OK",
            b"\x15\x03\x01\x00\x02\x02\x16 ",
            b"\x15HTTP/1.1 200",
            b"\x00\x00\x0a\x04\x00\x00\x00\x00\x00\x00\x03",
            b"\x00\x00\x0a\x07\x00\x00\x00\x00\x00\x00\x03",
            b"PRI * HTTP/2.0\r\n",
            b"\r\nHTTP/1.1 200 OK",
        ];
        for first_bytes in openings {
            let whole = judge(first_bytes);
            assert_ne!(whole, Ok(FirstBytes::Undecided), "{first_bytes:?}");
            for length in 1..first_bytes.len() {
                let part = judge(&first_bytes[..length]);
                assert!(
                    part == whole || part == Ok(FirstBytes::Undecided),
                    "{first_bytes:?} {length}"
                );
                assert!(
                    part == whole || length < FIRST_BYTES_MAX,
                    "{first_bytes:?} {length}"
                );
            }
        }
    }
}
