//! Requests of which some field values or the body differ each time they are sent.

use super::RequestScheme;
use super::frame::{self, FrameType, HEADER_BYTES, flag};
use super::hpack::{FIELD_OVERHEAD_BYTES, encode_field, encode_name, encode_value_with};
use super::request::{Block, EncodedRequest, FRAGMENT_BYTES, frames, write_fields};
use crate::decimal::write_decimal;
use crate::h1::{Expects, RequestError, RequestSpec};

/// A request whose field values or body vary. Its other fields are encoded once.
///
/// Varying values are written as plain octets, without Huffman coding.
#[derive(Debug, Clone)]
pub struct RequestPattern {
    pieces: Vec<BlockPiece>,
    expects: Expects,
}

/// A part of the field block.
#[derive(Debug, Clone)]
enum BlockPiece {
    /// Whole fields.
    Fixed { bytes: Vec<u8>, list_bytes: u32 },
    /// A field whose value varies.
    Varying {
        /// The field's representation and name.
        encoded_name: Vec<u8>,
        name_bytes: u32,
        /// The value in the pattern's [`RequestSpec`].
        value: String,
    },
    /// `content-length` of a body that varies.
    Length {
        encoded_name: Vec<u8>,
        name_bytes: u32,
    },
}

impl RequestPattern {
    /// Encodes the fixed parts of a request. A field varies if `is_varying` is true for its value.
    /// If `body_varies`, the body of `spec` only determines whether `content-length` is sent.
    ///
    /// # Errors
    ///
    /// As [`EncodedRequest::new`].
    pub fn new(
        spec: &RequestSpec,
        scheme: RequestScheme,
        is_varying: impl Fn(&str) -> bool,
        body_varies: bool,
    ) -> Result<RequestPattern, RequestError> {
        let mut pieces = Vec::new();
        let mut block = Block::default();
        write_fields(spec, scheme, |name, value| {
            let is_length = body_varies && name == "content-length";
            if !is_length && !is_varying(value) {
                block.add(name, value);
                return;
            }
            flush(&mut block, &mut pieces);
            let name_bytes = name.len() as u32;
            let mut encoded_name = Vec::new();
            encode_name(name, &mut encoded_name);
            pieces.push(match is_length {
                true => BlockPiece::Length {
                    encoded_name,
                    name_bytes,
                },
                false => BlockPiece::Varying {
                    encoded_name,
                    name_bytes,
                    value: value.to_owned(),
                },
            });
        })?;
        flush(&mut block, &mut pieces);
        Ok(RequestPattern {
            pieces,
            expects: EncodedRequest::expects_of(spec.method),
        })
    }

    /// The values of the varying fields, as they are in the pattern's [`RequestSpec`], in the order
    /// of their fields.
    pub fn varying_values(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            BlockPiece::Varying { value, .. } => Some(value.as_str()),
            BlockPiece::Fixed { .. } | BlockPiece::Length { .. } => None,
        })
    }

    /// Encodes one request into `request`, whose memory is reused. `write_value` appends the value
    /// of the varying field with the given number, from 0. `further` is one more field, with its
    /// name in lower case.
    pub fn encode(
        &self,
        body: &[u8],
        further: Option<(&str, &str)>,
        mut write_value: impl FnMut(usize, &mut Vec<u8>),
        request: &mut EncodedRequest,
    ) {
        request.body.clear();
        request.body.extend_from_slice(body);
        request.expects = self.expects;
        let out = &mut request.frames;
        out.clear();
        out.resize(HEADER_BYTES, 0);
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
                    let write = |out: &mut Vec<u8>| write_decimal(body.len() as u64, out);
                    let value_bytes = encode_value_with(out, write);
                    list_bytes += name_bytes + value_bytes as u32 + FIELD_OVERHEAD_BYTES;
                }
            }
        }
        if let Some((name, value)) = further {
            encode_field(name, value, out);
            list_bytes += (name.len() + value.len()) as u32 + FIELD_OVERHEAD_BYTES;
        }
        request.list_bytes = list_bytes;
        finish(out, body.is_empty());
    }
}

impl Default for EncodedRequest {
    /// An empty request, into which a [`RequestPattern`] encodes.
    fn default() -> EncodedRequest {
        EncodedRequest {
            frames: Vec::new(),
            list_bytes: 0,
            body: Vec::new(),
            expects: Expects::Body,
        }
    }
}

fn flush(block: &mut Block, pieces: &mut Vec<BlockPiece>) {
    let Block { bytes, list_bytes } = std::mem::take(block);
    if !bytes.is_empty() {
        pieces.push(BlockPiece::Fixed { bytes, list_bytes });
    }
}

/// Turns a block that follows room for one frame header into frames.
fn finish(out: &mut Vec<u8>, end_stream: bool) {
    let block_bytes = out.len() - HEADER_BYTES;
    if block_bytes > FRAGMENT_BYTES {
        *out = frames(&out[HEADER_BYTES..], end_stream);
        return;
    }
    let end_stream = if end_stream { flag::END_STREAM } else { 0 };
    let flags = flag::END_HEADERS | end_stream;
    let header = frame::header(block_bytes, FrameType::Headers, flags, 0);
    out[..HEADER_BYTES].copy_from_slice(&header);
}
