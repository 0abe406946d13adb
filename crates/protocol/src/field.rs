//! Syntax of field names and values (RFC 9110 §5), shared by all versions of HTTP.

mod steps;

use steps::{STEP, control, no_letter};

/// Lookup table: true for each byte that is a `tchar` (RFC 9110 §5.6.2).
static TOKEN: [bool; 256] = token_table();

const fn token_table() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
}

/// Returns the length of the longest prefix that consists of token characters.
pub(crate) fn token_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    // Fast path: nearly all names consist of letters and hyphens.
    while let Some(step) = bytes.get(at..).and_then(<[u8]>::first_chunk)
        && no_letter(step).is_none()
    {
        at += STEP;
    }
    let rest = bytes[at..].iter();
    at + rest.take_while(|&&byte| TOKEN[usize::from(byte)]).count()
}

/// Returns the length of the field name at the start of `bytes`, if it is followed by a colon.
#[inline]
pub(crate) fn name_length(bytes: &[u8]) -> Option<usize> {
    if let Some(step) = bytes.first_chunk()
        && let Some(length @ 1..) = no_letter(step)
        && step[length] == b':'
    {
        return Some(length);
    }
    odd_name_length(bytes)
}

/// Slow path of [`name_length`], which also accepts characters other than letters and hyphens.
fn odd_name_length(bytes: &[u8]) -> Option<usize> {
    let length = token_length(bytes);
    (length > 0 && bytes.get(length) == Some(&b':')).then_some(length)
}

/// Returns true for a token (RFC 9110 §5.6.2), such as a method or a field name.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_length(bytes) == bytes.len()
}

/// Returns true if the byte is allowed in a field value (RFC 9110 §5.5): visible characters, space,
/// tab and bytes above 127, but no other control character.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7f) || byte == b'\t'
}

/// Returns the length of the line at the start of `bytes`, if it ends with CRLF and contains only
/// bytes that are allowed in a field value. Field names also consist only of such bytes.
///
/// The line is searched in steps of equal length, so no step depends on the result of the previous
/// one.
#[inline]
pub(crate) fn line_length(bytes: &[u8]) -> Option<usize> {
    let (steps, _) = bytes.as_chunks::<STEP>();
    for (number, step) in steps.iter().enumerate() {
        let Some(place) = control(step) else {
            continue;
        };
        let at = number * STEP + place;
        if bytes.get(at..at + 2) == Some(b"\r\n") {
            return Some(at);
        }
        return odd_line_length(bytes, at);
    }
    odd_line_length(bytes, steps.len() * STEP)
}

/// Slow path of [`line_length`], which examines one byte at a time. The first `from` bytes are
/// known to be valid.
fn odd_line_length(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes[from..].iter();
    let length = from + rest.take_while(|&&byte| is_value_byte(byte)).count();
    bytes[length..].starts_with(b"\r\n").then_some(length)
}

/// Returns true if all bytes are allowed in a field value.
pub fn is_value(bytes: &[u8]) -> bool {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let mut odd = steps.iter().filter(|step| control(step).is_some());
    odd.all(|step| step.iter().copied().all(is_value_byte))
        && rest.iter().copied().all(is_value_byte)
}

/// Returns true if a token equals a name, ignoring case. The name is in lower case, may contain
/// hyphens, and has at least eight bytes.
///
/// Within tokens, setting the case bit produces a lower-case letter only from a letter, and a
/// hyphen only from a hyphen.
#[inline]
pub(crate) fn is_named<const N: usize>(token: &[u8], name: &[u8; N]) -> bool {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let Ok(token) = <&[u8; N]>::try_from(token) else {
        return false;
    };
    let word = |bytes: &[u8; N], at: usize| match bytes[at..].first_chunk() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => 0,
    };
    let differs = |at: usize| (word(token, at) | CASE) ^ word(name, at);
    let mut differing = differs(N - 8);
    let mut at = 0;
    while at + 8 < N {
        differing |= differs(at);
        at += 8;
    }
    differing == 0
}

