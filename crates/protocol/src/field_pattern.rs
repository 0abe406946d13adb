//! Fields of requests in which some values differ each time the request is sent.

use crate::compression::{FIELD_OVERHEAD_BYTES, FieldCoding, encode_value_with};
use crate::decimal::write_decimal;
use crate::h1::{Expects, RequestError, RequestSpec};
use crate::request_fields::{RequestBlock, RequestScheme, expects_of, write_fields};

/// Fields of a request. Those whose values don't vary are encoded once, in advance.
///
/// Varying values are written as plain octets, without Huffman coding.
#[derive(Debug, Clone)]
pub(crate) struct FieldPattern {
    pieces: Vec<BlockPiece>,
    expects: Expects,
}

/// Part of a field block.
#[derive(Debug, Clone)]
enum BlockPiece {
    /// Encoded fields whose values don't vary.
    Fixed { bytes: Vec<u8>, list_bytes: u32 },
    /// A field whose value varies.
    Varying {
        /// Encoded beginning of the field: everything before its value.
        encoded_name: Vec<u8>,
        name_bytes: u32,
        /// The field's value in the [`RequestSpec`] from which the pattern was created.
        value: String,
    },
    /// The `content-length` of a varying body.
    Length {
        encoded_name: Vec<u8>,
        name_bytes: u32,
    },
}

impl FieldPattern {
    /// Encodes the fixed fields of a request. A field varies if `is_varying` returns true for its
    /// value. If `body_varies` is true, the body of `spec` only determines whether `content-length`
    /// is sent.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`RequestBlock::new`].
    pub(crate) fn new<C: FieldCoding>(
        spec: &RequestSpec,
        scheme: RequestScheme,
        is_varying: impl Fn(&str) -> bool,
        body_varies: bool,
    ) -> Result<FieldPattern, RequestError> {
        let mut pieces = Vec::new();
        let mut block = RequestBlock::default();
        write_fields(spec, scheme, |name, value| {
            let is_length = body_varies && name == "content-length";
            if !is_length && !is_varying(value) {
                block.add::<C>(name, value);
                return;
            }
            flush(&mut block, &mut pieces);
            let name_bytes = name.len() as u32;
            let mut encoded_name = Vec::new();
            C::encode_name(name, &mut encoded_name);
            pieces.push(if is_length {
                BlockPiece::Length {
                    encoded_name,
                    name_bytes,
                }
            } else {
                BlockPiece::Varying {
                    encoded_name,
                    name_bytes,
                    value: value.to_owned(),
                }
            });
        })?;
        flush(&mut block, &mut pieces);
        Ok(FieldPattern {
            pieces,
            expects: expects_of(spec.method),
        })
    }

    /// Returns the effect of the request's method on the response's body.
    pub(crate) fn expects(&self) -> Expects {
        self.expects
    }

    /// Returns the values of the varying fields in the [`RequestSpec`] from which the pattern was
    /// created, in the order of the fields.
    pub(crate) fn varying_values(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            BlockPiece::Varying { value, .. } => Some(value.as_str()),
            BlockPiece::Fixed { .. } | BlockPiece::Length { .. } => None,
        })
    }

    /// Appends the fields of one request. `write_value` appends the value of the varying field with
    /// the given index. `further` is an optional additional field, with its name in lower case.
    /// Returns the size of the field list (RFC 9113 §6.5.2, RFC 9114 §4.2.2).
    pub(crate) fn encode<C: FieldCoding>(
        &self,
        body_bytes: u64,
        further: Option<(&str, &str)>,
        mut write_value: impl FnMut(usize, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) -> u32 {
        let mut list_bytes = 0;
        let mut number = 0;
        for piece in &self.pieces {
            match piece {
                BlockPiece::Fixed {
                    bytes,
                    list_bytes: fixed,
                } => {
                    out.extend_from_slice(bytes);
                    list_bytes += fixed;
                }
                BlockPiece::Varying {
                    encoded_name,
                    name_bytes,
                    ..
                } => {
                    out.extend_from_slice(encoded_name);
                    let value_bytes = encode_value_with(out, |out| write_value(number, out));
                    list_bytes += name_bytes + value_bytes as u32 + FIELD_OVERHEAD_BYTES;
                    number += 1;
                }
                BlockPiece::Length {
                    encoded_name,
                    name_bytes,
                } => {
                    out.extend_from_slice(encoded_name);
                    let write = |out: &mut Vec<u8>| write_decimal(body_bytes, out);
                    let value_bytes = encode_value_with(out, write);
                    list_bytes += name_bytes + value_bytes as u32 + FIELD_OVERHEAD_BYTES;
                }
            }
        }
        if let Some((name, value)) = further {
            C::encode_field(name, value, out);
            list_bytes += (name.len() + value.len()) as u32 + FIELD_OVERHEAD_BYTES;
        }
        list_bytes
    }
}

fn flush(block: &mut RequestBlock, pieces: &mut Vec<BlockPiece>) {
    let RequestBlock { bytes, list_bytes } = std::mem::take(block);
    if !bytes.is_empty() {
        pieces.push(BlockPiece::Fixed { bytes, list_bytes });
    }
}
