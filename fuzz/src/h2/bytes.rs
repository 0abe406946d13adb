//! Arbitrary bytes from a server: the events must not depend on how the bytes are split.

use prony_protocol::h2::ClientSettings;

use super::super::drive::pieces;
use super::drive::{TraceEvent, trace, trace_again};
use super::frames;

/// Requests that are in flight when the bytes arrive: method and body.
pub const REQUESTS: [(&str, &[u8]); 4] = [
    ("GET", b""),
    ("HEAD", b""),
    ("POST", &[b'x'; 70_000]),
    ("CONNECT", b""),
];

/// Feeds arbitrary bytes to a client. The first byte determines whether SETTINGS precede the
/// others; the next four determine how the bytes are split. Returns the events.
pub fn run(data: &[u8]) -> Vec<TraceEvent> {
    let Some((&[choice, steps @ ..], rest)) = data.split_first_chunk::<5>() else {
        return Vec::new();
    };
    let mut bytes = Vec::new();
    if choice % 8 > 0 {
        bytes = frames::settings(&[]);
    }
    bytes.extend_from_slice(rest);
    let settings = ClientSettings {
        streams: REQUESTS.len() as u32,
        stream_window_bytes: 65_535,
        connection_window_bytes: 100_000,
        header_table_bytes: if choice & 0x80 == 0 { 4_096 } else { 0 },
    };
    let whole = trace(settings, &REQUESTS, [bytes.as_slice()]);
    let single = trace(settings, &REQUESTS, bytes.chunks(1));
    assert_eq!(whole, single, "byte by byte");
    let split = trace(settings, &REQUESTS, pieces(&bytes, &steps));
    assert_eq!(whole, split, "split into {steps:?}");
    let again = trace_again(settings, &REQUESTS, &bytes);
    assert_eq!(whole, again, "on a reused connection");
    frames::describe(&whole.1);
    whole.0
}
