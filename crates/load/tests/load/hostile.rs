//! Tests of servers that misbehave in ways that the origin doesn't. Each load must end soon, with
//! the right outcome, and within bounded memory.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use prony_record::FindingId;
use prony_record::Outcome::{self, ClosedEarly, Ok as Fine, Protocol, Reset, Timeout, Truncated};

use crate::harness::{Raw, errors, load, load_with, outcomes, read_head, until_gone};

fn check(raw: &Raw, words: &str, outcome: Outcome, reason: &str) {
    let record = load(&raw.url(), &format!("-n 6 -c 2 {words}"));
    assert_eq!(outcomes(&record), [(outcome, 6)], "{}", errors(&record));
    assert!(errors(&record).contains(reason), "{}", errors(&record));
}

/// Sends the same bytes until the client closes the connection.
fn for_ever(stream: &mut TcpStream, first: &[u8], again: &[u8]) {
    let batch = again.repeat(1 + 16_384 / again.len());
    let mut sent = stream.write_all(first);
    while sent.is_ok() {
        sent = stream.write_all(&batch);
    }
}

fn endless(first: &'static [u8], again: &'static [u8]) -> Raw {
    Raw::new(move |mut stream| {
        if read_head(&mut stream).is_some() {
            for_ever(&mut stream, first, again);
        }
    })
}

