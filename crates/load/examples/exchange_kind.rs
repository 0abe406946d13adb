//! A new kind of exchange: a response that is read as a JSON text sequence (RFC 7464), each text of
//! which is a message with a time of its own. Run it with
//! `cargo run -p prony-load --example exchange_kind`.
//!
//! To make it a part of loads:
//!
//! 1. The kind: the code below, as `crates/load/src/exchange/sequence.rs`.
//! 2. `crates/load/src/exchange/any.rs`: a variant of `RequestKind` and of `AnyKind`.
//! 3. `crates/load/src/settings/table.rs`: a row for the setting, and
//!    `crates/load/src/request/serialized.rs`, which gives requests their kind.
//!
//! Carriers, transports and sockets don't change: they report the messages that
//! [`ExchangeKind::body`] counts, over every version of HTTP. The worker records their times, as it
//! does for the events of streams (`crates/load/src/engine/worker/event_times.rs`).

use prony_load::exchange::{CompleteResponse, EventCounts, ExchangeKind, ResponseEnd};
use prony_record::Outcome;

/// The byte before each text of a sequence.
const RECORD_SEPARATOR: u8 = 0x1e;

/// A response of texts, each between a record separator and a line feed.
#[derive(Debug, Default)]
struct TextSequence {
    /// True if the last text has begun and not ended.
    is_within_text: bool,
}

impl ExchangeKind for TextSequence {
    fn body(&mut self, bytes: &[u8]) -> EventCounts {
        let mut counts = EventCounts::default();
        for byte in bytes {
            match *byte {
                RECORD_SEPARATOR => self.is_within_text = true,
                b'\n' if self.is_within_text => {
                    self.is_within_text = false;
                    counts.events += 1;
                }
                _ => {}
            }
        }
        counts
    }

    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        // The expectations about the status come first.
        let outcome = match response.outcome {
            Outcome::Ok if self.is_within_text => Outcome::StoppedEarly,
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
    let mut texts = TextSequence::default();
    texts.head(200, &[]);
    // The bytes may be split anywhere.
    let parts: [&[u8]; 4] = [b"\x1e{}\n\x1e", b"[1]\n", b"\x1e2", b"\n"];
    for (number, part) in parts.iter().enumerate() {
        let counts = texts.body(part);
        println!("part {number}: {} texts complete", counts.events);
    }
    println!("{:?}", texts.end(response(12)));

    let mut cut = TextSequence::default();
    cut.head(200, &[]);
    assert_eq!(cut.body(b"\x1eonly a be"), EventCounts::default());
    assert_eq!(
        cut.end(response(10)),
        ResponseEnd::Exchange(Outcome::StoppedEarly)
    );
}
