//! Tests of connection errors: the violation, and the code in GOAWAY.

use crate::bodies::h2::frames::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NO_FLAGS, PADDED,
    PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, WITH_PRIORITY, data, frame,
    headers, settings, window_update,
};
use crate::client::{Client, OK, SMALL, lines};

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;

pub(crate) type Row = (Vec<u8>, &'static str, u32);

/// Returns server output on an established connection, with a GET in flight on stream 1 and another
/// on stream 3.
pub(crate) fn rows() -> Vec<Row> {
    [
        lengths(),
        settings_rows(),
        streams(),
        blocks(),
        coding(),
        windows(),
    ]
    .concat()
}

fn lengths() -> Vec<Row> {
    let long = [0x00, 0x40, 0x01, 0xbe, 0, 0, 0, 0, 0].to_vec();
    vec![
        (
            long,
            "FrameTooLong { limit_bytes: 16384 }",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(PING, 0, 0, &[0; 7]),
            "FrameLength(Ping)",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(RST_STREAM, 0, 1, &[0; 5]),
            "FrameLength(RstStream)",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(GOAWAY, 0, 0, &[0; 7]),
            "FrameLength(GoAway)",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
            "FrameLength(WindowUpdate)",
            FRAME_SIZE_ERROR,
        ),
        // PRIORITY with a wrong length on a stream that isn't open. This can't be reported as a
        // stream error.
        (
            frame(PRIORITY, 0, 2, &[0; 4]),
            "FrameLength(Priority)",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(DATA, PADDED, 1, b""),
            "FrameLength(Data)",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(HEADERS, PADDED | END_HEADERS, 1, b""),
            "FrameLength(Headers)",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(HEADERS, WITH_PRIORITY | END_HEADERS, 1, b"1234"),
            "FrameLength(Headers)",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(HEADERS, PADDED | END_HEADERS, 1, b"\x02\x88"),
            "Padding",
            PROTOCOL_ERROR,
        ),
        (
            frame(
                HEADERS,
                PADDED | WITH_PRIORITY | END_HEADERS,
                1,
                b"\x02\0\0\0\0\0\x88",
            ),
            "Padding",
            PROTOCOL_ERROR,
        ),
        (frame(DATA, PADDED, 1, b"\x01"), "Padding", PROTOCOL_ERROR),
        (
            frame(DATA, PADDED, 1, b"\x04abc"),
            "Padding",
            PROTOCOL_ERROR,
        ),
    ]
}

fn settings_rows() -> Vec<Row> {
    vec![
        (
            frame(SETTINGS, 0, 0, &[0; 5]),
            "SettingsLength",
            FRAME_SIZE_ERROR,
        ),
        (
            frame(SETTINGS, ACK, 0, &[0; 6]),
            "SettingsAckLength",
            FRAME_SIZE_ERROR,
        ),
        (settings(&[(2, 1)]), "PushSetting", PROTOCOL_ERROR),
        (
            settings(&[(4, 1 << 31)]),
            "WindowSetting",
            FLOW_CONTROL_ERROR,
        ),
        (settings(&[(5, 16_383)]), "FrameSizeSetting", PROTOCOL_ERROR),
        (
            settings(&[(5, 1 << 24)]),
            "FrameSizeSetting",
            PROTOCOL_ERROR,
        ),
        (
            frame(SETTINGS, 0, 1, &[]),
            "StreamNotZero(Settings)",
            PROTOCOL_ERROR,
        ),
        (
            frame(PING, 0, 1, &[0; 8]),
            "StreamNotZero(Ping)",
            PROTOCOL_ERROR,
        ),
        (
            frame(GOAWAY, 0, 1, &[0; 8]),
            "StreamNotZero(GoAway)",
            PROTOCOL_ERROR,
        ),
    ]
}

fn streams() -> Vec<Row> {
    let ended = [headers(1, END_STREAM, OK), data(1, END_STREAM, b"x")].concat();
    let twice = [headers(1, END_STREAM, OK), headers(1, END_STREAM, OK)].concat();
    let reset = [frames::rst_stream(1, 0), data(1, NO_FLAGS, b"x")].concat();
    vec![
        (data(0, 0, b"x"), "StreamZero(Data)", PROTOCOL_ERROR),
        (headers(0, 0, OK), "StreamZero(Headers)", PROTOCOL_ERROR),
        (
            frame(PRIORITY, 0, 0, &[0; 5]),
            "StreamZero(Priority)",
            PROTOCOL_ERROR,
        ),
        (
            frame(RST_STREAM, 0, 0, &[0; 4]),
            "StreamZero(RstStream)",
            PROTOCOL_ERROR,
        ),
        (
            frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x82"),
            "Push",
            PROTOCOL_ERROR,
        ),
        (headers(5, 0, OK), "IdleStream(Headers)", PROTOCOL_ERROR),
        (data(2, 0, b"x"), "IdleStream(Data)", PROTOCOL_ERROR),
        (
            window_update(4, 1),
            "IdleStream(WindowUpdate)",
            PROTOCOL_ERROR,
        ),
        (
            frames::rst_stream(7, 0),
            "IdleStream(RstStream)",
            PROTOCOL_ERROR,
        ),
        (ended, "ClosedStream(Data)", STREAM_CLOSED),
        (twice, "ClosedStream(Headers)", STREAM_CLOSED),
        (reset, "ClosedStream(Data)", STREAM_CLOSED),
        (
            [frames::goaway(3, 0), frames::goaway(5, 0)].concat(),
            "GoAwayIncreased",
            PROTOCOL_ERROR,
        ),
    ]
}

fn blocks() -> Vec<Row> {
    let begun = frame(HEADERS, NO_FLAGS, 1, b"\x88");
    let with = |next: Vec<u8>| [begun.clone(), next].concat();
    vec![
        (
            frame(CONTINUATION, END_HEADERS, 1, OK),
            "LoneContinuation",
            PROTOCOL_ERROR,
        ),
        (
            with(frame(CONTINUATION, END_HEADERS, 3, OK)),
            "BlockInterrupted(Continuation)",
            PROTOCOL_ERROR,
        ),
        (
            with(frame(CONTINUATION, END_HEADERS, 0, OK)),
            "BlockInterrupted(Continuation)",
            PROTOCOL_ERROR,
        ),
        (
            with(data(1, 0, b"x")),
            "BlockInterrupted(Data)",
            PROTOCOL_ERROR,
        ),
        (
            with(headers(1, 0, OK)),
            "BlockInterrupted(Headers)",
            PROTOCOL_ERROR,
        ),
        (
            with(frames::ping([0; 8])),
            "BlockInterrupted(Ping)",
            PROTOCOL_ERROR,
        ),
        (
            with(frame(0x99, 0, 0, b"")),
            "BlockInterrupted(Unknown)",
            PROTOCOL_ERROR,
        ),
    ]
}

fn coding() -> Vec<Row> {
    vec![
        (headers(1, 0, b"\xbe"), "Hpack(Index)", COMPRESSION_ERROR),
        (
            headers(1, 0, b"\x40\x01"),
            "Hpack(Truncated)",
            COMPRESSION_ERROR,
        ),
        (
            headers(1, 0, b"\x88\x00\x01a\x82\xff\xff"),
            "Hpack(Huffman(Padding))",
            COMPRESSION_ERROR,
        ),
        (
            headers(1, 0, b"\x88\x00\x01a\x84\xff\xff\xff\xff"),
            "Hpack(Huffman(EndOfString))",
            COMPRESSION_ERROR,
        ),
        (
            headers(1, 0, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            "Hpack(Integer)",
            COMPRESSION_ERROR,
        ),
        // A string with a length of 4 GiB.
        (
            headers(1, 0, b"\x88\x00\x7f\x80\xff\xff\xff\x0fa"),
            "Hpack(Truncated)",
            COMPRESSION_ERROR,
        ),
        (
            headers(1, 0, b"\x3f\xe2\x1f"),
            "Hpack(TableTooLarge)",
            COMPRESSION_ERROR,
        ),
        (
            headers(1, 0, b"\x88\x20"),
            "Hpack(ResizeLate)",
            COMPRESSION_ERROR,
        ),
        (
            [
                frame(HEADERS, 0, 1, b"\x40\x01"),
                frame(CONTINUATION, END_HEADERS, 1, b"a"),
            ]
            .concat(),
            "Hpack(Truncated)",
            COMPRESSION_ERROR,
        ),
    ]
}

fn windows() -> Vec<Row> {
    let most = 0x7fff_ffff - 65_535;
    let overflow = [window_update(0, most), window_update(0, 1)].concat();
    let setting = [window_update(1, most), settings(&[(4, 65_536)])].concat();
    vec![
        (window_update(0, 0), "ZeroIncrement", PROTOCOL_ERROR),
        (window_update(0, 1 << 31), "ZeroIncrement", PROTOCOL_ERROR),
        (overflow, "WindowOverflow", FLOW_CONTROL_ERROR),
        (setting, "WindowSettingOverflow", FLOW_CONTROL_ERROR),
    ]
}

#[test]
fn violations_are_named_and_reported_to_the_peer() {
    for (bytes, violation, code) in rows() {
        let mut client = Client::new();
        client.get(0);
        client.get(1);
        client.sent();
        let seen = client.receive(&bytes);
        assert_eq!(seen.last().map(String::as_str), Some(violation));
        let sent = client.sent();
        assert_eq!(
            sent.last(),
            Some(&format!("GOAWAY 0 {code}")),
            "{violation}"
        );
        assert!(client.sent().is_empty(), "GOAWAY is sent only once");
    }
}

/// Tests the detection of other protocols by the first bytes from a server.
#[test]
fn a_peer_that_does_not_begin_with_settings_speaks_another_protocol() {
    let rows: [(&[u8], &str); 8] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Http1"),
        (b"HTTP/1.0 505", "Http1"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "Tls"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "NoSettings"),
        (&frames::ping([0; 8]), "NoSettings"),
        (&frames::settings_ack(), "NoSettings"),
        (&frames::goaway(0, 0), "NoSettings"),
        (&[0xff; 9], "NoSettings"),
    ];
    for (bytes, violation) in rows {
        let mut client = Client::fresh(SMALL);
        client.get(0);
        client.sent();
        assert_eq!(client.receive(bytes), lines(&[violation]));
        assert_eq!(client.sent(), ["GOAWAY 0 1"]);
        assert!(!client.inner.connection.is_established());
    }
}

#[test]
fn requests_in_flight_end_with_a_violation() {
    let mut client = Client::new();
    client.get(0);
    client.get(1);
    client.receive(&headers(3, NO_FLAGS, OK));
    client.receive(&window_update(0, 0));
    let left: Vec<(u32, bool)> = client
        .inner
        .connection
        .unfinished()
        .map(|left| (left.tag, left.answered))
        .collect();
    assert_eq!(left, [(0, false), (1, true)]);
    assert!(client.inner.connection.is_going_away());
    client.cancel(1);
    let sent = client.sent();
    assert_eq!(sent.last().map(String::as_str), Some("GOAWAY 0 1"));
    assert_eq!(client.inner.connection.active(), 1);
}

#[test]
fn a_lowered_table_must_be_acknowledged_by_the_next_block() {
    let settings = prony_protocol::h2::ClientSettings {
        header_table_bytes: 0,
        ..SMALL
    };
    let mut client = Client::with(settings, &[]);
    client.get(0);
    assert_eq!(
        client.receive(&headers(1, NO_FLAGS, OK)),
        ["Hpack(ResizeMissing)"]
    );
    let mut client = Client::with(settings, &[]);
    client.get(0);
    client.get(1);
    assert_eq!(
        client.receive(&headers(1, NO_FLAGS, b"\x20\x88")),
        ["0: head 200"]
    );
    assert_eq!(
        client.receive(&headers(3, NO_FLAGS, b"\x88")),
        ["1: head 200"]
    );
    // A server need not obey the settings before it has acknowledged them.
    let mut client = Client::fresh(settings);
    client.receive(&frames::settings(&[]));
    client.get(0);
    assert_eq!(
        client.receive(&headers(1, NO_FLAGS, b"\x88\x40\x01a\x01b")),
        ["0: head 200"]
    );
}