/// Removes surrounding spaces and tabs (OWS, RFC 9110 §5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_consists_of_the_characters_in_the_grammar() {
        let allowed =
            b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        for byte in 0..=255u8 {
            assert_eq!(
                is_token(&[byte]),
                allowed.contains(&byte),
                "byte {byte:#04x}"
            );
        }
        assert!(!is_token(b""));
        assert_eq!(token_length(b"Content-Length: 5"), 14);
        assert_eq!(token_length(b"Host"), 4);
    }

    #[test]
    fn a_name_of_any_length_ends_at_its_colon() {
        for length in 0..40 {
            for other in [b"-".as_slice(), b"_", b"9", b"~", b"Z"] {
                let mut bytes = vec![b'n'; length];
                bytes.extend_from_slice(other);
                let name = bytes.len();
                assert_eq!((token_length(&bytes), name_length(&bytes)), (name, None));
                bytes.extend_from_slice(b": and more, longer than a step");
                let found = (token_length(&bytes), name_length(&bytes));
                assert_eq!(found, (name, Some(name)));
                bytes[name] = b' ';
                assert_eq!(name_length(&bytes), None);
            }
        }
        assert_eq!(name_length(b": of nothing, and longer than a step"), None);
        assert_eq!(name_length(b":"), None);
    }

    #[test]
    fn a_line_is_judged_alike_at_every_length_and_place() {
        for length in 0..40 {
            for rest in [
                "\r\n",
                "\r\nmore of it, longer than a step",
                "\0\r\n",
                "\r",
                "",
            ] {
                let line = [vec![b'v'; length].as_slice(), rest.as_bytes()].concat();
                let expected = rest.starts_with("\r\n").then_some(length);
                assert_eq!(line_length(&line), expected, "{length} {rest:?}");
                for (at, byte) in (0..length).flat_map(|at| (0..=255u8).map(move |byte| (at, byte)))
                {
                    let mut line = line.clone();
                    line[at] = byte;
                    let expected = expected.filter(|_| is_value_byte(byte));
                    assert_eq!(
                        line_length(&line),
                        expected,
                        "{byte:#04x} at {at} of {length}"
                    );
                }
            }
        }
        assert_eq!(line_length(b"a\tb\tcdefghij\r\nk\tl and so on"), Some(12));
    }

    #[test]
    fn names_are_recognized_in_any_case() {
        assert!(is_named(b"Content-Length", b"content-length"));
        assert!(is_named(b"TRANSFER-ENCODING", b"transfer-encoding"));
        assert!(!is_named(b"content-lengt", b"content-length"));
        assert!(!is_named(b"content-lengthh", b"content-length"));
        let name = b"connection-name-x";
        for at in 0..name.len() {
            for byte in (0..=255u8).filter(|&byte| is_token(&[byte])) {
                let mut token = *name;
                token[at] = byte;
                let same = token.eq_ignore_ascii_case(name);
                assert_eq!(is_named(&token, name), same, "{byte:#04x} at {at}");
            }
        }
    }

    #[test]
    fn a_value_is_judged_alike_at_every_length_and_place() {
        for length in 1..40 {
            for at in 0..length {
                for byte in 0..=255u8 {
                    let mut value = vec![b'v'; length];
                    value[at] = byte;
                    let expected = byte == b'\t' || !(byte < 32 || byte == 127);
                    assert_eq!(
                        is_value(&value),
                        expected,
                        "{byte:#04x} at {at} of {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_tab_does_not_hide_a_control_character() {
        assert!(is_value(b"a\tbcdefghij\tklmnop"));
        assert!(!is_value(b"a\tbcdefghij\x01klmnop"));
        assert!(!is_value(b"\x01\tbcdefghijklmnop"));
        assert!(!is_value(b"abcdefghijklmnop\t\x7f"));
    }

    #[test]
    fn trim_takes_spaces_and_tabs_only() {
        assert_eq!(trim(b" \t a b\t "), b"a b");
        assert_eq!(trim(b" \t "), b"");
        assert_eq!(trim(b"\x0ba"), b"\x0ba");
    }
}
