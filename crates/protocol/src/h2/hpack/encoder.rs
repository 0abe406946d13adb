//! Field encoder whose output is valid on any connection at any time (RFC 7541 §6).

use super::static_table;
use crate::compression::{FieldCoding, encode_integer, encode_string};

/// Encoding of fields without the dynamic table. A block of such fields has the same meaning on
/// every connection, regardless of earlier blocks and of the peer's table size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hpack;

impl FieldCoding for Hpack {
    /// Appends a field: as an index into the static table, or as a literal without indexing (RFC
    /// 7541 §6.1, §6.2.2).
    fn encode_field(name: &str, value: &str, out: &mut Vec<u8>) {
        match static_table::find_index(name, value) {
            Some((index, true)) => encode_integer(7, 0x80, index, out),
            Some((index, false)) => {
                encode_integer(4, 0, index, out);
                encode_string(7, 0, value, out);
            }
            None => {
                out.push(0);
                encode_string(7, 0, name, out);
                encode_string(7, 0, value, out);
            }
        }
    }

    /// Appends the beginning of a literal field without indexing (RFC 7541 §6.2.2).
    fn encode_name(name: &str, out: &mut Vec<u8>) {
        match static_table::find_index(name, "") {
            Some((index, _)) => encode_integer(4, 0, index, out),
            None => {
                out.push(0);
                encode_string(7, 0, name, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::encode_value_with;

    fn encoded(name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Hpack::encode_field(name, value, &mut out);
        out
    }

    #[test]
    fn values_of_any_length_follow_a_name() {
        for (name, head) in [(":path", &b"\x04"[..]), ("x", b"\0\x01x")] {
            for length in [0, 1, 126, 127, 128, 254, 255, 300, 20_000] {
                let value = vec![b'~'; length];
                let (mut out, mut expected) = (b"before".to_vec(), b"before".to_vec());
                Hpack::encode_name(name, &mut out);
                let written = encode_value_with(&mut out, |out| out.extend_from_slice(&value));
                assert_eq!(written, length);
                expected.extend_from_slice(head);
                encode_integer(7, 0, length, &mut expected);
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
