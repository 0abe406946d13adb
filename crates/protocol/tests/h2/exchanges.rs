//! Tests of exchanges with servers that behave correctly.

use prony_protocol::h2::ClientSettings;

use crate::bodies::h2::frames::{
    self, CONTINUATION, END_HEADERS, END_STREAM, HEADERS, NO_FLAGS, PADDED, WITH_PRIORITY, block,
    data, frame, headers,
};
use crate::client::{Client, OK, head, lines};

#[test]
fn a_client_begins_with_the_preface_and_settings() {
    let mut client = Client::fresh(ClientSettings::default());
    let expected = [
        "PREFACE",
        "SETTINGS 2=0 4=16777216 6=65536",
        "WINDOW_UPDATE 0 1073676289",
    ];
    assert_eq!(client.sent(), expected);
    assert!(!client.inner.connection.is_established());
    let smallest = ClientSettings {
        connection_window_bytes: 0,
        header_table_bytes: 7,
        ..Default::default()
    };
    let mut client = Client::fresh(smallest);
    assert_eq!(
        client.sent(),
        ["PREFACE", "SETTINGS 2=0 4=16777216 6=65536 1=7"]
    );
}

#[test]
fn a_request_need_not_wait_for_settings() {
    let mut client = Client::fresh(ClientSettings::default());
    assert_eq!(client.get(5), 1);
    assert_eq!(
        client.sent().last().map(String::as_str),
        Some("HEADERS 1 END")
    );
    let events = client.receive(&[frames::settings(&[]), headers(1, END_STREAM, OK)].concat());
    assert_eq!(events, ["settings", "5: head 200", "5: end"]);
    assert_eq!(client.sent(), ["SETTINGS ACK"]);
    assert!(client.inner.connection.is_established());
}

#[test]
fn streams_are_numbered_and_sent_together() {
    let mut client = Client::new();
    let streams = [0, 1, 2, 3].map(|tag| client.get(tag));
    assert_eq!(streams, [1, 3, 5, 7]);
    let sent = client.sent();
    assert_eq!(sent, streams.map(|stream| format!("HEADERS {stream} END")));
}

