//! Encoding of request fields.

/// Encoding of fields for HPACK or QPACK. All implementations encode values that are not in a table
/// in the same way; see [`encode_value_with`](super::encode_value_with).
pub(crate) trait FieldCoding {
    /// Appends a field.
    fn encode_field(name: &str, value: &str, out: &mut Vec<u8>);

    /// Appends the beginning of a literal field: everything before its value.
    fn encode_name(name: &str, out: &mut Vec<u8>);
}
