//! Encoding of requests, done once before the run.

use std::fmt;

use super::frame::{self, FrameType, HEADER_BYTES, PAYLOAD_BYTES_MAX, flag};
use super::hpack::{FIELD_OVERHEAD_BYTES, encode_field};
use crate::h1::{
    BodyFraming, Expects, RequestError, RequestSpec, USER_AGENT, check_request, header_values,
    takes_away,
};

/// Value of `:scheme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestScheme {
    /// Cleartext.
    Http,
    /// Over TLS.
    Https,
}

/// A request, encoded for any stream of any connection.
///
/// Its fields don't use the dynamic table (RFC 7541 §6.2.2), so the bytes are always valid. Sending
/// it means copying them and inserting the stream identifier.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedRequest {
    /// HEADERS, and CONTINUATION if one frame is too small, without stream identifiers.
    pub(super) frames: Vec<u8>,
    /// Size of the list of fields, in bytes as counted by RFC 9113 §6.5.2.
    pub(super) list_bytes: u32,
    pub(super) body: Vec<u8>,
    pub(super) expects: Expects,
}

/// Room for a change of the dynamic table's size, with which the first block after some SETTINGS
/// begins.
const RESIZE_BYTES: usize = 1;

/// A change of the size to 0 (RFC 7541 §6.3): this encoder has no dynamic table.
const RESIZE_TO_ZERO: u8 = 0x20;

/// Largest part of a block in one frame, in bytes.
pub(super) const FRAGMENT_BYTES: usize = PAYLOAD_BYTES_MAX - RESIZE_BYTES;

/// Fields that are specific to an HTTP/1.1 connection and not allowed in HTTP/2 (RFC 9113 §8.2.2).
const CONNECTION_SPECIFIC: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// Size of the DATA frames for a body of this length, in bytes.
#[must_use]
pub fn data_wire_bytes(body_bytes: u64) -> u64 {
    let data_frames = body_bytes.div_ceil(PAYLOAD_BYTES_MAX as u64);
    body_bytes + data_frames * HEADER_BYTES as u64
}

impl EncodedRequest {
    /// Encodes a request.
    ///
    /// It has the same fields as from [`encode_request`](crate::h1::encode_request), with names in
    /// lower case, Host as `:authority`, and without the fields of an HTTP/1.1 connection: the
    /// standard ones, those named by Connection, and TE other than `trailers`. A target with scheme
    /// and host, as for a proxy, determines `:scheme` and `:authority`.
    ///
    /// # Errors
    ///
    /// Returns the part of the request that isn't valid HTTP, or whose framing contradicts the
    /// body.
    pub fn new(spec: &RequestSpec, scheme: RequestScheme) -> Result<EncodedRequest, RequestError> {
        let mut block = Block::default();
        write_fields(spec, scheme, |name, value| block.add(name, value))?;
        Ok(EncodedRequest {
            frames: frames(&block.bytes, spec.body.is_empty()),
            list_bytes: block.list_bytes,
            body: spec.body.to_vec(),
            expects: EncodedRequest::expects_of(spec.method),
        })
    }

    /// Effect of this method on the response's body.
    pub(super) fn expects_of(method: &str) -> Expects {
        match method {
            "HEAD" => Expects::NoBody,
            "CONNECT" => Expects::Connect,
            _ => Expects::Body,
        }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Effect of the method on the response's body.
    #[must_use]
    pub fn expects(&self) -> Expects {
        self.expects
    }

    /// Number of bytes sent for the head, including frame headers.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.frames.len()
    }

    /// Number of bytes sent for the request, including frame headers. Flow control may split the
    /// body into more and smaller frames.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.frames.len() as u64 + data_wire_bytes(self.body.len() as u64)
    }

    pub(super) fn list_bytes(&self) -> u32 {
        self.list_bytes
    }

    /// Appends the head for this stream. With `resize`, the block begins with a dynamic table size
    /// of 0 (RFC 7541 §4.2).
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

/// Inserts the change of the table's size before the block whose frames end the output.
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

/// A field block being encoded.
#[derive(Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) list_bytes: u32,
}

impl Block {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        encode_field(name, value, &mut self.bytes);
        self.list_bytes += (name.len() + value.len()) as u32 + FIELD_OVERHEAD_BYTES;
    }
}

/// Passes every field of a request to `add`, in order, with its name in lower case.
///
/// # Errors
///
/// See [`EncodedRequest::new`].
pub(super) fn write_fields(
    spec: &RequestSpec,
    scheme: RequestScheme,
    mut add: impl FnMut(&str, &str),
) -> Result<(), RequestError> {
    let body = check_request(spec)?;
    write_pseudo_headers(spec, scheme, &mut add);
    for (name, default) in [("user-agent", USER_AGENT), ("accept", "*/*")] {
        if header_values(spec, name).next().is_none() {
            add(name, default);
        }
    }
    for (name, value) in spec.headers {
        let name = name.to_ascii_lowercase();
        let value = value.trim_matches([' ', '\t']);
        let is_said = name != "host" && !takes_away(&name, value);
        if is_said && !is_for_connection(spec, &name, value) {
            add(&name, value);
        }
    }
    if body == BodyFraming::DefaultLength {
        add("content-length", &spec.body.len().to_string());
    }
    Ok(())
}

/// Writes the request line of HTTP/1.1 as pseudo-header fields (RFC 9113 §8.3.1).
fn write_pseudo_headers(
    spec: &RequestSpec,
    scheme: RequestScheme,
    add: &mut impl FnMut(&str, &str),
) {
    let scheme = match scheme {
        RequestScheme::Http => "http",
        RequestScheme::Https => "https",
    };
    add(":method", spec.method);
    let host = header_values(spec, "host").next().unwrap_or(spec.host);
    let host = host.trim_matches([' ', '\t']);
    if spec.method == "CONNECT" {
        // CONNECT has no scheme and no path (RFC 9113 §8.5).
        add(":authority", spec.target);
        return;
    }
    let absolute = match spec.target {
        path if path.starts_with('/') => None,
        target => target.split_once("://"),
    };
    let (scheme, authority, path) = match absolute {
        None => (scheme, host, spec.target),
        Some((scheme, rest)) => {
            let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(path_at);
            // User information is omitted because it is deprecated (RFC 3986 §3.2.1).
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            (scheme, host, path)
        }
    };
    add(":scheme", scheme);
    if !authority.is_empty() {
        add(":authority", authority);
    }
    match path {
        // The server as a whole (RFC 9110 §7.1).
        "" if spec.method == "OPTIONS" => add(":path", "*"),
        "" => add(":path", "/"),
        query if query.starts_with('?') => add(":path", &format!("/{query}")),
        path => add(":path", path),
    }
}

/// Returns true if a field, whose name is in lower case, is specific to an HTTP/1.1 connection.
fn is_for_connection(spec: &RequestSpec, name: &str, value: &str) -> bool {
    let named = || {
        header_values(spec, "connection")
            .flat_map(|options| options.split(','))
            .any(|option| option.trim_matches([' ', '\t']).eq_ignore_ascii_case(name))
    };
    match name {
        "te" => !value.eq_ignore_ascii_case("trailers"),
        _ => CONNECTION_SPECIFIC.contains(&name) || named(),
    }
}

/// Frames of a block, with stream identifier 0 (RFC 9113 §4.3).
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