/// Description, server output on stream 1, and the expected events.
type Row = (&'static str, Vec<Vec<u8>>, &'static [&'static str]);

/// Returns a head with status 200 and without a Content-Length.
fn ok() -> Vec<u8> {
    headers(1, NO_FLAGS, OK)
}

/// Returns DATA that ends a body.
fn last(bytes: &[u8]) -> Vec<u8> {
    data(1, END_STREAM, bytes)
}

fn more(bytes: &[u8]) -> Vec<u8> {
    data(1, NO_FLAGS, bytes)
}

fn with_length(flags: u8, status: &str) -> Vec<u8> {
    headers(
        1,
        flags,
        &block(&[(":status", status), ("content-length", "3")]),
    )
}

fn bodies() -> Vec<Row> {
    const EMPTY: &[&str] = &["0: head 200", "0: end"];
    const ABC: &[&str] = &["0: head 200", "0: body abc", "0: end"];
    vec![
        ("no body", vec![headers(1, END_STREAM, OK)], EMPTY),
        ("an empty body", vec![ok(), last(b"")], EMPTY),
        ("a body", vec![ok(), more(b"ab"), last(b"c")], ABC),
        (
            "an empty last frame",
            vec![ok(), more(b"abc"), last(b"")],
            ABC,
        ),
        (
            "a length",
            vec![with_length(NO_FLAGS, "200"), more(b"ab"), last(b"c")],
            ABC,
        ),
        (
            "304 with the length of a body that is not sent",
            vec![with_length(END_STREAM, "304")],
            &["0: head 304", "0: end"],
        ),
        (
            "204 with a length, which is not allowed",
            vec![with_length(NO_FLAGS, "204"), last(b"")],
            &["0: head 204", "0: end"],
        ),
        (
            "padding",
            vec![
                ok(),
                data(1, PADDED, b"\x04ab\0\0\0\0"),
                data(1, PADDED, b"\x02\0\0"),
                data(1, PADDED | END_STREAM, b"\0c"),
            ],
            ABC,
        ),
        (
            "padding after the end",
            vec![ok(), data(1, PADDED | END_STREAM, b"\x01abc\0")],
            ABC,
        ),
    ]
}

fn heads() -> Vec<Row> {
    let padded = frame(
        HEADERS,
        END_HEADERS | PADDED | WITH_PRIORITY,
        1,
        b"\x03\0\0\0\x01\xff\x88\0\0\0",
    );
    let split = [
        frame(HEADERS, NO_FLAGS, 1, b"\x48"),
        frame(CONTINUATION, NO_FLAGS, 1, b""),
        frame(CONTINUATION, END_HEADERS, 1, b"\x03404"),
    ];
    let trailers = headers(1, END_STREAM, &block(&[("grpc-status", "0")]));
    vec![
        (
            "padding",
            vec![padded, last(b"")],
            &["0: head 200", "0: end"],
        ),
        (
            "continuations",
            vec![split.concat(), last(b"")],
            &["0: head 404", "0: end"],
        ),
        (
            "interim answers",
            vec![head(1, "100"), head(1, "103"), head(1, "204"), last(b"")],
            &["0: interim 100", "0: interim 103", "0: head 204", "0: end"],
        ),
        (
            "trailers",
            vec![ok(), more(b"a"), trailers.clone()],
            &["0: head 200", "0: body a", "0: trailers", "0: end"],
        ),
        (
            "trailers alone",
            vec![ok(), trailers],
            &["0: head 200", "0: trailers", "0: end"],
        ),
        (
            "an unknown status",
            vec![head(1, "799"), last(b"")],
            &["0: head 799", "0: end"],
        ),
    ]
}

#[test]
fn answers() {
    for (name, frames, events) in [bodies(), heads()].concat() {
        let mut client = Client::new();
        client.get(0);
        client.sent();
        assert_eq!(client.receive(&frames.concat()), lines(events), "{name}");
        assert!(client.sent().is_empty(), "{name}");
        client.check_works();
    }
}

#[test]
fn a_head_has_no_body_whatever_its_length() {
    let mut client = Client::new();
    client.start("HEAD", b"", 0);
    let block = block(&[(":status", "200"), ("content-length", "1234")]);
    let events = client.receive(&headers(1, END_STREAM, &block));
    assert_eq!(events, ["0: head 200", "0: end"]);
    client.start("HEAD", b"", 0);
    let events = client.receive(&[headers(3, NO_FLAGS, &block), data(3, END_STREAM, b"")].concat());
    assert_eq!(events, ["0: head 200", "0: end"]);
}

#[test]
fn a_tunnel_has_no_length() {
    let mut client = Client::new();
    client.start("CONNECT", b"", 0);
    let head = headers(
        1,
        NO_FLAGS,
        &block(&[(":status", "200"), ("content-length", "1")]),
    );
    let events = client.receive(&[head, data(1, END_STREAM, b"abc")].concat());
    assert_eq!(events, ["0: head 200", "0: body abc", "0: end"]);
    // The response to a rejected CONNECT is an ordinary response.
    client.start("CONNECT", b"", 1);
    let head = headers(
        3,
        NO_FLAGS,
        &block(&[(":status", "502"), ("content-length", "3")]),
    );
    let trailers = headers(3, END_STREAM, &block(&[("a", "b")]));
    let events = client.receive(&[head, data(3, NO_FLAGS, b"abc"), trailers].concat());
    assert_eq!(
        events,
        ["1: head 502", "1: body abc", "1: trailers", "1: end"]
    );
}

#[test]
fn responses_arrive_in_any_order_and_interleaved() {
    let mut client = Client::new();
    for tag in 0..3 {
        client.get(tag);
    }
    let frames = [
        headers(5, NO_FLAGS, OK),
        headers(1, NO_FLAGS, b"\x8d"),
        data(5, NO_FLAGS, b"five"),
        data(1, NO_FLAGS, b"one"),
        data(5, END_STREAM, b"!"),
        headers(3, END_STREAM, OK),
        data(1, END_STREAM, b"!"),
    ];
    let expected = [
        "2: head 200",
        "0: head 404",
        "2: body five",
        "0: body one",
        "2: body !",
        "2: end",
        "1: head 200",
        "1: end",
        "0: body !",
        "0: end",
    ];
    assert_eq!(client.receive(&frames.concat()), expected);
}

#[test]
fn irrelevant_frames_are_ignored() {
    let mut client = Client::new();
    client.get(0);
    client.sent();
    let frames = [
        frame(0xbe, 0xff, 0, b"unknown"),
        frame(10, 0, 1, &[0; 16_384]),
        frame(frames::PRIORITY, 0, 1, &[0; 5]),
        frame(frames::PRIORITY, 0, 99, &[0; 5]),
        frame(frames::PRIORITY, 0, 2, &[0; 5]),
        frame(frames::PING, frames::ACK, 0, &[0; 8]),
        frames::settings_ack(),
        // Undefined flags and the reserved bit of the stream are set.
        frame(HEADERS, 0xd2 | END_HEADERS, 1 | 1 << 31, OK),
        frame(frames::DATA, 0xf6 | END_STREAM, 1, b"x"),
    ];
    assert_eq!(
        client.receive(&frames.concat()),
        ["0: head 200", "0: body x", "0: end"]
    );
    assert!(client.sent().is_empty());
}

/// nginx ends some streams twice: with the head, and again with an empty DATA frame.
#[test]
fn an_empty_data_frame_may_end_a_stream_again() {
    let mut client = Client::new();
    client.get(0);
    client.get(1);
    client.sent();
    let twice = [
        headers(1, END_STREAM, OK),
        data(1, END_STREAM, b""),
        headers(3, END_STREAM, OK),
    ];
    let ended = ["0: head 200", "0: end", "1: head 200", "1: end"];
    assert_eq!(client.receive(&twice.concat()), ended);
    assert!(client.sent().is_empty());
}

#[test]
fn pings_are_acknowledged_with_their_payload() {
    let mut client = Client::new();
    let pings = [frames::ping(*b"first..."), frames::ping(*b"second..")].concat();
    assert!(client.receive(&pings).is_empty());
    assert_eq!(client.sent(), ["PING ACK first...", "PING ACK second.."]);
}

#[test]
fn a_connection_can_be_restarted() {
    let mut client = Client::new();
    client.get(0);
    client.start("POST", b"some", 1);
    client.receive(&headers(1, NO_FLAGS, b"\x48\x03404"));
    client.receive(&frames::goaway(3, 0));
    client.receive(b"\0\0");
    client.inner.connection.restart();
    client.inner = {
        let mut fresh = crate::bodies::h2::drive::Client::new(crate::client::SMALL);
        std::mem::swap(&mut fresh.connection, &mut client.inner.connection);
        fresh
    };
    assert_eq!(client.sent(), ["PREFACE", "SETTINGS 2=0 4=65535 6=65536"]);
    assert_eq!(client.receive(&frames::settings(&[])), ["settings"]);
    assert_eq!(client.get(0), 1);
    assert_eq!(
        client.receive(&headers(1, END_STREAM, b"\xbe")),
        ["Hpack(Index)"]
    );
}
