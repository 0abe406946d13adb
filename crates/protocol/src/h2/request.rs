//! Encoding of requests, done once before the run.

use std::fmt;

use super::frame::{self, FrameType, HEADER_BYTES, PAYLOAD_BYTES_MAX, flag};
use super::hpack::Hpack;
use crate::h1::{Expects, RequestError, RequestSpec};
use crate::request_fields::{RequestBlock, RequestScheme, expects_of, write_fields};

/// A request, encoded for any stream of any connection.
///
/// Its fields don't use the dynamic table (RFC 7541 §6.2.2), so the bytes are valid on every
/// connection. To send a request, the bytes are copied and the stream identifier is inserted.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedRequest {
    /// HEADERS, and CONTINUATION if one frame is too small, without stream identifiers.
    pub(super) frames: Vec<u8>,
    /// Size of the field list, in bytes as counted by RFC 9113 §6.5.2.
    pub(super) list_bytes: u32,
    pub(super) body: Vec<u8>,
    pub(super) expects: Expects,
}

/// Space for a dynamic table size update, in bytes. The first block after certain SETTINGS must
/// begin with such an update.
const RESIZE_BYTES: usize = 1;

/// A dynamic table size update to 0 (RFC 7541 §6.3), because this encoder has no dynamic table.
const RESIZE_TO_ZERO: u8 = 0x20;

/// Largest part of a block in one frame, in bytes.
pub(super) const FRAGMENT_BYTES: usize = PAYLOAD_BYTES_MAX - RESIZE_BYTES;

/// Returns the total size, in bytes, of the DATA frames for a body of this length.
#[must_use]
pub fn data_wire_bytes(body_bytes: u64) -> u64 {
    let data_frames = body_bytes.div_ceil(PAYLOAD_BYTES_MAX as u64);
    body_bytes + data_frames * HEADER_BYTES as u64
}

impl EncodedRequest {
    /// Encodes a request.
    ///
    /// The encoded request has the same fields as one from
    /// [`encode_request`](crate::h1::encode_request), with names in lower case and Host as
    /// `:authority`. Fields that apply only to an HTTP/1.1 connection are omitted: the standard
    /// ones, those named by Connection, and TE other than `trailers`. A target with scheme and
    /// host, as for a proxy, determines `:scheme` and `:authority`.
    ///
    /// # Errors
    ///
    /// Returns an error if a part of the request isn't valid HTTP, or if its framing contradicts
    /// the body.
    pub fn new(spec: &RequestSpec, scheme: RequestScheme) -> Result<EncodedRequest, RequestError> {
        let block = RequestBlock::new::<Hpack>(spec, scheme)?;
        Ok(EncodedRequest {
            frames: frames(&block.bytes, spec.body.is_empty()),
            list_bytes: block.list_bytes,
            body: spec.body.to_vec(),
            expects: expects_of(spec.method),
        })
    }

    /// Encodes an extended CONNECT request, which makes its stream a tunnel for another protocol (RFC
    /// 8441 §4). Its fields are those of the GET request that `spec` describes.
    ///
    /// # Errors
    ///
    /// See [`EncodedRequest::new`].
    pub fn extended_connect(
        spec: &RequestSpec,
        scheme: RequestScheme,
        protocol: &str,
    ) -> Result<EncodedRequest, RequestError> {
        let mut block = RequestBlock::default();
        block.add::<Hpack>(":method", "CONNECT");
        block.add::<Hpack>(":protocol", protocol);
        write_fields(spec, scheme, |name, value| {
            if name != ":method" {
                block.add::<Hpack>(name, value);
            }
        })?;
        Ok(EncodedRequest {
            frames: frames(&block.bytes, false),
            list_bytes: block.list_bytes,
            body: Vec::new(),
            expects: Expects::Connect,
        })
    }

    /// Returns the body of the request.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the effect of the request's method on the response's body.
    #[must_use]
    pub fn expects(&self) -> Expects {
        self.expects
    }

    /// Returns the number of bytes sent for the head, including frame headers.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of bytes sent for the request, including frame headers. The real number
    /// may be larger, because flow control may split the body into smaller frames.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.frames.len() as u64 + data_wire_bytes(self.body.len() as u64)
    }

    pub(super) fn list_bytes(&self) -> u32 {
        self.list_bytes
    }

    /// Appends the head for this stream. If `resize` is true, the block begins with a dynamic table
    /// size update to 0 (RFC 7541 §4.2).
    #[inline]
    pub(super) fn write_head(&self, stream: u32, resize: bool, out: &mut Vec<u8>) {
        let identifier = stream.to_be_bytes();
        let mut at = out.len() + HEADER_BYTES - identifier.len();
        out.extend_from_slice(&self.frames);
        while let Some(place) = out.get_mut(at..at + identifier.len()) {
            place.copy_from_slice(&identifier);
            at += HEADER_BYTES + FRAGMENT_BYTES;
        }
        if resize {
            write_resize(out, self.frames.len());
        }
    }
}

/// Inserts the dynamic table size update before the block whose frames are at the end of the
/// output.
#[cold]
fn write_resize(out: &mut Vec<u8>, frames_bytes: usize) {
    let start = out.len() - frames_bytes;
    out.insert(start + HEADER_BYTES, RESIZE_TO_ZERO);
    let &[a, b, c, ..] = &out[start..] else {
        return;
    };
    let length = u32::from_be_bytes([0, a, b, c]) + RESIZE_BYTES as u32;
    out[start..start + 3].copy_from_slice(&length.to_be_bytes()[1..]);
}

impl fmt::Debug for EncodedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncodedRequest")
            .field("head_bytes", &self.frames.len())
            .field("body_bytes", &self.body.len())
            .field("expects", &self.expects)
            .finish_non_exhaustive()
    }
}

/// Encodes a block as frames with stream identifier 0 (RFC 9113 §4.3).
pub(super) fn frames(block: &[u8], end_stream: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len() + HEADER_BYTES);
    let mut fragments = block.chunks(FRAGMENT_BYTES).peekable();
    let (mut kind, mut flags) = (
        FrameType::Headers,
        if end_stream { flag::END_STREAM } else { 0 },
    );
    while let Some(fragment) = fragments.next() {
        if fragments.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        frame::write_header(&mut out, fragment.len(), kind, flags, 0);
        out.extend_from_slice(fragment);
        (kind, flags) = (FrameType::Continuation, 0);
    }
    out
}
