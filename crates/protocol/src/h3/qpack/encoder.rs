//! Field encoder whose output is valid on any connection at any time (RFC 9204 §4.5).

use super::static_table;
use crate::compression::{FieldCoding, encode_integer, encode_string};

/// Prefix of every section of this encoder: Required Insert Count 0 and Base 0 (RFC 9204 §4.5.1).
pub(crate) const SECTION_PREFIX: [u8; 2] = [0, 0];

/// Encoding of fields without the dynamic table. A section has the same meaning on every stream of
/// every connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Qpack;

impl FieldCoding for Qpack {
    /// Appends a field: as an index into the static table (RFC 9204 §4.5.2), or as a literal.
    fn encode_field(name: &str, value: &str, out: &mut Vec<u8>) {
        if let Some((index, true)) = static_table::find_index(name, value) {
            encode_integer(6, 0b1100_0000, index, out);
            return;
        }
        Qpack::encode_name(name, out);
        encode_string(7, 0, value, out);
    }

    /// Appends the beginning of a literal field, with the name of a static entry (RFC 9204 §4.5.4)
    /// or with a literal name (§4.5.6).
    fn encode_name(name: &str, out: &mut Vec<u8>) {
        match static_table::find_index(name, "") {
            Some((index, _)) => encode_integer(4, 0b0101_0000, index, out),
            None => encode_string(3, 0b0010_0000, name, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str, value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Qpack::encode_field(name, value, &mut out);
        out
    }

    #[test]
    fn fields_are_written_as_short_as_the_static_table_allows() {
        assert_eq!(encoded(":method", "GET"), b"\xd1");
        assert_eq!(encoded("x-frame-options", "sameorigin"), b"\xff\x23");
        // Tests the example of RFC 9204 §B.1, in which the value isn't Huffman-coded.
        assert_eq!(
            encoded(":path", "/index.html"),
            b"\x51\x88\x60\xd5\x48\x5f\x2b\xce\x9a\x68"
        );
        assert_eq!(encoded("user-agent", "~~"), b"\x5f\x50\x02~~");
        assert_eq!(encoded("{", "}"), b"\x21{\x01}");
        assert_eq!(encoded("x", ""), b"\x21x\x00");
        assert_eq!(encoded("te", "aaa"), b"\x22te\x82\x18\xc7");
        // A literal name whose length doesn't fit in three bits.
        assert_eq!(encoded("{{{{{{{{", ""), b"\x27\x01{{{{{{{{\x00");
        assert_eq!(encoded("aaaaaaaaa", "")[..1], [0x2e]);
    }
}
