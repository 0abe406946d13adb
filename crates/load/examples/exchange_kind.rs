//! A new kind of exchange: a response that is read as lines, each of which is a message with a time
//! of its own. Run it with `cargo run -p prony-load --example exchange_kind`.
//!
//! To make it a part of loads:
//!
//! 1. The kind: the code below, as `crates/load/src/exchange/lines.rs`.
//! 2. `crates/load/src/exchange/any.rs`: a variant of `RequestKind` and of `AnyKind`.
//! 3. `crates/load/src/settings/table.rs`: a row for the setting, and
//!    `crates/load/src/request/serialized.rs`, which gives requests their kind.
//! 4. `crates/load/src/engine/worker/events.rs`: what a message means, such as the time that the recorder
//!    adds. The event carries the stream, and the worker knows the intended start of its exchange.
//!
//! Carriers, transports and sockets don't change: they report a message for each one that
//! [`ExchangeKind::body`] counts, over every version of HTTP.

use prony_load::exchange::{CompleteResponse, ExchangeKind, ResponseEnd};
use prony_record::Outcome;

/// A response of lines that end with LF.
#[derive(Debug, Default)]
struct Lines {
    /// True if the last line has begun and not ended.
    is_within_line: bool,
}

impl ExchangeKind for Lines {
    fn body(&mut self, bytes: &[u8]) -> u32 {
        if let Some(last) = bytes.last() {
            self.is_within_line = *last != b'\n';
        }
        bytes.iter().filter(|byte| **byte == b'\n').count() as u32
    }

    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        // The expectations about the status come first.
        let outcome = match response.outcome {
            Outcome::Ok if self.is_within_line => Outcome::Truncated,
            outcome => outcome,
        };
        ResponseEnd::Exchange(outcome)
    }
}

fn main() {
    let response = |length| CompleteResponse {
        status: 200,
        length,
        outcome: Outcome::Ok,
        call: None,
        head: &[],
        body: &[],
    };
    let mut lines = Lines::default();
    lines.head(200);
    // The bytes may be split anywhere.
    let parts: [&[u8]; 4] = [b"first\nsec", b"ond\n", b"th", b"ird\n"];
    for (number, part) in parts.iter().enumerate() {
        println!("part {number}: {} lines complete", lines.body(part));
    }
    println!("{:?}", lines.end(response(19)));

    let mut cut = Lines::default();
    cut.head(200);
    assert_eq!(cut.body(b"only a be"), 0);
    assert_eq!(
        cut.end(response(9)),
        ResponseEnd::Exchange(Outcome::Truncated)
    );
}
