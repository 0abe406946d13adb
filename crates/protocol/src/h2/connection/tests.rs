use super::*;
use crate::h1::{RequestSpec, Version};
use crate::h2::frame::{FrameType, flag};
use crate::h2::{ConnectionEvent, RequestScheme};

fn request(method: &str, body: &[u8]) -> EncodedRequest {
    let spec = RequestSpec {
        method,
        target: "/",
        version: Version::Http11,
        host: "host",
        headers: &[],
        body,
        keep_alive: true,
    };
    EncodedRequest::new(&spec, RequestScheme::Http).expect("a valid request")
}

#[test]
fn a_connection_whose_identifiers_are_used_up_takes_no_requests() {
    let request = request("GET", b"");
    let mut connection = Connection::new(ClientSettings::default());
    connection.streams.skip_ids();
    let mut last = 0;
    while let Ok(stream) = connection.start(&request, 0) {
        assert!(stream.number() > last);
        last = stream.number();
        connection.cancel(stream);
    }
    assert_eq!(connection.can_start(), Err(StartError::IdsExhausted));
    assert!(connection.is_going_away());
    assert!(last > frame::U31_MAX - 100);
}

fn new_connection() -> Connection {
    let mut connection = Connection::new(ClientSettings {
        streams: 4,
        header_table_bytes: 100,
        ..ClientSettings::default()
    });
    connection.keep_fields();
    connection
}

/// Returns everything that determines a connection's behavior.
fn described(mut connection: Connection) -> String {
    connection.decoder.forget_cache();
    format!("{connection:#?}")
}

/// Returns what a server sends on a connection with four requests: a part of everything that can
/// change the client's state.
fn conversation() -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = |kind, flags, stream, payload: &[u8]| {
        frame::write_header(&mut out, payload.len(), kind, flags, stream);
        out.extend_from_slice(payload);
    };
    let end_headers = flag::END_HEADERS;
    let settings = b"\0\x01\0\0\0\0\0\x03\0\0\0\x01\0\x04\0\0\0\x09\0\x06\0\0\xff\xff";
    frame(FrameType::Settings, 0, 0, settings);
    frame(FrameType::Settings, flag::ACK, 0, b"");
    frame(FrameType::Ping, 0, 0, b"12345678");
    frame(FrameType::WindowUpdate, 0, 0, b"\0\0\0\x05");
    frame(
        FrameType::Headers,
        end_headers,
        1,
        b"\x3f\x45\x48\x03404\x40\x01a\x01b",
    );
    frame(FrameType::Data, flag::PADDED, 1, b"\x03body\0\0\0");
    frame(FrameType::Headers, 0, 3, b"\x88\x5f\x10application/grpc");
    frame(FrameType::Continuation, end_headers, 3, b"\x00\x01c\x01d");
    frame(
        FrameType::Headers,
        end_headers | flag::END_STREAM,
        3,
        b"\x00\x0bgrpc-status\x01\x30",
    );
    frame(FrameType::RstStream, 0, 5, b"\0\0\0\x08");
    frame(FrameType::GoAway, 0, 0, b"\0\0\0\x01\0\0\0\x0b");
    frame(FrameType::Data, flag::END_STREAM, 1, b"the end");
    frame(FrameType::PushPromise, 0, 1, b"");
    out
}

#[test]
fn a_restarted_connection_equals_a_new_one() {
    let fresh = described(new_connection());
    let conversation = conversation();
    let (get, post) = (request("GET", b""), request("POST", b"some body"));
    let mut states = std::collections::BTreeSet::new();
    for length in 0..=conversation.len() {
        let mut connection = new_connection();
        let streams = [&get, &get, &post, &post].map(|request| {
            let tag = connection.active();
            connection.start(request, tag).expect("room for a request")
        });
        let mut input = &conversation[..length];
        let mut out = Vec::new();
        let mut result = Ok(ConnectionEvent::Settings);
        while result.is_ok_and(|event| event != ConnectionEvent::NeedMore) {
            result = connection.next(&mut input);
            connection.take_output(&mut out, |_| post.body());
        }
        if length % 2 == 0 {
            connection.cancel(streams[3]);
        }
        states.insert(match connection.state {
            ConnectionState::Opening => "opening",
            ConnectionState::Open => "open",
            ConnectionState::GoingAway { .. } => "going away",
            ConnectionState::Failed { .. } => "failed",
        });
        connection.restart();
        assert_eq!(described(connection), fresh, "after {length} bytes");
    }
    assert_eq!(states.len(), 4, "{states:?}");
}

#[test]
fn a_tunnel_sends_within_the_windows_until_it_ends() {
    let spec = RequestSpec {
        method: "GET",
        target: "/chat",
        version: Version::Http11,
        host: "host",
        headers: &[("Sec-WebSocket-Version".to_owned(), "13".to_owned())],
        body: b"",
        keep_alive: true,
    };
    let request = EncodedRequest::extended_connect(&spec, RequestScheme::Https, "websocket");
    let request = request.expect("a valid request");
    let mut connection = new_connection();
    let mut input: Vec<u8> = Vec::new();
    // SETTINGS_INITIAL_WINDOW_SIZE of 5 and SETTINGS_ENABLE_CONNECT_PROTOCOL.
    frame::write_settings(&mut input, &[(4, 5), (8, 1)]);
    assert!(!connection.allows_extended_connect());
    assert_eq!(
        connection.next(&mut &input[..]),
        Ok(ConnectionEvent::Settings)
    );
    assert!(connection.allows_extended_connect());
    let id = connection.start_tunnel(&request, 3).expect("capacity");
    let mut out = Vec::new();
    connection.take_output(&mut out, |_| unreachable!("a tunnel has no body"));
    let mut sent = |connection: &mut Connection, bytes: &[u8]| {
        let count = connection.send_tunnel(id, bytes);
        out.clear();
        connection.take_output(&mut out, |_| unreachable!("a tunnel has no body"));
        (count, out.clone())
    };
    let (count, out) = sent(&mut connection, b"hello you");
    assert_eq!((count, &out[..]), (5, &b"\0\0\x05\0\0\0\0\0\x01hello"[..]));
    assert_eq!(sent(&mut connection, b" you"), (0, Vec::new()));
    input.clear();
    frame::write_window_update(&mut input, 1, 2);
    // A head with status 200, and data.
    input.extend_from_slice(b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\0\0\0\0\x01hi");
    let mut input = &input[..];
    let tag = 3;
    for event in [
        ConnectionEvent::Head { tag, status: 200 },
        ConnectionEvent::Body { tag, bytes: b"hi" },
        ConnectionEvent::NeedMore,
    ] {
        assert_eq!(connection.next(&mut input), Ok(event));
    }
    let (count, out) = sent(&mut connection, b" you");
    assert_eq!((count, &out[..]), (2, &b"\0\0\x02\0\0\0\0\0\x01 y"[..]));
    connection.end_tunnel(id);
    let (count, out) = sent(&mut connection, b"x");
    assert_eq!((count, &out[..]), (0, &b"\0\0\0\0\x01\0\0\0\x01"[..]));
    let mut end: &[u8] = b"\0\0\0\0\x01\0\0\0\x01";
    let event = connection.next(&mut end);
    assert_eq!(event, Ok(ConnectionEvent::End { tag, call: None }));
    assert_eq!(connection.active(), 0);
}
