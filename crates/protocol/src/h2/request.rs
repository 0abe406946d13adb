//! Requests, written once before the run.

use std::fmt;

use super::frame::{self, FrameType, HEADER_BYTES, MAX_PAYLOAD_BYTES, flag};
use super::hpack::{FIELD_OVERHEAD_BYTES, encode_field};
use crate::h1::{
    BodyFraming, Expects, RequestError, RequestSpec, USER_AGENT, check_request, header_values,
    takes_away,
};

/// How the target is reached, for `:scheme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// In clear.
    Http,
    /// Over TLS.
    Https,
}

/// A request as it is sent on any stream of any connection.
///
/// Its fields are written without the dynamic table (RFC 7541 §6.2.2), so that the same bytes are
/// right every time. To send it is to copy them and to put the stream's identifier in.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedRequest {
    /// HEADERS, and CONTINUATION where one frame is too small, each without its identifier.
    frames: Vec<u8>,
    /// The size of the list of fields, in bytes as RFC 9113 §6.5.2 counts them.
    list_bytes: u32,
    body: Vec<u8>,
    expects: Expects,
}

/// Room for the change of the dynamic table's size that the first block after some SETTINGS begins
/// with.
const RESIZE_BYTES: usize = 1;

/// The new size 0 (RFC 7541 §6.3): this encoder has no dynamic table.
const RESIZE_TO_NOTHING: u8 = 0x20;

/// How much of a block one frame carries.
const FRAGMENT_BYTES: usize = MAX_PAYLOAD_BYTES - RESIZE_BYTES;

/// Fields that HTTP/1.1 uses for its connection and that HTTP/2 must not carry (RFC 9113 §8.2.2).
const CONNECTION_SPECIFIC: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// Bytes of DATA frames that carry a body of this length.
#[must_use]
pub fn data_wire_bytes(body_bytes: u64) -> u64 {
    let data_frames = body_bytes.div_ceil(MAX_PAYLOAD_BYTES as u64);
    body_bytes + data_frames * HEADER_BYTES as u64
}

impl EncodedRequest {
    /// Writes a request.
    ///
    /// It has the same fields that [`encode_request`](crate::h1::encode_request) writes, with names
    /// in lower case, Host as `:authority`, and without what is for HTTP/1.1 connections only:
    /// those fields, the ones that Connection names, and TE other than `trailers`. A target with
    /// scheme and host, as proxies are sent it, fills `:scheme` and `:authority`.
    ///
    /// # Errors
    ///
    /// The part of the request that would not be HTTP, or whose framing would contradict the body.
    pub fn new(spec: &RequestSpec, scheme: Scheme) -> Result<EncodedRequest, RequestError> {
        let body = check_request(spec)?;
        let mut block = Block::default();
        write_pseudo_headers(spec, scheme, &mut block);
        for (name, default) in [("user-agent", USER_AGENT), ("accept", "*/*")] {
            if header_values(spec, name).next().is_none() {
                block.add(name, default);
            }
        }
        for (name, value) in spec.headers {
            let name = name.to_ascii_lowercase();
            let value = value.trim_matches([' ', '\t']);
            let is_said = name != "host" && !takes_away(&name, value);
            if is_said && !is_for_connection(spec, &name, value) {
                block.add(&name, value);
            }
        }
        if body == BodyFraming::DefaultLength {
            block.add("content-length", &spec.body.len().to_string());
        }
        Ok(EncodedRequest {
            frames: frames(&block.bytes, spec.body.is_empty()),
            list_bytes: block.list_bytes,
            body: spec.body.to_vec(),
            expects: match spec.method {
                "HEAD" => Expects::NoBody,
                "CONNECT" => Expects::Connect,
                _ => Expects::Body,
            },
        })
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// What the method says about the answer's body.
    #[must_use]
    pub fn expects(&self) -> Expects {
        self.expects
    }

    /// The bytes that are sent for the head, with the headers of frames.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        self.frames.len()
    }

    /// The bytes that are sent for all of it, with the headers of frames; flow control may make more
    /// and smaller frames of the body.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.frames.len() as u64 + data_wire_bytes(self.body.len() as u64)
    }

    pub(super) fn list_bytes(&self) -> u32 {
        self.list_bytes
    }

    /// Appends the head for this stream. `resize`: the block begins with the size of a dynamic
    /// table of none (RFC 7541 §4.2).
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

/// Puts the change of the table's size in front of the block whose frames end the output.
#[cold]
fn write_resize(out: &mut Vec<u8>, frames_bytes: usize) {
    let start = out.len() - frames_bytes;
    out.insert(start + HEADER_BYTES, RESIZE_TO_NOTHING);
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

/// A block of fields under way.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    list_bytes: u32,
}

impl Block {
    fn add(&mut self, name: &str, value: &str) {
        encode_field(name, value, &mut self.bytes);
        self.list_bytes += (name.len() + value.len()) as u32 + FIELD_OVERHEAD_BYTES;
    }
}

/// The request line of HTTP/1.1 in other words (RFC 9113 §8.3.1).
fn write_pseudo_headers(spec: &RequestSpec, scheme: Scheme, block: &mut Block) {
    let scheme = match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    block.add(":method", spec.method);
    let host = header_values(spec, "host").next().unwrap_or(spec.host);
    let host = host.trim_matches([' ', '\t']);
    if spec.method == "CONNECT" {
        // It has no scheme and no path (RFC 9113 §8.5).
        block.add(":authority", spec.target);
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
            // Without who is asking, which is deprecated (RFC 3986 §3.2.1).
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            (scheme, host, path)
        }
    };
    block.add(":scheme", scheme);
    if !authority.is_empty() {
        block.add(":authority", authority);
    }
    match path {
        // The server as a whole (RFC 9110 §7.1).
        "" if spec.method == "OPTIONS" => block.add(":path", "*"),
        "" => block.add(":path", "/"),
        query if query.starts_with('?') => block.add(":path", &format!("/{query}")),
        path => block.add(":path", path),
    }
}

/// Is a field, whose name is in lower case, for an HTTP/1.1 connection only?
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

/// The frames that carry a block, with 0 for the stream (RFC 9113 §4.3).
fn frames(block: &[u8], end_stream: bool) -> Vec<u8> {
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
