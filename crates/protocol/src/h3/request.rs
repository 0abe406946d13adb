//! Encoding of requests, done once before the run.

use std::fmt;

use super::frame::{self, FrameType};
use super::qpack::{Qpack, SECTION_PREFIX};
use super::varint::{VARINT_BYTES_MAX, Varint};
use crate::h1::{Expects, RequestError, RequestSpec};
use crate::request_fields::{RequestBlock, RequestScheme, expects_of};

/// Space for the frame header of HEADERS, in bytes. The header's length isn't known until the
/// payload has been written.
const HEADER_ROOM_BYTES: usize = 1 + VARINT_BYTES_MAX;

/// A request, encoded for any stream of any connection.
///
/// Its fields use only the static table and literals, so the bytes are valid on every connection.
#[derive(Clone)]
pub struct EncodedRequest {
    /// Unused space, then the frames.
    bytes: Vec<u8>,
    /// Index at which the frames start.
    start: usize,
    body_bytes: usize,
    list_bytes: u32,
    expects: Expects,
}

impl EncodedRequest {
    /// Encodes a request with the same header fields as
    /// [`h2::EncodedRequest::new`](crate::h2::EncodedRequest::new).
    ///
    /// # Errors
    ///
    /// Returns an error if a part of the request isn't valid HTTP, or if its framing contradicts
    /// the body.
    pub fn new(spec: &RequestSpec, scheme: RequestScheme) -> Result<EncodedRequest, RequestError> {
        let block = RequestBlock::new::<Qpack>(spec, scheme)?;
        let mut request = EncodedRequest {
            expects: expects_of(spec.method),
            ..EncodedRequest::default()
        };
        request.write(spec.body, |out| {
            out.extend_from_slice(&block.bytes);
            block.list_bytes
        });
        Ok(request)
    }

    /// Writes the frames, reusing the memory of the previous ones. `write_fields` appends the field
    /// lines and returns the size of the list.
    pub(super) fn write(&mut self, body: &[u8], write_fields: impl FnOnce(&mut Vec<u8>) -> u32) {
        let out = &mut self.bytes;
        out.clear();
        out.resize(HEADER_ROOM_BYTES, 0);
        out.extend_from_slice(&SECTION_PREFIX);
        self.list_bytes = write_fields(out);
        let length = Varint::new((out.len() - HEADER_ROOM_BYTES) as u64);
        let length_at = HEADER_ROOM_BYTES - length.bytes().len();
        out[length_at..HEADER_ROOM_BYTES].copy_from_slice(length.bytes());
        self.start = length_at - 1;
        out[self.start] = 0x01;
        if !body.is_empty() {
            frame::write_header(out, FrameType::Data, body.len() as u64);
            out.extend_from_slice(body);
        }
        self.body_bytes = body.len();
    }

    pub(super) fn set_expects(&mut self, expects: Expects) {
        self.expects = expects;
    }

    /// Returns all bytes to send on the request's stream: HEADERS, and DATA if there is a body. The
    /// stream must be ended after these bytes.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Returns the body of the request.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.body_bytes..]
    }

    /// Returns the effect of the request's method on the response's body.
    #[must_use]
    pub fn expects(&self) -> Expects {
        self.expects
    }

    /// Returns the size of the field list, in bytes as counted by RFC 9114 §4.2.2.
    #[must_use]
    pub fn list_bytes(&self) -> u32 {
        self.list_bytes
    }
}

impl Default for EncodedRequest {
    /// Creates an empty request, into which an [`RequestPattern`](super::RequestPattern) can
    /// encode.
    fn default() -> EncodedRequest {
        EncodedRequest {
            bytes: Vec::new(),
            start: 0,
            body_bytes: 0,
            list_bytes: 0,
            expects: Expects::Body,
        }
    }
}

impl PartialEq for EncodedRequest {
    fn eq(&self, other: &EncodedRequest) -> bool {
        let key =
            |request: &EncodedRequest| (request.body_bytes, request.list_bytes, request.expects);
        key(self) == key(other) && self.wire() == other.wire()
    }
}

impl Eq for EncodedRequest {}

impl fmt::Debug for EncodedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedRequest")
            .field("wire_bytes", &self.wire().len())
            .field("body_bytes", &self.body_bytes)
            .field("expects", &self.expects)
            .finish_non_exhaustive()
    }
}
