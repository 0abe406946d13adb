//! Measures the cost of parsing a small response: `cargo run --release -p prony-protocol --example
//! h1_cost [RESPONSES]`. Times depend on the machine; count instructions with `perf stat -e
//! instructions:u` or `valgrind --tool=callgrind`.

use std::hint::black_box;
use std::time::Instant;

use prony_protocol::h1::{Expects, Limits, ResponseEvent, ResponseParser};

/// A typical response from nginx.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\
    Date: Sun, 22 Nov 2026 01:01:29 GMT\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\
    Connection: keep-alive\r\n\r\nHello, World!";

fn main() {
    let answers = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let answers: u32 = answers.unwrap_or(10_000_000);
    let mut parser = ResponseParser::new(Limits::default());
    let clock = Instant::now();
    let mut body_bytes = 0;
    for _ in 0..answers {
        body_bytes += exchange(&mut parser, black_box(ANSWER));
    }
    let nanos = clock.elapsed().as_nanos() as f64 / f64::from(answers.max(1));
    assert_eq!(body_bytes, 13 * answers as usize);
    println!("{nanos:.1} ns per response");
}

fn exchange(parser: &mut ResponseParser, mut input: &[u8]) -> usize {
    parser.start(Expects::Body);
    loop {
        match parser.next(&mut input) {
            Ok(ResponseEvent::Head(_)) => {
                if let Some(body) = parser.rest(&mut input) {
                    return body.len();
                }
            }
            Ok(
                ResponseEvent::Body(_)
                | ResponseEvent::Interim(_)
                | ResponseEvent::SwitchingProtocols,
            ) => {}
            other => panic!("{other:?}"),
        }
    }
}
