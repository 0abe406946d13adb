//! Complete valid conversations, and changes to their frames.

use proptest::prelude::Rng;
use proptest::test_runner::TestRng;

use crate::bodies::h2::frames::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NO_FLAGS, PADDED,
    PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, WITH_PRIORITY, block,
};

/// A frame that a server sends.
#[derive(Debug, Clone)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
    /// Length in the frame header minus the length of the payload.
    longer: i32,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Frame {
    Frame {
        kind,
        flags,
        stream,
        payload: payload.to_vec(),
        longer: 0,
    }
}

fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Frame {
    frame(HEADERS, flags | END_HEADERS, stream, &block(fields))
}

fn data(stream: u32, flags: u8, body: &[u8]) -> Frame {
    frame(DATA, flags, stream, body)
}

/// Returns a SETTINGS frame with these values.
fn settings(list: &[(u16, u32)]) -> Frame {
    frame(SETTINGS, NO_FLAGS, 0, &frames::settings(list)[9..])
}

fn goaway(last_stream: u32) -> Frame {
    frame(GOAWAY, NO_FLAGS, 0, &frames::goaway(last_stream, 0)[9..])
}

fn window_update(stream: u32, increment: u32) -> Frame {
    frame(WINDOW_UPDATE, NO_FLAGS, stream, &increment.to_be_bytes())
}

/// Returns server output for a GET on stream 1, a HEAD on 3, a POST of 70,000 bytes on 5 and a
/// CONNECT on 7.
fn conversations() -> [Vec<Frame>; 4] {
    [plain(), tables(), odd(), large()].map(|rest| [beginning(), rest].concat())
}

fn beginning() -> Vec<Frame> {
    vec![
        settings(&[(3, 100), (4, 65_535), (5, 16_384)]),
        frame(SETTINGS, ACK, 0, b""),
    ]
}

fn plain() -> Vec<Frame> {
    vec![
        head(1, NO_FLAGS, &[(":status", "200"), ("content-length", "6")]),
        data(1, NO_FLAGS, b"abc"),
        window_update(0, 10_000),
        window_update(5, 10_000),
        head(
            3,
            END_STREAM,
            &[(":status", "200"), ("content-length", "9")],
        ),
        data(1, END_STREAM, b"def"),
        head(7, NO_FLAGS, &[(":status", "200")]),
        data(7, NO_FLAGS, b"tunnel"),
        head(5, NO_FLAGS, &[(":status", "404"), ("server", "x")]),
        data(5, END_STREAM, b"not here"),
        data(7, END_STREAM, b""),
    ]
}

/// Returns a conversation with the dynamic table, split blocks and padding.
fn tables() -> Vec<Frame> {
    vec![
        frame(
            HEADERS,
            NO_FLAGS,
            1,
            b"\x3f\xe1\x0f\x48\x82\x64\x02\x40\x01a",
        ),
        frame(CONTINUATION, NO_FLAGS, 1, b"\x01b\x7e"),
        frame(CONTINUATION, END_HEADERS, 1, b"\x03abc"),
        frame(PRIORITY, NO_FLAGS, 1, &[0; 5]),
        frame(
            HEADERS,
            END_HEADERS | PADDED | WITH_PRIORITY,
            7,
            b"\x02\0\0\0\0\x01\x88\xbe\0\0",
        ),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\xc0\xbf\xbe"),
        data(1, PADDED, b"\x02abc\0\0"),
        data(7, PADDED, b"\x00abc"),
        frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            1,
            b"\x7e\x02de\x40\x84\x1c\x64\x1c\x64\x00",
        ),
        data(7, END_STREAM | PADDED, b"\x03\0\0\0"),
    ]
}

/// Returns a conversation with rare frames.
fn odd() -> Vec<Frame> {
    vec![
        head(5, NO_FLAGS, &[(":status", "100")]),
        head(1, NO_FLAGS, &[(":status", "103"), ("link", "</x>")]),
        frame(PING, NO_FLAGS, 0, b"pingpong"),
        settings(&[(1, 0), (4, 100_000), (6, 4_096), (0x99, 1)]),
        head(1, NO_FLAGS, &[(":status", "304"), ("content-length", "6")]),
        frame(0xee, 0xff, 1, b"unknown"),
        data(1, END_STREAM, b""),
        head(3, NO_FLAGS, &[(":status", "204")]),
        data(3, END_STREAM, b""),
        frame(RST_STREAM, NO_FLAGS, 7, &[0, 0, 0, 7]),
        settings(&[(4, 10), (3, 1)]),
        goaway(0x7fff_ffff),
        window_update(5, 50_000),
        goaway(5),
        head(5, END_STREAM, &[(":status", "413")]),
        frame(RST_STREAM, NO_FLAGS, 5, &[0; 4]),
        frame(PING, ACK, 0, b"pingpong"),
    ]
}

