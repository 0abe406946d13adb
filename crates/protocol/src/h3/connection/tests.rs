use super::*;
use crate::h1::{RequestSpec, Version};
use crate::h2::RequestScheme;

/// Streams of the server.
const CONTROL: u64 = 3;
const DECODER: u64 = 7;
const ENCODER: u64 = 11;
const UNKNOWN: u64 = 15;

fn new_connection() -> Connection {
    let mut connection = Connection::new(ClientSettings {
        streams: 4,
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

/// Bytes that a server sends on a connection with four requests, each with its stream. They include
/// every kind of input that can change the client's state.
const CONVERSATION: [(u64, &[u8]); 13] = [
    (UNKNOWN, b"\x40\x21"),
    (CONTROL, b"\x00\x04\x03\x06\x40\xff"),
    (ENCODER, b"\x02\x3f\xe1\x1f\x41a\x01b"),
    (DECODER, b"\x03\x7f\x00"),
    (0, b"\x01\x05\x02\x00\xd9\x80\x80\x00\x07the"),
    (4, b"\x01\x16\x00\x00\xd9\x5f\x1d\x10application/grpc"),
    (4, b"\x01\x11\x00\x00\x27\x04grpc-status\x01\x30"),
    (8, b"\x21\x04half\x01\x40\x80half of a section"),
    (CONTROL, b"\x21\x02xy\x07\x01\x08"),
    (ENCODER, b"\x41c\x0f"),
    (0, b" end"),
    (UNKNOWN + 4, b"\x40"),
    (CONTROL, b"\x04\x00"),
];

#[test]
fn a_restarted_connection_equals_a_new_one() {
    let spec = RequestSpec {
        method: "GET",
        target: "/",
        version: Version::Http11,
        host: "host",
        headers: &[],
        body: b"",
        keep_alive: true,
    };
    let request = EncodedRequest::new(&spec, RequestScheme::Https).expect("a valid request");
    let fresh = described(new_connection());
    let bytes: Vec<(u64, u8)> = CONVERSATION
        .into_iter()
        .flat_map(|(stream, bytes)| bytes.iter().map(move |byte| (stream, *byte)))
        .collect();
    let mut states = std::collections::BTreeSet::new();
    for length in 0..=bytes.len() {
        let mut connection = new_connection();
        for tag in 0..4 {
            let started = connection.start(&request, u64::from(tag) * 4, tag);
            started.expect("room for a request");
        }
        let mut out = Vec::new();
        for (stream, byte) in &bytes[..length] {
            let mut input = std::slice::from_ref(byte);
            while let Ok(event) = connection.next(*stream, &mut input)
                && event != ConnectionEvent::NeedMore
            {}
            connection.take_decoder(&mut out);
        }
        match length % 3 {
            0 => drop(connection.cancel(0)),
            1 => drop(connection.finished(4)),
            _ => {}
        }
        states.insert(match connection.state {
            ConnectionState::Opening => "opening",
            ConnectionState::Open(_) => "open",
            ConnectionState::GoingAway { .. } => "going away",
            ConnectionState::Failed { .. } => "failed",
        });
        connection.restart();
        assert_eq!(described(connection), fresh, "after {length} bytes");
    }
    assert_eq!(states.len(), 4, "{states:?}");
}
