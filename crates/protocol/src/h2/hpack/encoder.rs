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
