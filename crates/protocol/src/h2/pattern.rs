//! Requests in which some field values or the body differ each time the request is sent.

use super::frame::{self, FrameType, HEADER_BYTES, flag};
use super::hpack::Hpack;
use super::request::{EncodedRequest, FRAGMENT_BYTES, frames};
use crate::field_pattern::FieldPattern;
use crate::h1::{Expects, RequestError, RequestSpec};
use crate::request_fields::RequestScheme;

/// A request whose field values or body vary. Its other fields are encoded once.
///
/// Varying values are written as plain octets, without Huffman coding.
#[derive(Debug, Clone)]
pub struct RequestPattern {
    fields: FieldPattern,
}

impl RequestPattern {
    /// Encodes the fixed parts of a request. A field varies if `is_varying` returns true for its
    /// value. If `body_varies` is true, the body of `spec` only determines whether `content-length`
    /// is sent.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`EncodedRequest::new`].
    pub fn new(
        spec: &RequestSpec,
        scheme: RequestScheme,
        is_varying: impl Fn(&str) -> bool,
        body_varies: bool,
    ) -> Result<RequestPattern, RequestError> {
        let fields = FieldPattern::new::<Hpack>(spec, scheme, is_varying, body_varies)?;
        Ok(RequestPattern { fields })
    }

    /// Returns the values of the varying fields in the [`RequestSpec`] from which the pattern was
    /// created, in the order of the fields.
    pub fn varying_values(&self) -> impl Iterator<Item = &str> {
        self.fields.varying_values()
    }

    /// Encodes one request into `request`, reusing its memory. `write_value` appends the value of
    /// the varying field with the given index. `further` is an optional additional field, with its
    /// name in lower case.
    pub fn encode(
        &self,
        body: &[u8],
        further: Option<(&str, &str)>,
        write_value: impl FnMut(usize, &mut Vec<u8>),
        request: &mut EncodedRequest,
    ) {
        request.body.clear();
        request.body.extend_from_slice(body);
        request.expects = self.fields.expects();
        let out = &mut request.frames;
        out.clear();
        out.resize(HEADER_BYTES, 0);
        let body_bytes = body.len() as u64;
        request.list_bytes = self
            .fields
            .encode::<Hpack>(body_bytes, further, write_value, out);
        finish(out, body.is_empty());
    }
}

impl Default for EncodedRequest {
    /// Creates an empty request, into which a [`RequestPattern`] can encode.
    fn default() -> EncodedRequest {
        EncodedRequest {
            frames: Vec::new(),
            list_bytes: 0,
            body: Vec::new(),
            expects: Expects::Body,
        }
    }
}

/// Converts a block to frames. `out` contains space for one frame header, followed by the block.
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
