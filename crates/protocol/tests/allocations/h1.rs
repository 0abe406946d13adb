//! Tests of allocations by HTTP/1 parsers.

use prony_protocol::h1::{Expects, Limits, ResponseEvent, ResponseParser};

use crate::allocations;

const ANSWERS: [&[u8]; 4] = [
    b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 13\r\nConnection: keep-alive\r\n\r\nHello, world!",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nHello\r\n0\r\nTrailer: x\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2, 2\r\nA: b\r\n c\r\n\r\nno",
    b"HTTP/1.0 204 No Content\nConnection: keep-alive\n\n",
];

fn exchange(parser: &mut ResponseParser, answer: &[u8], piece_bytes: usize) {
    parser.start(Expects::Body);
    for mut input in answer.chunks(piece_bytes) {
        loop {
            match parser.next(&mut input) {
                Ok(ResponseEvent::NeedMore) => break,
                Ok(ResponseEvent::End { reusable }) => return assert!(reusable),
                Ok(_) => {}
                Err(violation) => panic!("{violation}"),
            }
        }
    }
    panic!("no end");
}

#[test]
fn whole_responses_allocate_nothing() {
    let mut parser = ResponseParser::new(Limits::default());
    let before = allocations();
    for answer in ANSWERS {
        exchange(&mut parser, answer, answer.len());
    }
    assert_eq!(allocations(), before);
}

#[test]
fn split_responses_allocate_once_per_connection() {
    let mut parser = ResponseParser::new(Limits::default());
    let before = allocations();
    for answer in ANSWERS {
        exchange(&mut parser, answer, 1);
    }
    assert!(allocations() > before, "the counter counts");
    let warm = allocations();
    for _ in 0..100 {
        for answer in ANSWERS {
            for piece_bytes in [1, 2, 7, 40] {
                exchange(&mut parser, answer, piece_bytes);
            }
        }
    }
    assert_eq!(allocations(), warm);
}

#[test]
fn a_violation_allocates_nothing() {
    let mut parser = ResponseParser::new(Limits::default());
    let before = allocations();
    parser.start(Expects::Body);
    let mut input: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n";
    let result = parser.next(&mut input);
    assert_eq!(allocations(), before);
    assert!(result.is_err());
}
