//! HTTP/2 as bytes: frames and fields, written according to RFC 9113 and RFC 7541.
//!
//! This module shares no code with the client under test, so the same mistake can't be in both.

/// Types of frames (RFC 9113 §6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags of frames.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;
/// Flags of a HEADERS frame that is a complete response.
pub(crate) const ALL: u8 = END_STREAM | END_HEADERS;

/// Builds frames for a stream.
pub(crate) type FrameBuilder = fn(u32) -> Vec<u8>;

/// The largest window size, and the largest stream identifier.
pub(crate) const MAX_U31: u32 = 0x7fff_ffff;

/// Settings (RFC 9113 §6.5.2).
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(crate) fn settings(list: &[(u16, u32)]) -> Vec<u8> {
    let one =
        |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
    frame(
        SETTINGS,
        0,
        0,
        &list.iter().flat_map(one).collect::<Vec<_>>(),
    )
}

pub(crate) fn data(stream: u32, flags: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    frame(DATA, flags, stream, body.as_ref())
}

pub(crate) fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, flags, stream, block)
}

pub(crate) fn rst_stream(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(crate) fn goaway(last_stream: u32, code: u32) -> Vec<u8> {
    let payload = [last_stream.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, 0, 0, &payload)
}

/// The field `:status`, indexed if it is in the static table, otherwise literal (RFC 7541 §6).
pub(crate) fn status(code: u16) -> Vec<u8> {
    let known = [200, 204, 206, 304, 400, 404, 500];
    match known.iter().position(|&known| known == code) {
        Some(place) => vec![0x88 + place as u8],
        None => [&[0x08, 3], code.to_string().as_bytes()].concat(),
    }
}

/// A literal field without Huffman coding and without indexing.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    assert!(name.len() < 127 && value.len() < 127);
    let (name_length, value_length) = ([0, name.len() as u8], [value.len() as u8]);
    [
        &name_length,
        name.as_bytes(),
        &value_length,
        value.as_bytes(),
    ]
    .concat()
}

/// Creates a field block with `:status` 200 and other fields.
pub(crate) fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = status(200);
    block.extend(fields.iter().flat_map(|(name, value)| field(name, value)));
    block
}

/// Creates a complete response: the status 200, a length, and the body in one frame.
pub(crate) fn response(stream: u32, body: &[u8]) -> Vec<u8> {
    let head = head(&[("content-length", &body.len().to_string())]);
    let head = headers(stream, END_HEADERS, &head);
    [head, data(stream, END_STREAM, body)].concat()
}

/// Creates a HEADERS frame with the status 200 and nothing else.
pub(crate) fn head_only(stream: u32) -> Vec<u8> {
    headers(stream, END_HEADERS, &status(200))
}

/// Creates half of a response: the head declares more bytes than are sent.
pub(crate) fn half(stream: u32) -> Vec<u8> {
    let head = head(&[("content-length", "1000")]);
    [headers(stream, END_HEADERS, &head), data(stream, 0, "some")].concat()
}

/// Creates a response with this Content-Length and this body.
pub(crate) fn with_body(stream: u32, length: &str, body: &[u8]) -> Vec<u8> {
    let head = head(&[("content-length", length)]);
    [
        headers(stream, END_HEADERS, &head),
        data(stream, END_STREAM, body),
    ]
    .concat()
}

/// Creates a response of 16 KB that expands to 47 MB of fields: one entry in the dynamic table is
/// indexed repeatedly.
pub(crate) fn hpack_bomb(stream: u32) -> Vec<u8> {
    let entry = [&[0x40, 1, b'a', 0x7f, 0xbd, 0x1d], &[b'x'; 3_900][..]].concat();
    let block = [status(200), entry, vec![0xbe; 12_000]].concat();
    headers(stream, ALL, &block)
}
