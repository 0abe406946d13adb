//! Arbitrary bytes as a response: the events must not depend on how the bytes are split.

use prony_protocol::h1::{Expects, Limits, ResponseParser};

use super::drive::{drive, pieces};

/// Parses an arbitrary response. The first byte determines the kind of request and the limits; the
/// next four determine how the response is split. The other bytes are the response.
pub fn run(data: &[u8]) {
    let Some((&[choice, steps @ ..], answer)) = data.split_first_chunk::<5>() else {
        return;
    };
    let expects = match choice % 4 {
        0 => Expects::NoBody,
        1 => Expects::Connect,
        _ => Expects::Body,
    };
    let limits = if choice & 0x80 == 0 {
        Limits::default()
    } else {
        TIGHT
    };
    check(answer, &steps, expects, limits);
}

const TIGHT: Limits = Limits {
    head_bytes: 100,
    interim: 1,
    chunk_line_bytes: 8,
    trailer_bytes: 20,
};

fn check(answer: &[u8], steps: &[u8], expects: Expects, limits: Limits) {
    let mut parser = ResponseParser::new(limits);
    let whole = drive(&mut parser, expects, [answer]);
    let bytes = drive(&mut parser, expects, answer.chunks(1));
    assert_eq!(whole, bytes, "byte by byte");
    let split = drive(&mut parser, expects, pieces(answer, steps));
    assert_eq!(whole, split, "split into {steps:?}");
    let again = drive(&mut parser, expects, [answer]);
    assert_eq!(whole, again, "a reused parser must give the same trace");
}
