//! What a small answer costs the parser alone: `cargo run --release -p prony-protocol --example
//! h1_cost [ANSWERS]`. Times are of this machine; count instructions with `perf stat -e
//! instructions:u` or `valgrind --tool=callgrind`.

use std::hint::black_box;
use std::time::Instant;

use prony_protocol::h1::{Expects, KnownHead, Limits, ResponseParser};

fn main() {
    let answers = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let answers: u32 = answers.unwrap_or(10_000_000);
    // One second's answers of one server, and those of one that writes a number into each.
    for (row, different) in [("same heads", 1), ("different heads", 1000)] {
        let nanos = run(answers, &(0..different).map(answer).collect::<Vec<_>>());
        println!("{row:>16}: {nanos:.1} ns an answer");
    }
}

/// As nginx answers.
fn answer(number: u32) -> Vec<u8> {
    let seconds = number % 60;
    format!(
        "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Sun, 22 Nov 2026 01:{:02}:{seconds:02} GMT\r\n\
         Content-Type: text/plain\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nHello, World!",
        number / 60
    )
    .into_bytes()
}

fn run(answers: u32, different: &[Vec<u8>]) -> f64 {
    let mut parser = ResponseParser::new(Limits::default());
    let mut known = KnownHead::default();
    let clock = Instant::now();
    let mut body_bytes = 0;
    for bytes in different.iter().cycle().take(answers as usize) {
        parser.start(Expects::Body);
        let mut input = black_box(&bytes[..]);
        let head = parser.plain_head(&mut input, &mut known);
        let body = head.and_then(|_| parser.rest(&mut input));
        body_bytes += body.map_or(0, <[u8]>::len);
    }
    let nanos = clock.elapsed().as_nanos() as f64 / f64::from(answers.max(1));
    assert_eq!(body_bytes, 13 * answers as usize);
    nanos
}
