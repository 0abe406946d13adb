//! Tests that the result doesn't depend on how the input is split.

use crate::bodies::h3::drive::{Step, trace, trace_again};
use crate::bodies::h3::frames::{self, data, frame, head, headers, section};
use crate::client::{CONTROL, DECODER, ENCODER, OTHER, SMALL, established};
use crate::{connection_errors, stream_errors};

/// Checks that the trace is the same for unsplit input, for input split in two with an empty piece
/// in between, and for input split into pieces of 1 to 3 bytes.
fn check(steps: &[Step]) {
    let whole = trace(SMALL, steps, std::iter::once);
    let longest = steps.iter().map(|step| match step {
        Step::Bytes(_, bytes) => bytes.len(),
        _ => 0,
    });
    let longest = longest.max().unwrap_or(0);
    let step = if longest < 300 { 1 } else { 97 };
    for at in (0..=longest).step_by(step) {
        let split = trace(SMALL, steps, |bytes| {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            [first, b"", second].into_iter()
        });
        assert_eq!(split, whole, "split at {at}: {steps:?}");
    }
    for size in 1..4 {
        let split = trace(SMALL, steps, |bytes| bytes.chunks(size));
        assert_eq!(split, whole, "in pieces of {size}: {steps:?}");
    }
    assert_eq!(trace_again(SMALL, steps), whole, "again: {steps:?}");
}

#[test]
fn valid_responses() {
    let fields = [
        (":status", "200"),
        ("content-length", "9"),
        ("server", "prony"),
        ("a-long-name-of-a-field", "value"),
    ];
    let trailers = headers(&section(&[("a", "b")]));
    let steps = [
        Step::Bytes(ENCODER, b"\x02\x3f\xe1\x1f\xd9\x03418\x41a\x01b".to_vec()),
        Step::Bytes(DECODER, b"\x03\x48\x7f\x00\x7f\xff\x01".to_vec()),
        Step::Send,
        Step::Bytes(0, [head("103"), headers(&section(&fields))].concat()),
        Step::Bytes(4, headers(b"\x02\x00\x80")),
        Step::Bytes(OTHER, frames::varint(0x21 + 0x1f * 1_000_000)),
        Step::Bytes(
            0,
            [data(b"four"), data(b""), frame(0x21, &[7; 90])].concat(),
        ),
        Step::Bytes(8, headers(b"\x03\x80\x80\x10\xe0")),
        Step::Bytes(0, [data(b"fives"), trailers].concat()),
        Step::Fin(8),
        Step::Fin(0),
        Step::Send,
        Step::Bytes(4, data(&[b'x'; 100])),
        Step::Fin(4),
        Step::Bytes(CONTROL, frame(0x7f, b"unknown")),
        Step::Bytes(CONTROL, frames::goaway(12)),
    ];
    let steps = [established(), steps.to_vec()].concat();
    check(&steps);
    let (seen, ..) = trace(SMALL, &steps, std::iter::once);
    let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
    let body = format!("1: body {}", "x".repeat(100));
    let expected = [
        "settings",
        "0: interim 103",
        "0: head 200",
        "1: head 418",
        "discard 15 H3_STREAM_CREATION_ERROR",
        "0: body four",
        "2: head 418",
        "0: body fives",
        "0: trailers",
        "2: end",
        "0: end",
        &body,
        "1: end",
        "goaway 12",
        "3: unprocessed H3_REQUEST_REJECTED",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn stream_errors() {
    for (steps, ..) in stream_errors::rows() {
        check(&[established(), steps].concat());
    }
}

#[test]
fn connection_errors() {
    for (steps, ..) in connection_errors::rows() {
        check(&[established(), steps].concat());
    }
    for (steps, ..) in connection_errors::opening_rows() {
        check(&steps);
    }
}
