//! Encoder of fields, whose output is valid at any time (RFC 7541 §6).

use super::{huffman, integer, static_table};

/// Appends a field: as an index into the static table, or as a literal without indexing (RFC 7541
/// §6.1, §6.2.2).
///
/// Neither uses the dynamic table, so a block of such fields has the same meaning on every
/// connection, in any order, and for any table size of the peer.
pub(crate) fn encode_field(name: &str, value: &str, out: &mut Vec<u8>) {
    match static_table::find(name, value) {
        Some((index, true)) => integer::encode(7, 0x80, index, out),
        Some((index, false)) => {
            integer::encode(4, 0, index, out);
            encode_string(value, out);
        }
        None => {
            out.push(0);
            encode_string(name, out);
            encode_string(value, out);
        }
    }
}

/// Appends the beginning of a literal field without indexing (RFC 7541 §6.2.2): everything before its
/// value.
pub(crate) fn encode_name(name: &str, out: &mut Vec<u8>) {
    match static_table::find(name, "") {
        Some((index, _)) => integer::encode(4, 0, index, out),
        None => {
            out.push(0);
            encode_string(name, out);
        }
    }
}

/// Appends a field's value, which `write` appends as plain octets. Returns its length.
pub(crate) fn encode_value_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    out.push(0);
    write(out);
    let length = out.len() - start - 1;
    if length < LENGTH_IN_ONE_BYTE {
        out[start] = length as u8;
        return length;
    }
    // The length takes several bytes: they go to the end and then before the value.
    let value_end = out.len();
    integer::encode(7, 0, length, out);
    let length_bytes = out.len() - value_end;
    out[start + 1..].rotate_right(length_bytes);
    out.remove(start);
    length
}

/// Lengths below this take one byte.
const LENGTH_IN_ONE_BYTE: usize = 0x7f;

/// Appends a string in the shorter of both codings (RFC 7541 §5.2).
fn encode_string(text: &str, out: &mut Vec<u8>) {
    let coded_bytes = huffman::coded_bytes(text.as_bytes());
    if coded_bytes < text.len() {
        integer::encode(7, 0x80, coded_bytes, out);
        huffman::encode(text.as_bytes(), out);
    } else {
        integer::encode(7, 0, text.len(), out);
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        encode_field(name, value, &mut out);
        out
    }

    #[test]
    fn values_of_any_length_follow_a_name() {
        for (name, head) in [(":path", &b"\x04"[..]), ("x", b"\0\x01x")] {
            for length in [0, 1, 126, 127, 128, 254, 255, 300, 20_000] {
                let value = vec![b'~'; length];
                let (mut out, mut expected) = (b"before".to_vec(), b"before".to_vec());
                encode_name(name, &mut out);
                let written = encode_value_with(&mut out, |out| out.extend_from_slice(&value));
                assert_eq!(written, length);
                expected.extend_from_slice(head);
                integer::encode(7, 0, length, &mut expected);
                expected.extend_from_slice(&value);
                assert_eq!(out, expected, "{name} {length}");
            }
        }
    }

    #[test]
    fn fields_are_written_as_short_as_the_static_table_allows() {
        assert_eq!(encoded(":method", "GET"), b"\x82");
        assert_eq!(encoded(":path", "/index.html"), b"\x85");
        assert_eq!(
            encoded(":path", "/sample/path"),
            b"\x04\x89\x61\x03\xa6\xba\x0a\xc5\x63\x4c\xff"
        );
        assert_eq!(encoded("user-agent", "~~"), b"\x0f\x2b\x02~~");
        assert_eq!(encoded("{", "}"), b"\x00\x01{\x01}");
        assert_eq!(encoded("x", ""), b"\x00\x01x\x00");
        assert_eq!(encoded("te", "aaa"), b"\x00\x02te\x82\x18\xc7");
    }
}
