//! Which bytes the names and values of fields may hold (RFC 9110 §5), in every version of HTTP.

/// For each byte: is it a `tchar` (RFC 9110 §5.6.2)?
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

/// How many of the first bytes may stand in a token.
pub(crate) fn token_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| !TOKEN[usize::from(byte)])
        .unwrap_or(bytes.len())
}

/// Is this a token (RFC 9110 §5.6.2): a method or the name of a field?
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_length(bytes) == bytes.len()
}

/// May this byte stand in a field's value? RFC 9110 §5.5: visible characters, space, tab, and
/// bytes above 127 of unknown meaning. No other control character.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    (byte >= b' ' && byte != 0x7f) || byte == b'\t'
}

/// How many of the first bytes may stand in a field's value.
///
/// Eight bytes at a time: this looks at most of a head.
#[inline]
pub(crate) fn value_length(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let suspects = suspects(*word);
        if suspects == 0 {
            at += 8;
            continue;
        }
        at += suspects.trailing_zeros() as usize / 8;
        if bytes[at] != b'\t' {
            return at;
        }
        at += 1;
    }
    let tail = bytes[at..].iter().position(|&byte| !is_value_byte(byte));
    tail.map_or(bytes.len(), |length| at + length)
}

/// May all of these bytes stand in a field's value?
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    value_length(bytes) == bytes.len()
}

/// Marks with its highest bit each of eight bytes that is below 32 or is 127. Bytes above the first
/// one marked, which is the lowest, may be marked wrongly.
#[inline]
fn suspects(bytes: [u8; 8]) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(bytes);
    let delete = word ^ (EACH * 0x7f);
    let low = word.wrapping_sub(EACH * 0x20) & !word;
    let zero = delete.wrapping_sub(EACH) & !delete;
    (low | zero) & (EACH * 0x80)
}

/// Without the spaces and tabs around it (OWS, RFC 9110 §5.6.3).
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
    fn a_token_holds_what_the_grammar_names() {
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
        assert_eq!(value_length(b"a\tb\tcdefghij\r\nk\tl"), 12);
    }

    #[test]
    fn trim_takes_spaces_and_tabs_only() {
        assert_eq!(trim(b" \t a b\t "), b"a b");
        assert_eq!(trim(b" \t "), b"");
        assert_eq!(trim(b"\x0ba"), b"\x0ba");
    }
}
