//! Prints the cost of sending one second of a load as a message: its size, the size of the same
//! distributions as HDR V2 with deflate, and the time to encode and decode it. The load is an open
//! loop with random latencies.
//!
//! `cargo run --release -p prony-record --example message_cost`

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use prony_record::{
    Delta, EncodedDelta, Exchange, LoadInfo, MeasuredPart, Nanos, Outcome, Record, Recorder,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SECOND: u64 = 1_000_000_000;
/// Length of the measured part in seconds. It follows one second of warm-up.
const SECONDS: u64 = 10;

fn main() {
    println!("| requests per second | bytes | bytes as HDR V2 | encoding | decoding and adding |");
    println!("|---|---|---|---|---|");
    for rate in [200, 2_000, 20_000] {
        let deltas = recorded(rate);
        let began = Instant::now();
        let messages: Vec<String> = deltas.iter().map(written).collect();
        let encoding = began.elapsed() / deltas.len() as u32;
        let mut sum = Delta::default();
        let began = Instant::now();
        for message in &messages {
            match serde_json::from_str::<EncodedDelta>(message) {
                Ok(encoded) => black_box(encoded.add_to(&mut sum)).unwrap_or_default(),
                Err(error) => eprintln!("the message is invalid: {error}"),
            }
        }
        let decoding = began.elapsed() / messages.len() as u32;
        let mut whole = Delta::default();
        deltas.iter().for_each(|delta| whole.merge(delta));
        assert!(sum == whole, "the decoded messages add up to the load");
        let bytes: usize = messages.iter().map(String::len).sum();
        let hdr_bytes: usize = deltas.iter().map(as_hdr).sum();
        println!(
            "| {rate} | {} | {} | {encoding:.0?} | {decoding:.0?} |",
            bytes / messages.len(),
            hdr_bytes / deltas.len(),
        );
    }
}

fn written(delta: &Delta) -> String {
    serde_json::to_string(&EncodedDelta::of(delta)).unwrap_or_default()
}

/// Returns the size of five of the eight distributions as HDR V2 with deflate, in base64. Equal
/// distributions are counted once.
fn as_hdr(delta: &Delta) -> usize {
    let record = Record::build(
        LoadInfo::default(),
        delta,
        (Nanos::ZERO, Nanos(SECOND)),
        None,
    );
    let unique: BTreeSet<String> = record.histograms.into_values().collect();
    unique.iter().map(String::len).sum()
}

/// Returns the deltas that an engine publishes each second.
fn recorded(rate: u64) -> Vec<Delta> {
    let mut random = Random(ChaCha8Rng::seed_from_u64(rate));
    let mut recorder = Recorder::new(MeasuredPart::DueFrom(Nanos(SECOND)));
    recorder.watch();
    let mut deltas = Vec::new();
    for request in 0..rate * (SECONDS + 1) {
        let intended = Nanos(request * SECOND / rate);
        let sent = intended + random.spread(5_000.0, 1.0);
        let first_byte = sent + random.spread(180_000.0, 0.5);
        let ended = first_byte + random.spread(9_000.0, 0.3);
        recorder.started();
        recorder.started_by_schedule(intended, Nanos::ZERO, sent);
        let exchange = Exchange {
            intended,
            sent,
            first_byte: Some(first_byte),
            ended,
            status: Some(200),
            bytes_in: 161,
            body_bytes_in: 13,
            bytes_out: 73,
            is_settling: false,
            entry: 0,
        };
        recorder.ended(&exchange, Outcome::Ok);
        if (request + 1) % rate == 0 && request > rate {
            recorder.passed(Nanos((request + 1) * SECOND / rate));
            let mut delta = Box::default();
            recorder.hand_over(&mut delta);
            deltas.push(*delta);
        }
    }
    deltas
}

/// Generator of random numbers with a fixed seed.
struct Random(ChaCha8Rng);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Returns a random time whose distribution is approximately lognormal: the exponential of an
    /// approximately normal number.
    fn spread(&mut self, median_ns: f64, sigma: f64) -> Nanos {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        Nanos((median_ns * (sigma * normal).exp()) as u64)
    }
}
