//! Arbitrary operations on a parser.

use prony_protocol::h1::{Eof, Expects, Limits, ResponseEvent, ResponseParser, Violation};

/// Fragments of responses that let a few bytes of input reach many states.
const PARTS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 204 \r\n",
    b"HTTP/1.1 ",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"X: y\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"3\r\nabc\r\n",
    b"3;x=y\r",
    b"0\r\n",
    b"abc",
];

/// Interprets each byte as an operation, which starts an exchange, closes it, or reads either a
/// single byte or one of [`PARTS`].
pub fn run(data: &[u8]) {
    let mut parser = ResponseParser::new(Limits::default());
    let mut failed = None;
    let mut due = false;
    let mut operations = data.iter();
    while let Some(&operation) = operations.next() {
        match operation {
            0..=9 => {
                let expects = [Expects::Body, Expects::NoBody, Expects::Connect];
                parser.start(expects[usize::from(operation) % 3]);
                assert!(!parser.started());
                (failed, due) = (None, true);
            }
            10..=12 => due &= !eof(&mut parser, failed, due),
            13..=40 => {
                let byte = operations.as_slice().first().copied().unwrap_or(operation);
                read(&mut parser, &[byte], &mut failed, &mut due);
            }
            _ => {
                let part = PARTS[usize::from(operation) % PARTS.len()];
                read(&mut parser, part, &mut failed, &mut due);
            }
        }
    }
}

/// Signals the end of the stream. Returns true if this completed the exchange.
fn eof(parser: &mut ResponseParser, failed: Option<Violation>, due: bool) -> bool {
    let eof = parser.eof();
    match eof {
        Eof::Idle => assert!(failed.is_none() && (!due || !parser.started())),
        Eof::Complete => assert!(failed.is_none() && due && parser.started()),
        Eof::Truncated => assert!(failed.is_some() || (due && parser.started())),
    }
    eof == Eof::Complete
}

fn read(
    parser: &mut ResponseParser,
    mut input: &[u8],
    failed: &mut Option<Violation>,
    due: &mut bool,
) {
    for _ in 0..2 * input.len() + 2 {
        let before = input.len();
        let result = parser.next(&mut input);
        if let Some(violation) = *failed {
            assert_eq!(result, Err(violation));
            return;
        }
        match result {
            Err(violation) => {
                assert!(*due || violation == Violation::BytesAfterEnd);
                *failed = Some(violation);
                return;
            }
            Ok(ResponseEvent::NeedMore) => return assert!(input.is_empty()),
            Ok(ResponseEvent::End { .. } | ResponseEvent::SwitchingProtocols) => {
                assert!(*due, "End without a started exchange");
                *due = false;
            }
            Ok(_) => assert!(*due && input.len() < before),
        }
    }
    panic!("no progress");
}