/// Returns the frames of an exchange that exhausts the flow-control windows.
fn large() -> Vec<Frame> {
    vec![
        head(1, NO_FLAGS, &[(":status", "200")]),
        data(1, NO_FLAGS, &[1; 16_384]),
        data(1, NO_FLAGS, &[1; 16_384]),
        head(7, NO_FLAGS, &[(":status", "200")]),
        data(7, NO_FLAGS, &[7; 16_384]),
        window_update(0, 0x7fff_0000),
        window_update(5, 0x7fff_0000),
        data(1, NO_FLAGS, &[1; 16_384]),
        data(1, NO_FLAGS, &[1; 16_383]),
        data(7, NO_FLAGS, &[7; 16_384]),
        data(1, END_STREAM, b""),
        goaway(3),
        goaway(1),
    ]
}

fn below(rng: &mut TestRng, end: usize) -> usize {
    rng.next_u32() as usize % end.max(1)
}

fn one_of<'a, T>(rng: &mut TestRng, list: &'a [T]) -> &'a T {
    &list[below(rng, list.len())]
}

/// Returns the bytes of a conversation after up to three changes. A change removes, duplicates,
/// swaps or modifies a frame, or inserts one from another conversation.
pub(crate) fn changed(rng: &mut TestRng) -> Vec<u8> {
    let all = conversations();
    // The last conversation is long, so it is chosen rarely.
    let at = match below(rng, 16) {
        0 => all.len() - 1,
        other => other % (all.len() - 1),
    };
    let mut list = all[at].clone();
    for _ in 0..below(rng, 4) {
        let (at, other) = (below(rng, list.len()), below(rng, list.len()));
        match below(rng, 8) {
            0 => drop(list.remove(at)),
            1 => list.insert(other, list[at].clone()),
            2 => list.swap(at, other),
            3 => {
                let from = one_of(rng, &all);
                list.insert(at, one_of(rng, from).clone());
            }
            _ => change(rng, &mut list[at]),
        }
    }
    list.iter().flat_map(bytes).collect()
}

/// Makes one random change to a frame: its type, flags, stream, length or payload.
fn change(rng: &mut TestRng, frame: &mut Frame) {
    const TELLING: &[u8] = b"\x00\x01\x02\x04\x05\x08\x20\x25\x3f\x40\x7f\x80\x88\xbe\xff";
    match below(rng, 8) {
        0 => frame.kind = below(rng, 11) as u8,
        1 | 2 => frame.flags ^= one_of(rng, &[END_STREAM, END_HEADERS, PADDED, WITH_PRIORITY]),
        3 => frame.stream = *one_of(rng, &[0, 1, 2, 3, 5, 7, 9]),
        4 => frame.longer = *one_of(rng, &[-1, 1, 16_384]),
        5 => drop(frame.payload.pop()),
        6 => frame.payload.push(*one_of(rng, TELLING)),
        _ => {
            let at = below(rng, frame.payload.len().min(20));
            if let Some(byte) = frame.payload.get_mut(at) {
                *byte = *one_of(rng, TELLING);
            }
        }
    }
}

fn bytes(frame: &Frame) -> Vec<u8> {
    let mut bytes = frames::frame(frame.kind, frame.flags, frame.stream, &frame.payload);
    let length = frame.payload.len() as i32 + frame.longer;
    bytes[..3].copy_from_slice(&length.max(0).to_be_bytes()[1..]);
    bytes
}

#[test]
fn unchanged_conversations_are_valid() {
    use crate::bodies::h2::{bytes, drive::TraceEvent};
    for conversation in conversations() {
        let bytes: Vec<u8> = conversation.iter().flat_map(self::bytes).collect();
        // The input has no SETTINGS at the start, because the conversation begins with them.
        let seen = bytes::run(&[&[0, 9, 9, 9, 9], bytes.as_slice()].concat());
        let wrong = seen.iter().find(|seen| {
            use prony_protocol::h2::ConnectionEvent;
            matches!(
                seen,
                TraceEvent::Violation(_) | TraceEvent::Event(ConnectionEvent::Broken { .. })
            )
        });
        assert_eq!(wrong, None);
        let ends = seen
            .iter()
            .filter(|seen| seen.to_string().ends_with(": end"));
        assert!(ends.count() > 0);
    }
}
