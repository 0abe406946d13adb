//! Encoding of frames (RFC 9113 §4.1 and §6).

use std::fmt;

use super::ErrorCode;

/// Size of the header of each frame, in bytes.
///
/// ```text
/// +-----------------------------------------------+
/// |                 Length (24)                   |
/// +---------------+---------------+---------------+
/// |   Type (8)    |   Flags (8)   |
/// +-+-------------+---------------+-------------------------------+
/// |R|                 Stream Identifier (31)                      |
/// +=+=============================================================+
/// |                        Payload (0...)                       ...
/// ```
pub(super) const HEADER_BYTES: usize = 9;

/// Largest payload that every peer accepts, in bytes (RFC 9113 §4.2). This client neither sends nor
/// accepts larger ones. This is also the maximum size of a TLS record, so larger frames would have
/// no advantage.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;

/// Connection preface: the first bytes that a client sends (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Largest stream identifier and largest window size: 31 bits.
pub(super) const U31_MAX: u32 = 0x7fff_ffff;

/// Flag bits. The meaning of a bit depends on the frame type.
pub(super) mod flag {
    /// Acknowledges a SETTINGS or PING frame.
    pub(crate) const ACK: u8 = 0x1;
    /// This is the last frame that the sender sends on this stream.
    pub(crate) const END_STREAM: u8 = 0x1;
    /// The field block ends with this frame.
    pub(crate) const END_HEADERS: u8 = 0x4;
    /// The payload starts with the length of the padding, which follows the content.
    pub(crate) const PADDED: u8 = 0x8;
    /// Five bytes of a deprecated priority precede the field block.
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The type of a frame (RFC 9113 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FrameType {
    /// Part of a body (§6.1).
    Data = 0,
    /// The first part of a field block (§6.2).
    Headers = 1,
    /// Priority of a stream, which is deprecated (§6.3).
    Priority = 2,
    /// Early end of a stream (§6.4).
    RstStream = 3,
    /// Configuration of the sender (§6.5).
    Settings = 4,
    /// Announcement of a response to a request that the client didn't send (§6.6).
    PushPromise = 5,
    /// Liveness check (§6.7).
    Ping = 6,
    /// The sender accepts no more streams (§6.8).
    GoAway = 7,
    /// Enlarges a send window (§6.9).
    WindowUpdate = 8,
    /// A subsequent part of a field block (§6.10).
    Continuation = 9,
    /// Any other type, which must be ignored (§4.1).
    Unknown = 255,
}

impl FrameType {
    const KNOWN: [FrameType; 10] = [
        FrameType::Data,
        FrameType::Headers,
        FrameType::Priority,
        FrameType::RstStream,
        FrameType::Settings,
        FrameType::PushPromise,
        FrameType::Ping,
        FrameType::GoAway,
        FrameType::WindowUpdate,
        FrameType::Continuation,
    ];

    #[inline]
    fn of(byte: u8) -> FrameType {
        FrameType::KNOWN
            .get(usize::from(byte))
            .copied()
            .unwrap_or(FrameType::Unknown)
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameType::Data => "DATA",
            FrameType::Headers => "HEADERS",
            FrameType::Priority => "PRIORITY",
            FrameType::RstStream => "RST_STREAM",
            FrameType::Settings => "SETTINGS",
            FrameType::PushPromise => "PUSH_PROMISE",
            FrameType::Ping => "PING",
            FrameType::GoAway => "GOAWAY",
            FrameType::WindowUpdate => "WINDOW_UPDATE",
            FrameType::Continuation => "CONTINUATION",
            FrameType::Unknown => "a frame of unknown type",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Length of the payload, in bytes.
    pub(super) length: u32,
    pub(super) kind: FrameType,
    pub(super) flags: u8,
    /// The identifier of the stream, without the reserved bit; 0 for the connection.
    pub(super) stream: u32,
}

impl FrameHeader {
    #[inline]
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> FrameHeader {
        let &[a, b, c, kind, flags, ref stream @ ..] = bytes;
        FrameHeader {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: FrameType::of(kind),
            flags,
            stream: u32::from_be_bytes(*stream) & U31_MAX,
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the header of a frame whose payload the caller appends.
pub(super) fn write_header(
    out: &mut Vec<u8>,
    length: usize,
    kind: FrameType,
    flags: u8,
    stream: u32,
) {
    out.extend_from_slice(&header(length, kind, flags, stream));
}

/// Encodes the header of a frame.
pub(super) fn header(length: usize, kind: FrameType, flags: u8, stream: u32) -> [u8; HEADER_BYTES] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    [a, b, c, kind as u8, flags, d, e, f, g]
}

/// Appends a complete frame.
fn write_frame(out: &mut Vec<u8>, kind: FrameType, flags: u8, stream: u32, payload: &[u8]) {
    write_header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Appends SETTINGS (RFC 9113 §6.5), a list of identifiers and values.
pub(super) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    write_header(out, settings.len() * 6, FrameType::Settings, 0, 0);
    for (identifier, value) in settings {
        out.extend_from_slice(&identifier.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgment of SETTINGS (RFC 9113 §6.5.3).
pub(super) fn write_settings_ack(out: &mut Vec<u8>) {
    write_frame(out, FrameType::Settings, flag::ACK, 0, &[]);
}

/// Appends the acknowledgment of a PING with its payload (RFC 9113 §6.7).
pub(super) fn write_ping_ack(out: &mut Vec<u8>, opaque: &[u8]) {
    write_frame(out, FrameType::Ping, flag::ACK, 0, opaque);
}

/// Appends WINDOW_UPDATE (RFC 9113 §6.9). Stream 0 is the connection.
pub(super) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write_frame(
        out,
        FrameType::WindowUpdate,
        0,
        stream,
        &increment.to_be_bytes(),
    );
}

/// Appends RST_STREAM (RFC 9113 §6.4).
pub(super) fn write_rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_frame(out, FrameType::RstStream, 0, stream, &code.0.to_be_bytes());
}

/// Appends GOAWAY (RFC 9113 §6.8). The last stream is 0, because a server can't open streams.
pub(super) fn write_goaway(out: &mut Vec<u8>, code: ErrorCode) {
    write_header(out, 8, FrameType::GoAway, 0, 0);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&code.0.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_as_they_are_written() {
        let mut out = Vec::new();
        write_header(&mut out, 0x01_0203, FrameType::Headers, 0x25, 0x7fff_fffe);
        assert_eq!(out, b"\x01\x02\x03\x01\x25\x7f\xff\xff\xfe");
        out[5] |= 0x80;
        let header = FrameHeader::parse(out.first_chunk().expect("nine bytes"));
        let expected = FrameHeader {
            length: 0x01_0203,
            kind: FrameType::Headers,
            flags: 0x25,
            stream: 0x7fff_fffe,
        };
        assert_eq!(header, expected);
        assert!(header.has(flag::END_HEADERS) && !header.has(flag::PADDED));
    }

    #[test]
    fn types_have_their_numbers() {
        for byte in 0..=255u8 {
            let kind = FrameType::of(byte);
            assert!(if byte < 10 {
                kind as u8 == byte
            } else {
                kind == FrameType::Unknown
            });
        }
    }

    #[test]
    fn frames_of_the_connection() {
        let mut out = Vec::new();
        write_settings(&mut out, &[(2, 0), (4, 65_536)]);
        write_settings_ack(&mut out);
        write_ping_ack(&mut out, b"12345678");
        write_window_update(&mut out, 0, 1);
        write_rst_stream(&mut out, 3, ErrorCode::CANCEL);
        write_goaway(&mut out, ErrorCode::PROTOCOL_ERROR);
        let expected: &[&[u8]] = &[
            b"\0\0\x0c\x04\0\0\0\0\0\0\x02\0\0\0\0\0\x04\0\x01\0\0",
            b"\0\0\0\x04\x01\0\0\0\0",
            b"\0\0\x08\x06\x01\0\0\0\x0012345678",
            b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01",
            b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x08",
            b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\x01",
        ];
        assert_eq!(out, expected.concat());
    }
}
