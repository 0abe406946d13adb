//! Encoding of HTTP/2 frames for a server, and descriptions of frames for traces.

use std::fmt::Write;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const NO_FLAGS: u8 = 0;
pub const ACK: u8 = 0x1;
pub const END_STREAM: u8 = 0x1;
pub const END_HEADERS: u8 = 0x4;
pub const PADDED: u8 = 0x8;
pub const WITH_PRIORITY: u8 = 0x20;

/// Connection preface of a client (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Encodes a frame of any type.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

pub fn settings(list: &[(u16, u32)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (identifier, value) in list {
        payload.extend_from_slice(&identifier.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    frame(SETTINGS, NO_FLAGS, 0, &payload)
}

pub fn settings_ack() -> Vec<u8> {
    frame(SETTINGS, ACK, 0, &[])
}

pub fn ping(opaque: [u8; 8]) -> Vec<u8> {
    frame(PING, NO_FLAGS, 0, &opaque)
}

/// Encodes HEADERS with a complete header block. END_HEADERS is added to `flags`.
pub fn headers(stream: u32, flags: u8, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, block)
}

pub fn data(stream: u32, flags: u8, body: &[u8]) -> Vec<u8> {
    frame(DATA, flags, stream, body)
}

pub fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, NO_FLAGS, stream, &increment.to_be_bytes())
}

pub fn rst_stream(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, NO_FLAGS, stream, &code.to_be_bytes())
}

pub fn goaway(last_stream: u32, code: u32) -> Vec<u8> {
    let payload = [last_stream.to_be_bytes(), code.to_be_bytes()].concat();
    frame(GOAWAY, NO_FLAGS, 0, &payload)
}

/// Encodes fields as literals, without Huffman coding or the dynamic table.
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        string(name, &mut out);
        string(value, &mut out);
    }
    out
}

fn string(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.len();
    if rest < 127 {
        out.push(rest as u8);
    } else {
        out.push(127);
        rest -= 127;
        while rest >= 128 {
            out.push(0x80 | (rest % 128) as u8);
            rest /= 128;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(text.as_bytes());
}

/// Describes a client's output, one line per frame. Panics if the output isn't a sequence of
/// frames.
pub fn describe(mut sent: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(rest) = sent.strip_prefix(PREFACE) {
        lines.push("PREFACE".to_owned());
        sent = rest;
    }
    while !sent.is_empty() {
        let (header, rest) = sent
            .split_first_chunk::<9>()
            .expect("output must end at a frame boundary");
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let (payload, rest) = rest.split_at(length);
        lines.push(describe_frame(header[3], header[4], stream, payload));
        sent = rest;
    }
    lines
}

fn describe_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> String {
    let number = |at: usize| {
        let bytes = payload[at..].first_chunk().expect("a number");
        u32::from_be_bytes(*bytes)
    };
    let end = if flags & END_STREAM > 0 { " END" } else { "" };
    match kind {
        DATA => format!("DATA {stream} {}{end}", payload.len()),
        HEADERS | CONTINUATION => {
            let name = if kind == HEADERS {
                "HEADERS"
            } else {
                "CONTINUATION"
            };
            let more = if flags & END_HEADERS > 0 { "" } else { " more" };
            format!("{name} {stream}{end}{more}")
        }
        RST_STREAM => format!("RST_STREAM {stream} {}", number(0)),
        SETTINGS if flags == ACK => "SETTINGS ACK".to_owned(),
        SETTINGS => {
            let mut line = "SETTINGS".to_owned();
            for at in (0..payload.len()).step_by(6) {
                let identifier = u16::from_be_bytes([payload[at], payload[at + 1]]);
                let _ = write!(line, " {identifier}={}", number(at + 2));
            }
            line
        }
        PING if flags == ACK => format!("PING ACK {}", payload.escape_ascii()),
        GOAWAY => format!("GOAWAY {} {}", number(0), number(4)),
        WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {}", number(0)),
        _ => panic!("a client must not send type {kind} with flags {flags}"),
    }
}
