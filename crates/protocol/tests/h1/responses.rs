//! Tests of valid responses and their events.

use prony_protocol::h1::Expects::{self, Body, Connect, NoBody};

use crate::answer;

/// The request, the bytes, and the expected trace: statuses, framing, body, end.
pub(crate) type Row = (Expects, &'static [u8], &'static str);

pub(crate) const LENGTHS: &[Row] = &[
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        r#"200 Length "hello" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        r#"200 Length "" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\ncontent-length:5\r\n\r\nhello",
        r#"200 Length "hello" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH: \t 5 \t\r\n\r\nhello",
        r#"200 Length "hello" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 005\r\n\r\nhello",
        r#"200 Length "hello" reusable"#,
    ),
    // §6.3: the same number may occur several times.
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi",
        r#"200 Length "hi" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2 ,02\r\n\r\nhi",
        r#"200 Length "hi" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nhi",
        r#"200 Length "hi" Truncated"#,
    ),
    // Bytes after the end are not consumed.
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi!",
        r#"200 Length "hi" reusable 1 left"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        r#"200 Length "hell" Truncated"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        r#"200 Length "" Truncated"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
        "Truncated",
    ),
    (Body, b"HTTP", "Truncated"),
    (Body, b"\x15", "Truncated"),
    (Body, b"", "Idle"),
];

