//! Tests that the result doesn't depend on how the input is split.

use crate::bodies::h2::drive::trace;
use crate::bodies::h2::frames::{self, END_STREAM, NO_FLAGS, PADDED, data, headers};
use crate::client::{OK, SMALL, head};
use crate::{connection_errors, stream_errors};

const REQUESTS: [(&str, &[u8]); 4] = [("GET", b""), ("GET", b""), ("HEAD", b""), ("POST", b"abc")];

/// Checks that the trace is the same for unsplit input, for input split in two with an empty piece
/// in between, and for input split into small pieces.
fn check(bytes: &[u8]) {
    let bytes = [&frames::settings(&[]), &frames::settings_ack(), bytes].concat();
    let whole = trace(SMALL, &REQUESTS, [bytes.as_slice()]);
    // Long frames consist mostly of body or padding, so not every position needs a test.
    let step = if bytes.len() < 1_000 { 1 } else { 977 };
    for at in (0..=bytes.len()).step_by(step) {
        let (first, second) = bytes.split_at(at);
        let split = trace(SMALL, &REQUESTS, [first, b"", second]);
        assert_eq!(split, whole, "split at {at}: {}", bytes.escape_ascii());
    }
    for size in 1..4 {
        let split = trace(SMALL, &REQUESTS, bytes.chunks(size));
        assert_eq!(
            split,
            whole,
            "in pieces of {size}: {}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn valid_responses() {
    let answers = [
        head(1, "103"),
        headers(3, NO_FLAGS, b"\x88\x40\x01a\x01b"),
        frames::frame(frames::HEADERS, END_STREAM, 5, b"\x88"),
        frames::frame(frames::CONTINUATION, NO_FLAGS, 5, b""),
        frames::frame(frames::CONTINUATION, frames::END_HEADERS, 5, b"\xbe"),
        data(3, PADDED, b"\x03abc\0\0\0"),
        frames::ping(*b"pingpong"),
        frames::frame(0xff, 0xff, 0, b"unknown"),
        frames::window_update(0, 1),
        headers(1, END_STREAM, OK),
        data(3, PADDED | END_STREAM, b"\x02d\0\0"),
        frames::rst_stream(7, 7),
        frames::goaway(7, 0),
    ];
    check(&answers.concat());
}

#[test]
fn goaway_with_unprocessed_streams() {
    check(
        &[
            frames::goaway(1, 0),
            headers(1, END_STREAM, OK),
            headers(7, NO_FLAGS, OK),
        ]
        .concat(),
    );
}

#[test]
fn stream_errors() {
    for (bytes, _, _) in stream_errors::rows() {
        check(&bytes);
    }
}

#[test]
fn connection_errors() {
    for (bytes, _, _) in connection_errors::rows() {
        check(&bytes);
    }
}

#[test]
fn other_protocols() {
    for bytes in [
        b"HTTP/1.1 400 Bad Request\r\n".as_slice(),
        b"\x15\x03\x03\0\x02\x02\x28",
        &[7; 20],
    ] {
        let whole = trace(SMALL, &REQUESTS, [bytes]);
        assert!(whole.0.len() == 1, "{:?}", whole.0);
        for size in 1..10 {
            assert_eq!(trace(SMALL, &REQUESTS, bytes.chunks(size)), whole);
        }
    }
}
