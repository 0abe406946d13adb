//! What a second of a load takes on its way to another machine: bytes, and the time to pack and to read
//! it, at several rates of an open loop with drawn latencies.
//!
//! `cargo run --release -p prony-record --example message_cost`

use std::hint::black_box;
use std::time::Instant;

use prony_record::{Delta, Exchange, Measured, Nanos, Outcome, Packed, Recorder};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const SECOND: u64 = 1_000_000_000;
/// Seconds that are looked at, after one of warm-up.
const SECONDS: u64 = 10;

fn main() {
    println!("| requests a second | bytes | packing | reading and adding up |");
    println!("|---|---|---|---|");
    for rate in [200, 2_000, 20_000] {
        let deltas = recorded(rate);
        let began = Instant::now();
        let messages: Vec<String> = deltas.iter().map(written).collect();
        let packing = began.elapsed() / deltas.len() as u32;
        let mut sum = Delta::default();
        let began = Instant::now();
        for message in &messages {
            match serde_json::from_str::<Packed>(message) {
                Ok(packed) => black_box(packed.add_to(&mut sum)).unwrap_or_default(),
                Err(error) => eprintln!("what was written can't be read: {error}"),
            }
        }
        let reading = began.elapsed() / messages.len() as u32;
        let mut whole = Delta::default();
        deltas.iter().for_each(|delta| whole.merge(delta));
        assert!(sum == whole, "the sum of what was read is another");
        let bytes: usize = messages.iter().map(String::len).sum();
        println!(
            "| {rate} | {} | {packing:.0?} | {reading:.0?} |",
            bytes / messages.len(),
        );
    }
}

fn written(delta: &Delta) -> String {
    serde_json::to_string(&Packed::of(delta)).unwrap_or_default()
}

/// What an engine hands over each second.
fn recorded(rate: u64) -> Vec<Delta> {
    let mut random = Random(ChaCha8Rng::seed_from_u64(rate));
    let mut recorder = Recorder::new(Measured::DueFrom(Nanos(SECOND)));
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

/// Draws numbers.
struct Random(ChaCha8Rng);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Lognormal, nearly: the exponential of something nearly normal.
    fn spread(&mut self, median_ns: f64, sigma: f64) -> Nanos {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        Nanos((median_ns * (sigma * normal).exp()) as u64)
    }
}
