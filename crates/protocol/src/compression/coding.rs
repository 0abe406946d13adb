//! Coding of the fields of requests.

/// A way to encode fields. If a field isn't in a table, its value is encoded in the same way by all
/// implementations; see [`encode_value_with`](super::encode_value_with).
pub(crate) trait FieldCoding {
    /// Appends a field.
    fn encode_field(name: &str, value: &str, out: &mut Vec<u8>);

    /// Appends the beginning of a literal field: everything before its value.
    fn encode_name(name: &str, out: &mut Vec<u8>);
}
