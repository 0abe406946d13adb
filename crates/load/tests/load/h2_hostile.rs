//! Tests of HTTP/2 servers that break the protocol. The load must report each violation by name,
//! and send its error code to the server.

use prony_record::Outcome::{self, Protocol};

use crate::h2_frames::*;
use crate::h2_server::{Scripted, expect, expect_all, load_h2};
use crate::harness::{Raw, until_gone};

/// The frames of a server, the violation in the report, and the error code that the server
/// receives.
type Row = (FrameBuilder, &'static str, u32);

/// Error codes (RFC 9113 §7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Asserts that the client sent this error code each time. The last one may be missing, because the
/// load may have ended first.
fn expect_codes(given: &[u32], code: u32, reason: &str) {
    assert!(!given.is_empty(), "{reason}");
    assert!(given.iter().all(|&it| it == code), "{reason}: {given:?}");
}

/// Maximum number of loads before the test fails because the server received no error code. A
/// server that has no core for 10 ms finds the connection reset, so the code is lost.
const ATTEMPTS_MAX: u32 = 20;

/// Checks a connection error: all requests of the connection fail, and GOAWAY has the code.
fn check_connection(
    reply: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static,
    reason: &str,
    code: u32,
) {
    let server = Scripted::sending_once(reply);
    for _ in 0..ATTEMPTS_MAX {
        let record = server.load("-n 6 -c 2 --streams 3");
        expect_all(&record, Protocol, reason);
        if !server.seen().goaways.is_empty() {
            break;
        }
    }
    expect_codes(&server.seen().goaways, code, reason);
}

/// Checks a stream error: the request fails, RST_STREAM has the code, and the connection continues.
fn check_stream(words: &str, reply: FrameBuilder, reason: &str, code: u32) {
    let server = Scripted::responding(reply);
    for _ in 0..ATTEMPTS_MAX {
        let record = server.load(&format!("-n 12 -c 2 --streams 3 {words}"));
        expect_all(&record, Protocol, reason);
        assert_eq!(record.totals.connections_opened, 2, "{reason}");
        if !server.seen().resets.is_empty() {
            break;
        }
    }
    expect_codes(&server.seen().resets, code, reason);
}

/// Creates the HEADERS frame of a complete response with these fields after the status.
fn all(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    headers(stream, ALL, &head(fields))
}

#[test]
fn frames_of_invalid_length() {
    let rows: [Row; 8] = [
        (
            |_| [0, 0x40, 1, DATA, 0, 0, 0, 0, 1].into(),
            "more than 16384 bytes",
            FRAME_SIZE_ERROR,
        ),
        (|_| vec![0xff; 9], "more than 16384 bytes", FRAME_SIZE_ERROR),
        (
            |_| frame(SETTINGS, 0, 0, &[0; 5]),
            "multiple of 6",
            FRAME_SIZE_ERROR,
        ),
        (
            |_| frame(SETTINGS, ACK, 0, &[0; 6]),
            "not empty",
            FRAME_SIZE_ERROR,
        ),
        (
            |_| frame(PING, 0, 0, &[0; 7]),
            "PING with an invalid length",
            FRAME_SIZE_ERROR,
        ),
        (
            |_| frame(GOAWAY, 0, 0, &[0; 7]),
            "GOAWAY with an invalid length",
            FRAME_SIZE_ERROR,
        ),
        (
            |s| frame(RST_STREAM, 0, s, &[0; 3]),
            "RST_STREAM with an invalid length",
            FRAME_SIZE_ERROR,
        ),
        (
            |_| frame(WINDOW_UPDATE, 0, 0, &[1; 5]),
            "WINDOW_UPDATE with an invalid",
            FRAME_SIZE_ERROR,
        ),
    ];
    for (reply, reason, code) in rows {
        check_connection(reply, reason, code);
    }
}

#[test]
fn invalid_settings_and_windows() {
    let rows: [Row; 7] = [
        (
            |_| settings(&[(2, 1)]),
            "SETTINGS_ENABLE_PUSH",
            PROTOCOL_ERROR,
        ),
        (
            |_| settings(&[(4, MAX_U31 + 1)]),
            "SETTINGS_INITIAL_WINDOW_SIZE",
            FLOW_CONTROL_ERROR,
        ),
        (
            |_| settings(&[(5, 16_383)]),
            "SETTINGS_MAX_FRAME_SIZE",
            PROTOCOL_ERROR,
        ),
        (
            |_| settings(&[(5, 1 << 24)]),
            "SETTINGS_MAX_FRAME_SIZE",
            PROTOCOL_ERROR,
        ),
        (|_| window_update(0, 0), "increment of 0", PROTOCOL_ERROR),
        (
            |_| window_update(0, MAX_U31),
            "window larger",
            FLOW_CONTROL_ERROR,
        ),
        (
            |s| [window_update(s, MAX_U31 - 65_535), settings(&[(4, 65_536)])].concat(),
            "makes a window larger",
            FLOW_CONTROL_ERROR,
        ),
    ];
    for (reply, reason, code) in rows {
        check_connection(reply, reason, code);
    }
}

#[test]
fn misplaced_frames() {
    let rows: [Row; 14] = [
        // Frames on invalid streams, or on streams that the server must not use.
        (|_| data(0, 0, "x"), "DATA on stream 0", PROTOCOL_ERROR),
        (
            |_| headers(0, ALL, &status(200)),
            "HEADERS on stream 0",
            PROTOCOL_ERROR,
        ),
        (
            |_| rst_stream(0, 8),
            "RST_STREAM on stream 0",
            PROTOCOL_ERROR,
        ),
        (
            |s| frame(PING, 0, s, &[0; 8]),
            "PING on a stream",
            PROTOCOL_ERROR,
        ),
        (
            |s| frame(SETTINGS, 0, s, &[]),
            "SETTINGS on a stream",
            PROTOCOL_ERROR,
        ),
        (
            |s| frame(GOAWAY, 0, s, &[0; 8]),
            "GOAWAY on a stream",
            PROTOCOL_ERROR,
        ),
        (
            |_| all(0x1001, &[]),
            "HEADERS on a stream that was never opened",
            PROTOCOL_ERROR,
        ),
        (
            |_| data(0x1001, 0, "x"),
            "DATA on a stream that was never",
            PROTOCOL_ERROR,
        ),
        (
            |_| rst_stream(0x1001, 8),
            "RST_STREAM on a stream that was never",
            PROTOCOL_ERROR,
        ),
        (
            |_| window_update(0x1001, 1),
            "WINDOW_UPDATE on a stream that was",
            PROTOCOL_ERROR,
        ),
        (
            |_| all(2, &[]),
            "HEADERS on a stream that was never opened",
            PROTOCOL_ERROR,
        ),
        (
            |s| frame(PUSH_PROMISE, END_HEADERS, s, &[0, 0, 0, 2, 0x82]),
            "PUSH_PROMISE",
            PROTOCOL_ERROR,
        ),
        // Invalid padding.
        (
            |s| [head_only(s), data(s, PADDED, [4, 1, 2, 3])].concat(),
            "padding as long",
            PROTOCOL_ERROR,
        ),
        (
            |s| headers(s, ALL | PADDED, &[2, 0x88]),
            "padding as long",
            PROTOCOL_ERROR,
        ),
    ];
    for (reply, reason, code) in rows {
        check_connection(reply, reason, code);
    }
}

#[test]
fn a_goaway_that_lowers_the_limit_of_an_earlier_one() {
    let reply = |_| [goaway(5, 0), goaway(7, 0)].concat();
    check_connection(reply, "a later stream", PROTOCOL_ERROR);
}

#[test]
fn invalid_field_blocks() {
    let interrupted = |s: u32, by: Vec<u8>| [headers(s, 0, &status(200)), by].concat();
    check_connection(
        |s| frame(CONTINUATION, END_HEADERS, s, &status(200)),
        "CONTINUATION without",
        PROTOCOL_ERROR,
    );
    check_connection(
        move |s| interrupted(s, frame(PING, 0, 0, &[0; 8])),
        "PING within a header block",
        PROTOCOL_ERROR,
    );
    check_connection(
        move |s| interrupted(s, frame(CONTINUATION, END_HEADERS, s + 2, &[])),
        "where CONTINUATION",
        PROTOCOL_ERROR,
    );
    check_connection(
        move |s| interrupted(s, frame(0xee, 0, 0, &[])),
        "where CONTINUATION",
        PROTOCOL_ERROR,
    );
    let rows: [(&'static [u8], &str); 9] = [
        (&[0x80], "an index is not in the tables"),
        (&[0x88, 0xbe], "an index is not in the tables"),
        (&[0x88, 0, 1, b'a', 5, b'x'], "ends within a header"),
        (
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            "an integer is too large",
        ),
        // Invalid Huffman codes: padding of zero bits, the symbol EOS, and padding of more than
        // seven bits.
        (&[0x88, 0, 1, b'a', 0x81, 0], "invalid padding"),
        (&[0x88, 0, 1, b'a', 0x84, 0xff, 0xff, 0xff, 0xff], "EOS"),
        (&[0x88, 0, 1, b'a', 0x82, 0x07, 0xff], "invalid padding"),
        // A table size of 4,097 bytes, and a late table size update.
        (&[0x3f, 0xe2, 0x1f, 0x88], "larger than allowed"),
        (&[0x88, 0x20], "after a header"),
    ];
    for (block, reason) in rows {
        let in_one = move |s| headers(s, ALL, block);
        check_connection(in_one, reason, COMPRESSION_ERROR);
        // The same field block is sent with one frame per byte.
        let in_many = move |s| {
            let mut bytes = headers(s, END_STREAM, &[]);
            for byte in block {
                bytes.extend(frame(CONTINUATION, 0, s, &[*byte]));
            }
            bytes.extend(frame(CONTINUATION, END_HEADERS, s, &[]));
            bytes
        };
        check_connection(in_many, reason, COMPRESSION_ERROR);
    }
}

#[test]
fn invalid_responses() {
    let rows: [(FrameBuilder, &str); 23] = [
        (|s| headers(s, ALL, &field("a", "b")), "no :status"),
        (|s| headers(s, ALL, &[]), "no :status"),
        (|s| headers(s, ALL, &[0x88, 0x88]), ":status twice"),
        (
            |s| headers(s, ALL, &[0x08, 2, b'2', b'0']),
            "not three digits",
        ),
        (
            |s| headers(s, ALL, &[field("a", "b"), status(200)].concat()),
            "after other headers",
        ),
        (|s| headers(s, ALL, &[0x88, 0x84]), "other than :status"),
        (|s| headers(s, END_HEADERS, &status(101)), "101"),
        (|s| headers(s, ALL, &status(103)), "ends the stream"),
        (|s| all(s, &[("X-Upper", "a")]), "uppercase"),
        (
            |s| all(s, &[("connection", "close")]),
            "allowed only in HTTP/1.1",
        ),
        (
            |s| all(s, &[("transfer-encoding", "chunked")]),
            "allowed only in HTTP/1.1",
        ),
        (|s| all(s, &[("a", "b\r\nc: d")]), "control character"),
        (|s| all(s, &[("a", " b")]), "whitespace"),
        (|s| all(s, &[("content-length", "x")]), "not a number"),
        (
            |s| all(s, &[("content-length", "0"), ("content-length", "1")]),
            "two different",
        ),
        (
            |s| all(s, &[("content-length", "5")]),
            "shorter than its Content-Length",
        ),
        (
            |s| with_body(s, "5", b"four"),
            "shorter than its Content-Length",
        ),
        (
            |s| with_body(s, "3", b"four"),
            "longer than its Content-Length",
        ),
        (|s| data(s, END_STREAM, "x"), "DATA before the head"),
        (
            |s| [head_only(s), headers(s, END_HEADERS, &field("a", "b"))].concat(),
            "do not end",
        ),
        (
            |s| [head_only(s), headers(s, ALL, &status(200))].concat(),
            "in the trailers",
        ),
        (|s| window_update(s, 0), "increment of 0"),
        (
            |s| [head_only(s), window_update(s, 0)].concat(),
            "increment of 0",
        ),
    ];
    for (reply, reason) in rows {
        check_stream("", reply, reason, PROTOCOL_ERROR);
    }
    check_stream(
        "",
        |s| window_update(s, MAX_U31),
        "window larger",
        FLOW_CONTROL_ERROR,
    );
    let interims = |s| headers(s, END_HEADERS, &status(103)).repeat(33);
    check_stream("", interims, "more than 32 interim", ENHANCE_YOUR_CALM);
    check_stream(
        "",
        |s| frame(PRIORITY, 0, s, &[0; 4]),
        "PRIORITY",
        FRAME_SIZE_ERROR,
    );
}

#[test]
fn forbidden_bodies() {
    let without_length = |code| {
        move |s| {
            [
                headers(s, END_HEADERS, &status(code)),
                data(s, END_STREAM, "body"),
            ]
            .concat()
        }
    };
    for code in [204, 304] {
        let record = Scripted::responding(without_length(code)).load("-n 12 -c 2 --streams 3");
        expect_all(&record, Protocol, "longer than its Content-Length");
        assert_eq!(record.totals.connections_opened, 2);
    }
    check_stream(
        "-X HEAD",
        |s| response(s, b"body"),
        "longer than its",
        PROTOCOL_ERROR,
    );
}

#[test]
fn too_many_header_fields() {
    let many = |s| {
        headers(
            s,
            ALL,
            &[status(200), field("a", "b").repeat(2_500)].concat(),
        )
    };
    check_stream(
        "",
        many,
        "headers of more than 65536 bytes",
        ENHANCE_YOUR_CALM,
    );
    check_stream(
        "",
        hpack_bomb,
        "headers of more than 65536 bytes",
        ENHANCE_YOUR_CALM,
    );
}

#[test]
fn frames_after_the_end_of_their_stream() {
    for (behind, reason) in [
        (
            (|s| headers(s, ALL, &status(200))) as FrameBuilder,
            "HEADERS on a stream that was closed",
        ),
        (|s| data(s, 0, "x"), "DATA on a stream that was closed"),
    ] {
        let server = Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            while peer.connection_index > 0 {
                let stream = peer.request()?;
                peer.send(&response(stream, b"fine"))?;
            }
            let streams = peer.requests(3)?;
            peer.send(&[response(streams[0], b"fine"), behind(streams[0])].concat())?;
            peer.read_to_end()
        });
        // The next request may have replaced the finished one.
        let record = server.load("-n 30 -c 1 --streams 3");
        let failed = record.totals.failed;
        assert!((2..=3).contains(&failed), "{failed}");
        expect(
            &record,
            &[(Outcome::Ok, 30 - failed), (Protocol, failed)],
            reason,
        );
        expect_codes(&server.seen().goaways, STREAM_CLOSED, reason);
    }
}

#[test]
fn servers_of_other_protocols() {
    for (reply, reason) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
            "HTTP/1",
        ),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
            "HTTP/1",
        ),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "not SETTINGS"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "TLS"),
        (&[0; 64], "not SETTINGS"),
        (&[0xff; 64], "not SETTINGS"),
        (b"\0\0\0\x04\x01\0\0\0\0", "not SETTINGS"),
        (b"\0\0\x08\x06\0\0\0\0\0ping-pon", "not SETTINGS"),
        (b"\0\0\x01\x01\x05\0\0\0\x01\x88", "not SETTINGS"),
    ] {
        let raw = Raw::new(move |mut stream| {
            let _ = std::io::Write::write_all(&mut stream, reply);
            until_gone(&mut stream);
        });
        expect_all(
            &load_h2(&raw.url(), "-n 6 -c 2 --streams 3"),
            Protocol,
            reason,
        );
    }
}
