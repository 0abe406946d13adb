//! Tests of responses that aren't valid HTTP/1, and of the violations that are reported.

use prony_protocol::h1::Violation::{self, *};
use prony_protocol::h1::{Expects, Limits, ResponseParser};

use crate::answer;
use crate::bodies::drive::{ExchangeEnd, drive};

const HEAD: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Valid bytes, the invalid bytes that follow, and the expected violation.
pub(crate) type Row = (&'static str, &'static [u8], Violation);

pub(crate) const OPENINGS: &[Row] = &[
    ("", b"<html>hello</html>", NotHttp),
    ("", b"http/1.1 200 OK\r\n\r\n", NotHttp),
    ("", b" HTTP/1.1 200 OK\r\n\r\n", NotHttp),
    ("", b"HTTP 200 OK\r\n\r\n", NotHttp),
    ("", b"HTHTTP/1.1 200 OK\r\n\r\n", NotHttp),
    ("", b"ICY 200 OK\r\n\r\n", NotHttp),
    ("", b"SSH-2.0-OpenSSH_9.2\r\n", NotHttp),
    ("", b"\x00\x00\x00\x00\x00\x00", NotHttp),
    ("", b"\x15\x15", NotHttp),
    ("", b"PRI * HTTP/3", NotHttp),
    ("", b"GET / HTTP/1.1\r\n\r\n", NotHttp),
    // An alert, and a server hello.
    ("", b"\x15\x03\x01\x00\x02\x02\x16", Tls),
    ("", b"\x15\x03\x03\x00\x02\x01\x00", Tls),
    ("", b"\x16\x03\x03\x00\x7a\x02", Tls),
    // SETTINGS of 18 bytes and of 10 bytes, and a preface.
    ("", b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", Http2),
    ("", b"\x00\x00\x0a\x04\x00\x00\x00\x00\x00", Http2),
    ("", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Http2),
    ("", b"\r\nHTTP/1.1 200 OK\r\n\r\n", EmptyLineFirst),
    ("", b"\nHTTP/1.1 200 OK\r\n\r\n", EmptyLineFirst),
    ("", b"\r\n\r\n", EmptyLineFirst),
    (
        "HTTP/1.1 100 Continue\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        EmptyLineFirst,
    ),
    ("HTTP/1.1 100 Continue\r\n\r\n", b"hello", NotHttp),
];

pub(crate) const STATUS_LINES: &[Row] = &[
    ("", b"HTTP/2 200\r\n\r\n", Version),
    ("", b"HTTP/2.0 200 OK\r\n\r\n", Version),
    ("", b"HTTP/0.9 200 OK\r\n\r\n", Version),
    ("", b"HTTP/1 200 OK\r\n\r\n", Version),
    ("", b"HTTP/1.10 200 OK\r\n\r\n", Version),
    ("", b"HTTP/1.x 200 OK\r\n\r\n", Version),
    ("", b"HTTP/1.\r\n\r\n", Version),
    ("", b"HTTP/1.1\r\n\r\n", Version),
    ("", b"HTTP/1.1\t200 OK\r\n\r\n", Version),
    ("", b"HTTP/1.1 \r\n\r\n", Status),
    ("", b"HTTP/1.1 OK\r\n\r\n", Status),
    ("", b"HTTP/1.1 20\r\n\r\n", Status),
    ("", b"HTTP/1.1 20 OK\r\n\r\n", Status),
    ("", b"HTTP/1.1 2000 OK\r\n\r\n", Status),
    ("", b"HTTP/1.1 2x0 OK\r\n\r\n", Status),
    ("", b"HTTP/1.1 -20 OK\r\n\r\n", Status),
    ("", b"HTTP/1.1  200 OK\r\n\r\n", Status),
    ("", b"HTTP/1.1 200OK\r\n\r\n", Status),
    ("", b"HTTP/1.1 200\tOK\r\n\r\n", Status),
    ("", b"HTTP/1.1 200 O\x00K\r\n\r\n", Nul),
    ("", b"HTTP/1.1 200 O\rK\r\n\r\n", LoneCr),
    ("", b"HTTP/1.1 200 OK\r\r\n\r\n", LoneCr),
    ("", b"HTTP/1.1 200 O\x1bK\r\n\r\n", Control),
];

pub(crate) const FIELDS: &[Row] = &[
    (HEAD, b"Content-Length\r\n\r\n", NoColon),
    (HEAD, b"hello\r\n\r\n", NoColon),
    (HEAD, b"\x00\r\n\r\n", NoColon),
    (HEAD, b": x\r\n\r\n", EmptyName),
    (HEAD, b"A: b\r\n: x\r\n\r\n", EmptyName),
    (HEAD, b"Content-Length : 0\r\n\r\n", SpaceBeforeColon),
    (HEAD, b"A\t: 0\r\n\r\n", SpaceBeforeColon),
    (HEAD, b"A B: 0\r\n\r\n", Name),
    (HEAD, b"A(: 0\r\n\r\n", Name),
    (HEAD, b"A\x00: 0\r\n\r\n", Name),
    (HEAD, b"\xc3\xa4: 0\r\n\r\n", Name),
    (HEAD, b"\rA: 0\r\n\r\n", Name),
    (HEAD, b"A: \x00\r\n\r\n", Nul),
    (
        HEAD,
        b"A: long enough to be read by words\x00, and on\r\n\r\n",
        Nul,
    ),
    (HEAD, b"A: b\rContent-Length: 0\r\n\r\n", LoneCr),
    (HEAD, b"A: b\r\r\n\r\n", LoneCr),
    (HEAD, b"A: b\x7f\r\n\r\n", Control),
    (HEAD, b"A: \x0bb\r\n\r\n", Control),
    (HEAD, b" A: b\r\n\r\n", SpaceBeforeFields),
    (HEAD, b" \r\n\r\n", SpaceBeforeFields),
    (HEAD, b"A: b\r\n c\x00\r\n\r\n", Nul),
    (HEAD, b"A: b\r\n\x0bc\r\n\r\n", NoColon),
    (HEAD, b"Content-Length:\r\n 5\r\n\r\n", Length),
    (HEAD, b"Content-Length: 5\r\n 5\r\n\r\n", FoldedFraming),
    (
        HEAD,
        b"Transfer-Encoding: chunked\r\n\tx\r\n\r\n",
        FoldedFraming,
    ),
    (HEAD, b"Connection: keep-\r\n alive\r\n\r\n", FoldedFraming),
    (CHUNKED, b"0\r\nA\r\n\r\n", NoColon),
    (CHUNKED, b"0\r\n A: b\r\n\r\n", SpaceBeforeFields),
    (CHUNKED, b"0\r\nA: \x00\r\n\r\n", Nul),
    (CHUNKED, b"0\r\nA : b\r\n\r\n", SpaceBeforeColon),
    (CHUNKED, b"0\r\nHTTP/1.1 200 OK\r\n\r\n", NoColon),
];

pub(crate) const FRAMINGS: &[Row] = &[
    (HEAD, b"Content-Length: \r\n\r\n", Length),
    (HEAD, b"Content-Length: five\r\n\r\n", Length),
    (HEAD, b"Content-Length: +5\r\n\r\nhello", Length),
    (HEAD, b"Content-Length: -5\r\n\r\n", Length),
    (HEAD, b"Content-Length: 5 5\r\n\r\n", Length),
    (HEAD, b"Content-Length: 5.0\r\n\r\n", Length),
    (HEAD, b"Content-Length: 0x5\r\n\r\n", Length),
    (HEAD, b"Content-Length: 5,\r\n\r\n", Length),
    (HEAD, b"Content-Length: ,5\r\n\r\n", Length),
    (HEAD, b"Content-Length: 5;x\r\n\r\n", Length),
    (
        HEAD,
        b"Content-Length: 18446744073709551616\r\n\r\n",
        LengthOverflow,
    ),
    (
        HEAD,
        b"Content-Length: 99999999999999999999999999\r\n\r\n",
        LengthOverflow,
    ),
    (
        HEAD,
        b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        LengthsDiffer,
    ),
    (
        HEAD,
        b"Content-Length: 5\r\ncontent-length: x\r\n\r\n",
        Length,
    ),
    (HEAD, b"Content-Length: 5, 6\r\n\r\n", LengthsDiffer),
    (HEAD, b"Content-Length: 5, 5, 50\r\n\r\n", LengthsDiffer),
    (
        HEAD,
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        LengthAndCoding,
    ),
    (
        HEAD,
        b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
        LengthAndCoding,
    ),
    (
        "HTTP/1.0 200 OK\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n",
        CodingInHttp10,
    ),
    (
        "HTTP/1.0 200 OK\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
        CodingInHttp10,
    ),
    (HEAD, b"Transfer-Encoding: gzip\r\n\r\n", Coding),
    (HEAD, b"Transfer-Encoding: gzip, chunked\r\n\r\n", Coding),
    (
        HEAD,
        b"Transfer-Encoding: chunked, identity\r\n\r\n",
        Coding,
    ),
    (
        HEAD,
        b"Transfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n",
        Coding,
    ),
    (HEAD, b"Transfer-Encoding: chunked;q=1\r\n\r\n", Coding),
    (HEAD, b"Transfer-Encoding: xchunked\r\n\r\n", Coding),
    (HEAD, b"Transfer-Encoding: \"chunked\"\r\n\r\n", Coding),
    (HEAD, b"Transfer-Encoding:\r\n\r\n", Coding),
    (HEAD, b"Transfer-Encoding: ,\r\n\r\n", Coding),
    (
        HEAD,
        b"Transfer-Encoding: chunked, chunked\r\n\r\n",
        ChunkedTwice,
    ),
    (
        HEAD,
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        ChunkedTwice,
    ),
];

pub(crate) const CHUNKS: &[Row] = &[
    (CHUNKED, b"hello", ChunkSize),
    (CHUNKED, b"\r\n", ChunkSize),
    (CHUNKED, b" 5\r\n", ChunkSize),
    (CHUNKED, b"-5\r\n", ChunkSize),
    (CHUNKED, b"+5\r\n", ChunkSize),
    (CHUNKED, b"0x5\r\n", ChunkSize),
    (CHUNKED, b"5,5\r\n", ChunkSize),
    (CHUNKED, b"5 5\r\n", ChunkSize),
    (CHUNKED, b"5\x00\r\n", ChunkSize),
    (CHUNKED, b";x\r\n", ChunkSize),
    (CHUNKED, b"10000000000000000\r\n", ChunkSizeOverflow),
    (CHUNKED, b"ffffffffffffffff0\r\n", ChunkSizeOverflow),
    (CHUNKED, b"5;a=\x00\r\n", ChunkExtension),
    (CHUNKED, b"5;a=\x7f\r\n", ChunkExtension),
    (CHUNKED, b"5\nhello\r\n", ChunkLineEnd),
    (CHUNKED, b"5;x\nhello\r\n", ChunkLineEnd),
    (CHUNKED, b"5\rhello", ChunkLineEnd),
    (CHUNKED, b"5;x\rhello", ChunkLineEnd),
    (CHUNKED, b"0\n\n", ChunkLineEnd),
    (CHUNKED, b"5\r\nhello!\r\n", ChunkEnd),
    (CHUNKED, b"5\r\nhello\n0\r\n\r\n", ChunkEnd),
    (CHUNKED, b"5\r\nhello\r0\r\n\r\n", ChunkEnd),
    (CHUNKED, b"5\r\nhello0\r\n\r\n", ChunkEnd),
    (CHUNKED, b"6\r\nhello\r\n0\r\n\r\n", ChunkEnd),
    (CHUNKED, b"5\r\nhello\r\n\r\n", ChunkSize),
];

pub(crate) const ALL: &[&[Row]] = &[OPENINGS, STATUS_LINES, FIELDS, FRAMINGS, CHUNKS];

pub(crate) fn bytes((before, bytes, _): &Row) -> Vec<u8> {
    [before.as_bytes(), bytes].concat()
}

fn check(rows: &[Row]) {
    for row in rows {
        let bytes = bytes(row);
        let ending = answer(Expects::Body, &bytes).ending;
        assert_eq!(
            ending,
            ExchangeEnd::Violation(row.2),
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn other_protocols() {
    check(OPENINGS);
}

#[test]
fn broken_status_lines() {
    check(STATUS_LINES);
}

#[test]
fn broken_fields() {
    check(FIELDS);
}

#[test]
fn bodies_without_a_certain_end() {
    check(FRAMINGS);
}

#[test]
fn broken_chunks() {
    check(CHUNKS);
}

/// Checks that a repeated sequence of bytes causes the violation as soon as it exceeds the limit,
/// but not before.
fn check_limit(limits: Limits, before: &[u8], repeated: &[u8], violation: Violation) {
    let mut parser = ResponseParser::new(limits);
    let mut long = before.to_vec();
    for _ in 0..100_000 / repeated.len() {
        long.extend_from_slice(repeated);
    }
    let whole = drive(&mut parser, Expects::Body, [long.as_slice()]);
    assert_eq!(whole.ending, ExchangeEnd::Violation(violation));
    let split = drive(&mut parser, Expects::Body, long.chunks(7));
    assert_eq!(split, whole);
}

#[test]
fn limits_hold_for_lines_without_end_and_for_many_lines() {
    let limits = Limits {
        interim: 3,
        ..Limits::default()
    };
    let head = HeadTooLong {
        limit_bytes: 64 * 1024,
    };
    check_limit(limits, b"HTTP/1.1 200 ", b"x", head);
    check_limit(limits, HEAD.as_bytes(), b"x", head);
    check_limit(limits, HEAD.as_bytes(), b"X: y\r\n", head);
    check_limit(limits, HEAD.as_bytes(), b"X: y\n", head);
    check_limit(limits, b"HTTP/1.1 200 OK\r\nX: y\r\n", b" z\r\n", head);
    let interim = TooManyInterim { limit: 3 };
    check_limit(limits, b"", b"HTTP/1.1 100 Continue\r\n\r\n", interim);
    let line = ChunkLineTooLong { limit_bytes: 4096 };
    check_limit(limits, CHUNKED.as_bytes(), b"0", line);
    check_limit(limits, format!("{CHUNKED}5").as_bytes(), b";x=y", line);
    check_limit(limits, format!("{CHUNKED}5").as_bytes(), b" ", line);
    let trailer = TrailerTooLong {
        limit_bytes: 64 * 1024,
    };
    check_limit(
        limits,
        format!("{CHUNKED}0\r\n").as_bytes(),
        b"X: y\r\n",
        trailer,
    );
    check_limit(limits, format!("{CHUNKED}0\r\n").as_bytes(), b"x", trailer);
}

#[test]
fn a_limit_is_the_last_size_allowed() {
    let sized = |bytes: usize| {
        let frame = b"HTTP/1.1 204 \r\nX: \r\n\r\n".len();
        format!("HTTP/1.1 204 \r\nX: {}\r\n\r\n", "y".repeat(bytes - frame))
    };
    let limits = Limits {
        head_bytes: 500,
        ..Limits::default()
    };
    let mut parser = ResponseParser::new(limits);
    // The limit applies to each head separately.
    let two = format!(
        "HTTP/1.1 100 \r\nX: {}\r\n\r\n{}",
        "y".repeat(400),
        sized(500)
    );
    let trace = drive(&mut parser, Expects::Body, [two.as_bytes()]);
    assert_eq!(trace.to_string(), r#"100 204 Empty "" reusable"#);
    let trace = drive(&mut parser, Expects::Body, [sized(501).as_bytes()]);
    assert_eq!(
        trace.ending,
        ExchangeEnd::Violation(HeadTooLong { limit_bytes: 500 })
    );
}

#[test]
fn the_limit_on_a_chunk_line_applies_to_each_line() {
    let limits = Limits {
        chunk_line_bytes: 10,
        trailer_bytes: 8,
        ..Limits::default()
    };
    let mut parser = ResponseParser::new(limits);
    let mut ending = |rest: &str| {
        let answer = format!("{CHUNKED}{rest}");
        drive(&mut parser, Expects::Body, [answer.as_bytes()]).ending
    };
    let end = ExchangeEnd::End { reusable: true };
    assert_eq!(
        ending("00001;ab\r\na\r\n00001;cd\r\nb\r\n000000;e\r\n\r\n"),
        end
    );
    let line = ExchangeEnd::Violation(ChunkLineTooLong { limit_bytes: 10 });
    assert_eq!(ending("00001;abc\r\na\r\n0\r\n\r\n"), line);
    assert_eq!(ending("0\r\nA: b\r\n\r\n"), end);
    let trailer = ExchangeEnd::Violation(TrailerTooLong { limit_bytes: 8 });
    assert_eq!(ending("0\r\nA: bc\r\n\r\n"), trailer);
}

#[test]
fn messages_are_readable() {
    assert_eq!(
        HeadTooLong {
            limit_bytes: 64 * 1024
        }
        .to_string(),
        "head over 64 KiB"
    );
    assert_eq!(
        TrailerTooLong { limit_bytes: 100 }.to_string(),
        "trailers over 100 bytes"
    );
    assert_eq!(Tls.to_string(), "the server responded with TLS");
    assert_eq!(
        LengthsDiffer.to_string(),
        "two different Content-Length values"
    );
    assert_eq!(ChunkSize.to_string(), "chunk size is not hexadecimal");
}
