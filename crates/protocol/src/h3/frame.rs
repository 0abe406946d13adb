//! Encoding of frames (RFC 9114 §7.1 and §7.2).

use std::fmt;

use super::varint;

/// The type of a frame (RFC 9114 §7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameType {
    /// Part of a body (§7.2.1).
    Data,
    /// A field section (§7.2.2).
    Headers,
    /// Cancellation of a push (§7.2.3).
    CancelPush,
    /// Configuration of the sender (§7.2.4).
    Settings,
    /// Announcement of a response to a request that the client didn't send (§7.2.5).
    PushPromise,
    /// The sender accepts no more requests (§7.2.6).
    GoAway,
    /// Permission to push (§7.2.7).
    MaxPushId,
    /// A type that exists only in HTTP/2 (§7.2.8).
    Http2(
        /// Number of the type.
        u8,
    ),
    /// Any other type, which must be ignored (§9).
    Unknown,
}

impl FrameType {
    #[inline]
    fn of(number: u64) -> FrameType {
        match number {
            0x00 => FrameType::Data,
            0x01 => FrameType::Headers,
            0x03 => FrameType::CancelPush,
            0x04 => FrameType::Settings,
            0x05 => FrameType::PushPromise,
            0x07 => FrameType::GoAway,
            0x0d => FrameType::MaxPushId,
            0x02 | 0x06 | 0x08 | 0x09 => FrameType::Http2(number as u8),
            _ => FrameType::Unknown,
        }
    }
}

impl fmt::Display for FrameType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameType::Data => "DATA",
            FrameType::Headers => "HEADERS",
            FrameType::CancelPush => "CANCEL_PUSH",
            FrameType::Settings => "SETTINGS",
            FrameType::PushPromise => "PUSH_PROMISE",
            FrameType::GoAway => "GOAWAY",
            FrameType::MaxPushId => "MAX_PUSH_ID",
            FrameType::Http2(0x02) => "PRIORITY of HTTP/2",
            FrameType::Http2(0x06) => "PING of HTTP/2",
            FrameType::Http2(0x08) => "an HTTP/2 WINDOW_UPDATE",
            FrameType::Http2(_) => "CONTINUATION of HTTP/2",
            FrameType::Unknown => "a frame of unknown type",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameType,
    /// Length of the payload, in bytes.
    pub(super) length: u64,
}

impl FrameHeader {
    /// Parses a header at the start of the input and consumes it. If the header is incomplete,
    /// returns `None` and consumes nothing.
    #[inline]
    pub(super) fn take(input: &mut &[u8]) -> Option<FrameHeader> {
        let mut rest = *input;
        let kind = FrameType::of(varint::take(&mut rest)?);
        let length = varint::take(&mut rest)?;
        *input = rest;
        Some(FrameHeader { kind, length })
    }

    /// Parses a header whose first bytes arrived earlier and are in `kept`. If it is still
    /// incomplete, moves the input to `kept` and returns `None`.
    pub(super) fn take_split(kept: &mut Vec<u8>, input: &mut &[u8]) -> Option<FrameHeader> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            kept.push(byte);
            if let Some(header) = FrameHeader::take(&mut kept.as_slice()) {
                kept.clear();
                return Some(header);
            }
        }
        None
    }
}

/// Returns the number of a frame type that this client sends.
fn type_number(kind: FrameType) -> u64 {
    match kind {
        FrameType::Data => 0x00,
        FrameType::Headers => 0x01,
        FrameType::CancelPush => 0x03,
        FrameType::Settings => 0x04,
        FrameType::PushPromise => 0x05,
        FrameType::GoAway => 0x07,
        FrameType::MaxPushId => 0x0d,
        FrameType::Http2(number) => u64::from(number),
        // A reserved type, which receivers ignore (§7.2.8).
        FrameType::Unknown => 0x21,
    }
}

/// Appends the header of a frame whose payload the caller appends.
pub(super) fn write_header(out: &mut Vec<u8>, kind: FrameType, length: u64) {
    varint::write(type_number(kind), out);
    varint::write(length, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_parsed_as_they_are_written() {
        for byte in 0..0x40 {
            let kind = FrameType::of(byte);
            let known = kind != FrameType::Unknown;
            assert_eq!(known, byte < 10 || byte == 0x0d);
            let mut out = Vec::new();
            write_header(&mut out, kind, 1_000);
            assert!(!known || u64::from(out[0]) == byte);
            let header = FrameHeader {
                kind,
                length: 1_000,
            };
            assert_eq!(FrameHeader::take(&mut out.as_slice()), Some(header));
            let mut kept = Vec::new();
            for end in 0..out.len() - 1 {
                let mut byte = &out[end..=end];
                assert_eq!(FrameHeader::take_split(&mut kept, &mut byte), None);
            }
            let mut rest = [&out[out.len() - 1..], b"more"].concat();
            rest.push(0);
            let mut rest = rest.as_slice();
            let split = FrameHeader::take_split(&mut kept, &mut rest);
            assert_eq!((split, rest), (Some(header), &b"more\0"[..]));
        }
        assert_eq!(FrameType::of(1 << 40), FrameType::Unknown);
    }
}
