//! Encoding of HTTP/3 frames for a server.

pub const DATA: u64 = 0x00;
pub const HEADERS: u64 = 0x01;
pub const CANCEL_PUSH: u64 = 0x03;
pub const SETTINGS: u64 = 0x04;
pub const PUSH_PROMISE: u64 = 0x05;
pub const GOAWAY: u64 = 0x07;
pub const MAX_PUSH_ID: u64 = 0x0d;

pub const CONTROL_STREAM: u64 = 0x00;
pub const PUSH_STREAM: u64 = 0x01;
pub const ENCODER_STREAM: u64 = 0x02;
pub const DECODER_STREAM: u64 = 0x03;

/// A field section with only `:status: 200`.
pub const OK: &[u8] = b"\x00\x00\xd9";

/// Encodes a variable-length integer (RFC 9000 §16).
pub fn varint(number: u64) -> Vec<u8> {
    match number {
        0..64 => vec![number as u8],
        64..16_384 => (number as u16 | 0x4000).to_be_bytes().to_vec(),
        16_384..0x4000_0000 => (number as u32 | 0x8000_0000).to_be_bytes().to_vec(),
        _ => (number | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

/// Encodes several variable-length integers.
pub fn varints(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| varint(number)).collect()
}

/// Encodes a frame of any type.
pub fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = varints(&[kind, payload.len() as u64]);
    out.extend_from_slice(payload);
    out
}

pub fn settings(list: &[(u64, u64)]) -> Vec<u8> {
    let numbers: Vec<u64> = list.iter().flat_map(|&(id, value)| [id, value]).collect();
    frame(SETTINGS, &varints(&numbers))
}

pub fn goaway(stream: u64) -> Vec<u8> {
    frame(GOAWAY, &varint(stream))
}

pub fn headers(section: &[u8]) -> Vec<u8> {
    frame(HEADERS, section)
}

pub fn data(body: &[u8]) -> Vec<u8> {
    frame(DATA, body)
}

/// Encodes the start of a control stream: its type and SETTINGS.
pub fn control(list: &[(u64, u64)]) -> Vec<u8> {
    [varint(CONTROL_STREAM), settings(list)].concat()
}

/// Encodes a field section of literals with literal names (RFC 9204 §4.5.6); only `:status` refers
/// to the static table. Names and values must have fewer than 134 bytes.
pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![0, 0];
    for (name, value) in fields {
        match *name {
            ":status" => out.extend_from_slice(&[0x5f, 24 - 15]),
            name if name.len() < 7 => out.push(0x20 | name.len() as u8),
            name => out.extend_from_slice(&[0x27, name.len() as u8 - 7]),
        }
        if *name != ":status" {
            out.extend_from_slice(name.as_bytes());
        }
        match value.len() {
            short @ 0..127 => out.push(short as u8),
            long => out.extend_from_slice(&[127, long as u8 - 127]),
        }
        out.extend_from_slice(value.as_bytes());
    }
    out
}

/// Encodes HEADERS with this status and no other field.
pub fn head(status: &str) -> Vec<u8> {
    headers(&section(&[(":status", status)]))
}
