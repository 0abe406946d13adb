//! Tests that the result doesn't depend on how the input is split.

use prony_protocol::h1::{Expects, Limits, ResponseParser};

use crate::bodies::drive::drive;
use crate::{responses, violations};

/// Checks that the trace is the same for unsplit input, for input split in two with an empty piece
/// in between, and for input split into single bytes.
fn check(expects: Expects, bytes: &[u8]) {
    let mut parser = ResponseParser::new(Limits::default());
    let whole = drive(&mut parser, expects, [bytes]);
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        let split = drive(&mut parser, expects, [first, b"", second]);
        assert_eq!(split, whole, "split at {at}: {}", bytes.escape_ascii());
    }
    for size in 1..4 {
        let split = drive(&mut parser, expects, bytes.chunks(size));
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
    for (expects, bytes, _) in responses::ALL.concat() {
        check(expects, bytes);
    }
}

#[test]
fn violations() {
    for row in violations::ALL.concat() {
        for expects in [Expects::Body, Expects::NoBody] {
            check(expects, &violations::bytes(&row));
        }
    }
}