pub(crate) const CHUNKED: &[Row] = &[
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", r#"200 Chunked "hello" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\ntransfer-encoding: ChunKed\r\n\r\n0\r\n\r\n", r#"200 Chunked "" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: ,chunked ,\r\n\r\n0\r\n\r\n", r#"200 Chunked "" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n00B\r\nbcdefghijkl\r\n000\r\n\r\n", r#"200 Chunked "abcdefghijkl" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n\r\n0\r\n\r\nxyz\r\n0\r\n\r\n", r#"200 Chunked "\r\n0\r\n\r\nxyz" reusable"#),
    // Unknown extensions are ignored (§7.1.1).
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;name=\"v\xc3\xa4lue;\";x\r\nhi\r\n0;last\r\n\r\n", r#"200 Chunked "hi" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \t; a = b\r\nhi\r\n0\r\n\r\n", r#"200 Chunked "hi" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2  \r\nhi\r\n0 \r\n\r\n", r#"200 Chunked "hi" reusable"#),
    // Trailers, which don't affect the framing (RFC 9110 §6.5.1).
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nDigest: x\r\nContent-Length: 9\r\nConnection: close\r\n more\r\n\r\n", r#"200 Chunked "hi" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\n\n", r#"200 Chunked "" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n", r#"200 Chunked "" close"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP", r#"200 Chunked "" reusable 4 left"#),
    // §8: without the last chunk or its empty line, the response is incomplete.
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", r#"200 Chunked "" Truncated"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", r#"200 Chunked "hel" Truncated"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", r#"200 Chunked "hello" Truncated"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", r#"200 Chunked "" Truncated"#),
    (Body, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhi", r#"200 Chunked "hi" Truncated"#),
];

pub(crate) const CONNECTIONS: &[Row] = &[
    (
        Body,
        b"HTTP/1.1 200 OK\r\n\r\nto the end",
        r#"200 UntilClose "to the end" Complete"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n",
        r#"200 UntilClose "" Complete"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        r#"200 Length "" close"#,
    ),
    (
        Body,
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nnew",
        "103 101 3 left",
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Upgrade, CLOSE\r\n\r\n",
        r#"200 Length "" close"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x\r\nConnection:, close,\r\n\r\n",
        r#"200 Length "" close"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, close\r\n\r\n",
        r#"200 Length "" close"#,
    ),
    (
        Body,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: closed\r\nXonnection: close\r\n\r\n",
        r#"200 Length "" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        r#"200 Length "hi" close"#,
    ),
    (
        Body,
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nhi",
        r#"200 Length "hi" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: foo , keep-alive\r\n\r\nhi",
        r#"200 Length "hi" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhi",
        r#"200 UntilClose "hi" Complete"#,
    ),
    (
        Body,
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5\r\n\r\n",
        r#"200 Length "" close"#,
    ),
    // A later minor version is treated as the latest known one (RFC 9110 §2.5).
    (
        Body,
        b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
        r#"200 Length "" reusable"#,
    ),
];

pub(crate) const BODILESS: &[Row] = &[
    (
        NoBody,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        r#"200 Empty "" reusable"#,
    ),
    (
        NoBody,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        r#"200 Empty "" reusable"#,
    ),
    (
        NoBody,
        b"HTTP/1.1 200 OK\r\n\r\n",
        r#"200 Empty "" reusable"#,
    ),
    (NoBody, b"HTTP/1.0 200 OK\r\n\r\n", r#"200 Empty "" close"#),
    (
        NoBody,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        r#"200 Empty "" reusable 5 left"#,
    ),
    (
        Body,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        r#"204 Empty "" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        r#"204 Empty "" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi",
        r#"204 Empty "" reusable 2 left"#,
    ),
    (
        Body,
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        r#"304 Empty "" reusable"#,
    ),
    (
        Body,
        b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        r#"304 Empty "" close"#,
    ),
    (
        Body,
        b"HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
        r#"205 Length "" reusable"#,
    ),
    (
        Connect,
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        r#"200 Empty "" close"#,
    ),
    (
        Connect,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
        r#"200 Empty "" close"#,
    ),
    (
        Connect,
        b"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno",
        r#"407 Length "no" reusable"#,
    ),
];

pub(crate) const HEADS: &[Row] = &[
    // §4: the reason may be empty or any text, and the space before it may be missing.
    (Body, b"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", r#"200 Length "" reusable"#),
    (Body, b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", r#"200 Length "" reusable"#),
    (Body, b"HTTP/1.1 200  \t\xff OK: x\r\nContent-Length: 0\r\n\r\n", r#"200 Length "" reusable"#),
    // RFC 9110 §15: a status may be any three digits.
    (Body, b"HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n", r#"999 Length "" reusable"#),
    (Body, b"HTTP/1.1 007 ?\r\nContent-Length: 0\r\n\r\n", r#"7 Length "" reusable"#),
    // §2.2: a lone LF ends a line.
    (Body, b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", r#"200 Length "hi" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nhi", r#"200 Length "hi" reusable"#),
    (Body, b"HTTP/1.1 200 OK\nA: b\r\nContent-Length: 2\r\n\nhi", r#"200 Length "hi" reusable"#),
    // §5.2: a folded value is accepted.
    (Body, b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\tc: d\r\n \r\nContent-Length: 0\r\n\r\n", r#"200 Length "" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nX:\r\n Content-Length: 7\r\nContent-Length: 0\r\n\r\n", r#"200 Length "" reusable"#),
    // RFC 9110 §5.5: values may be empty, and may contain bytes above 127.
    (Body, b"HTTP/1.1 200 OK\r\n!#$%&'*+-.^_`|~09azAZ:\r\nX: \xc3\xa4\xff\x80\t\"\\:\r\nContent-Length: 0\r\n\r\n", r#"200 Length "" reusable"#),
    (Body, b"HTTP/1.1 200 OK\r\nContent-Lengthy: 7\r\nContent-Lengtj: 8\r\nContent-Length: 0\r\n\r\n", r#"200 Length "" reusable"#),
];

pub(crate) const INTERIM: &[Row] = &[
    (Body, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", r#"100 200 Length "hi" reusable"#),
    (Body, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", r#"103 103 200 Length "" reusable"#),
    // §6.3: an interim response ends at its empty line and doesn't affect the final one.
    (Body, b"HTTP/1.1 199 ?\r\nContent-Length: 7\r\nConnection: close\r\n\r\nHTTP/1.1 204 \r\n\r\n", r#"199 204 Empty "" reusable"#),
    (NoBody, b"HTTP/1.1 102 Processing\n\nHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", r#"102 200 Empty "" reusable"#),
    (Body, b"HTTP/1.1 100 Continue\r\n\r\n", "100 Truncated"),
];

pub(crate) const ALL: &[&[Row]] = &[LENGTHS, CHUNKED, CONNECTIONS, BODILESS, HEADS, INTERIM];

fn check(rows: &[Row]) {
    for (expects, bytes, expected) in rows {
        assert_eq!(
            &answer(*expects, bytes).to_string(),
            expected,
            "{}",
            bytes.escape_ascii()
        );
    }
}

#[test]
fn bodies_of_a_known_length() {
    check(LENGTHS);
}

#[test]
fn bodies_in_chunks() {
    check(CHUNKED);
}

#[test]
fn connections_that_stay_open_and_that_close() {
    check(CONNECTIONS);
}

#[test]
fn responses_without_a_body() {
    check(BODILESS);
}

#[test]
fn status_lines_and_fields() {
    check(HEADS);
}

#[test]
fn interim_responses_before_the_final_one() {
    check(INTERIM);
}
