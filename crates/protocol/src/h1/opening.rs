//! Is the first thing that a peer says HTTP/1 at all? Told apart as early as possible, because
//! other protocols need not ever send the end of a line.

use super::Violation;

/// What the first bytes of an answer can be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// The start of a status line of HTTP/1.
    Http1,
    /// Too few bytes to tell.
    Undecided,
}

/// How every status line begins. The name is case-sensitive (RFC 9112 §2.3).
pub(super) const START: &[u8] = b"HTTP/1.";

/// How the client's side of HTTP/2 begins (RFC 9113 §3.4); an echo or a confused peer sends it.
const PREFACE: &[u8] = b"PRI * HTTP/2";

/// So many bytes always suffice to decide.
pub(super) const LONGEST: usize = PREFACE.len();

/// Judges the first bytes of an answer. More bytes never change a judgement other than
/// [`Opening::Undecided`], so that it does not depend on how they were split.
pub(super) fn judge(bytes: &[u8]) -> Result<Opening, Violation> {
    let same = bytes.iter().zip(START).take_while(|(a, b)| a == b).count();
    if same == START.len() {
        return Ok(Opening::Http1);
    }
    if same == bytes.len() {
        return Ok(Opening::Undecided);
    }
    if same >= b"HTTP/".len() {
        return Err(Violation::Version);
    }
    match *bytes {
        // A TLS record: its type (alert, handshake), then the major version 3 (RFC 8446 §5.1).
        [0x15 | 0x16] => Ok(Opening::Undecided),
        [0x15 | 0x16, 0x03, ..] => Err(Violation::Tls),
        // An HTTP/2 frame: 24 bits of length, then the type, SETTINGS at first (RFC 9113 §4.1, §3.4).
        [0] | [0, 0] | [0, 0, _] => Ok(Opening::Undecided),
        [0, 0, _, 0x04, ..] => Err(Violation::Http2),
        _ if bytes.starts_with(PREFACE) => Err(Violation::Http2),
        _ if PREFACE.starts_with(bytes) => Ok(Opening::Undecided),
        [b'\r' | b'\n', ..] => Err(Violation::EmptyLineFirst),
        _ => Err(Violation::NotHttp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_stands_whatever_follows() {
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
        for opening in openings {
            let whole = judge(opening);
            assert_ne!(whole, Ok(Opening::Undecided), "{opening:?}");
            for length in 1..opening.len() {
                let part = judge(&opening[..length]);
                assert!(
                    part == whole || part == Ok(Opening::Undecided),
                    "{opening:?} {length}"
                );
                assert!(part == whole || length < LONGEST, "{opening:?} {length}");
            }
        }
    }
}