#[test]
fn one_byte_at_a_time() {
    const RESPONSE: &[u8] =
        b"HTTP/1.1 103 Hm\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: \
        chunked\r\nX: y\r\n\r\n5;q=\"1\"\r\nHello\r\n1\r\n!\r\n0\r\nT: z\r\n\r\n";
    let raw = Raw::responding(RESPONSE.chunks(1).collect());
    check(&raw, "--expect-size 6", Fine, "");
    // The server sends the same response so slowly that the request times out first.
    let raw = Raw::new(|mut stream| {
        while read_head(&mut stream).is_some() {
            for byte in RESPONSE {
                std::thread::sleep(Duration::from_millis(20));
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    check(&raw, "--timeout 150ms", Timeout, "");
}

#[test]
fn endless_responses_are_cut_off() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n";
    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(
        &endless(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        "",
        Protocol,
        "more than 32 interim",
    );
    check(
        &endless(HEAD, b"A: b\r\n"),
        "",
        Protocol,
        "head over 64 KiB",
    );
    check(&endless(b"", b"HTTP/1.1 200 O"), "", Protocol, "");
    check(
        &endless(b"HTTP/1.1 200 ", b"O"),
        "",
        Protocol,
        "head over 64 KiB",
    );
    check(&endless(CHUNKED, b";ext=1"), "", Protocol, "chunk");
    check(
        &endless(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;",
            b"a=b;",
        ),
        "",
        Protocol,
        "longer than 4 KiB",
    );
    check(&endless(CHUNKED, b"0"), "", Protocol, "");
    check(
        &endless(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"T: x\r\n",
        ),
        "",
        Protocol,
        "trailers over 64 KiB",
    );
    // Bodies may have any length, so these loads end with the request's timeout.
    check(
        &endless(CHUNKED, b"3\r\nabc\r\n"),
        "--timeout 200ms",
        Timeout,
        "",
    );
    check(
        &endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        "--timeout 200ms",
        Timeout,
        "",
    );
    check(
        &endless(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\n",
            b"x",
        ),
        "--timeout 200ms",
        Timeout,
        "",
    );
}

#[test]
fn bytes_that_are_not_http() {
    for (response, reason) in [
        (&b"ICY 200 OK\r\n\r\n"[..], "not HTTP"),
        (b"http/1.1 200 OK\r\n\r\n", "not HTTP"),
        (b"SSH-2.0-OpenSSH_9.0\r\n", "not HTTP"),
        (
            b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "empty line",
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "HTTP/2"),
        (b"HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n", "NUL"),
        (b"HTTP/1.1 200 OK\r\n\x00: a\r\n\r\n", "name"),
        (b"HTTP/1.1 200 OK\x00\r\n\r\n", "NUL"),
        (b"HTTP/1.1 200 OK\r\nA: a\rB: b\r\n\r\n", "CR"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "not a number",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "64 bits",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", "colon"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "other than chunked",
        ),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "101"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "three digits"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.x"),
    ] {
        let raw = Raw::responding(vec![response]);
        check(&raw, "", Protocol, reason);
    }
}

#[test]
fn two_responses_to_one_request() {
    const ONE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const TWO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\
        Content-Length: 2\r\n\r\nok";
    check(&Raw::responding(vec![TWO]), "", Protocol, "after the end");
    // If the two responses arrive in two pieces, the second counts as unsolicited bytes or as the
    // response to the next request: no client can distinguish these cases. In either case, all
    // requests are accounted for.
    let record = load(&Raw::responding(vec![ONE, ONE]).url(), "-n 60 -c 2");
    assert_eq!(record.totals.ok + record.totals.failed, 60);
    // The server sends two responses before any request.
    let raw = Raw::new(|mut stream| {
        let _ = stream.write_all(TWO);
        until_gone(&mut stream);
    });
    check(&raw, "", Protocol, "after the end");
}

#[test]
fn bytes_after_a_response_are_noticed_while_idle() {
    let raw = Raw::new(|mut stream| {
        while read_head(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            std::thread::sleep(Duration::from_millis(30));
            let _ = stream.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n");
        }
    });
    // At this low rate, the connection is idle for a long time after the server's second message.
    let record = load_with(&raw.url(), &["-n", "3", "-c", "1", "-r", "1"]);
    assert_eq!(outcomes(&record), [(Fine, 3)]);
    let found = record
        .findings
        .iter()
        .any(|finding| finding.id == FindingId::UnaskedBytes);
    assert!(found, "{:?}", record.findings);
}

#[test]
fn a_reset_in_mid_body() {
    let raw = Raw::new(|mut stream| {
        if read_head(&mut stream).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nsome");
            let socket = socket2::SockRef::from(&stream);
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    });
    check(&raw, "", Reset, "reset by peer");
}

#[test]
fn sides_that_are_half_closed() {
    let raw = Raw::new(|mut stream| {
        let _ = stream.shutdown(Shutdown::Write);
        until_gone(&mut stream);
    });
    check(&raw, "", ClosedEarly, "");
    let raw = Raw::new(|mut stream| {
        let _ = stream.shutdown(Shutdown::Read);
        let _ = read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        std::thread::sleep(Duration::from_millis(50));
    });
    check(&raw, "", Fine, "");
    let raw = Raw::new(|mut stream| {
        let _ = read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok");
        let _ = stream.shutdown(Shutdown::Write);
        until_gone(&mut stream);
    });
    check(&raw, "", Truncated, "in the middle of the response body");
}

#[test]
fn a_large_body_that_the_server_does_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'x'; 30 << 20]).unwrap();
    let post = [
        "-n",
        "4",
        "-c",
        "2",
        "-X",
        "POST",
        "--body-file",
        body.to_str().unwrap(),
    ];
    let loaded = |raw: &Raw, more: &[&str]| load_with(&raw.url(), &[&post[..], more].concat());
    // The server accepts the connection, but never reads from it.
    let raw = Raw::new(|stream| {
        std::thread::sleep(Duration::from_secs(1));
        drop(stream);
    });
    let record = loaded(&raw, &["--timeout", "200ms"]);
    assert_eq!(outcomes(&record), [(Timeout, 4)]);
    // The server responds immediately, and then closes the socket with unread bytes, which resets
    // the connection.
    let raw = Raw::new(|mut stream| {
        let _ = read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    });
    let record = loaded(&raw, &["--expect-status", "413"]);
    assert_eq!(outcomes(&record), [(Fine, 4)]);
    // The server closes the socket with unread bytes and without a response.
    let raw = Raw::new(|mut stream| drop(read_head(&mut stream)));
    let record = loaded(&raw, &[]);
    assert_eq!(outcomes(&record), [(Reset, 4)]);
}

#[test]
fn redirects_to_nowhere_are_not_followed() {
    let raw = Raw::responding(vec![
        b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
    ]);
    check(&raw, "", Fine, "");
}
