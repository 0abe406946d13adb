//! Encoding of request fields.

/// A way to encode fields. All implementations encode the value of a field that isn't in a table in
/// the same way; see [`encode_value_with`](super::encode_value_with).
pub(crate) trait FieldCoding {
    /// Appends a field.
    fn encode_field(name: &str, value: &str, out: &mut Vec<u8>);

    /// Appends the beginning of a literal field: everything before its value.
    fn encode_name(name: &str, out: &mut Vec<u8>);
}
