//! Tests of stream errors: the violation, and the code in RST_STREAM.

use crate::bodies::h2::frames::{
    self, END_STREAM, NO_FLAGS, PRIORITY, block, data, frame, headers, window_update,
};
use crate::client::{Client, OK, head};

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const ENHANCE_YOUR_CALM: u32 = 11;

pub(crate) type Row = (Vec<u8>, &'static str, u32);

fn with_fields(fields: &[(&str, &str)]) -> Vec<u8> {
    headers(1, END_STREAM, &block(fields))
}

/// Returns server output that causes a stream error on stream 1, which carries a GET.
pub(crate) fn rows() -> Vec<Row> {
    [fields(), sections(), lengths(), others()].concat()
}

fn fields() -> Vec<Row> {
    let rows: [(&[(&str, &str)], &str); 12] = [
        (&[], "Fields(NoStatus)"),
        (&[("server", "x")], "Fields(NoStatus)"),
        (
            &[(":status", "200"), (":status", "200")],
            "Fields(StatusTwice)",
        ),
        (
            &[("server", "x"), (":status", "200")],
            "Fields(PseudoHeaderLate)",
        ),
        (
            &[(":status", "200"), (":path", "/")],
            "Fields(PseudoHeader)",
        ),
        (&[(":status", "2")], "Fields(Status)"),
        (
            &[(":status", "200"), ("Server", "x")],
            "Fields(UppercaseName)",
        ),
        (&[(":status", "200"), ("ser ver", "x")], "Fields(Name)"),
        (&[(":status", "200"), ("server", "a\nb")], "Fields(Value)"),
        (
            &[(":status", "200"), ("server", " b")],
            "Fields(SpaceAroundValue)",
        ),
        (
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            "Fields(ConnectionSpecific)",
        ),
        (
            &[(":status", "200"), ("content-length", "x")],
            "Fields(Length)",
        ),
    ];
    rows.map(|(list, violation)| (with_fields(list), violation, PROTOCOL_ERROR))
        .to_vec()
}

fn sections() -> Vec<Row> {
    let interims = head(1, "100").repeat(33);
    let then = |bytes: Vec<u8>| [headers(1, NO_FLAGS, OK), bytes].concat();
    let trailers = |fields: &[(&str, &str)]| then(with_fields(fields));
    vec![
        (head(1, "101"), "SwitchingProtocols", PROTOCOL_ERROR),
        (
            with_fields(&[(":status", "100")]),
            "InterimEnds",
            PROTOCOL_ERROR,
        ),
        (interims, "TooManyInterim { limit: 32 }", ENHANCE_YOUR_CALM),
        (data(1, END_STREAM, b""), "DataBeforeHead", PROTOCOL_ERROR),
        (data(1, NO_FLAGS, b"x"), "DataBeforeHead", PROTOCOL_ERROR),
        (
            [head(1, "103"), data(1, NO_FLAGS, b"x")].concat(),
            "DataBeforeHead",
            PROTOCOL_ERROR,
        ),
        (
            then(head(1, "200")),
            "Fields(PseudoHeaderInTrailers)",
            PROTOCOL_ERROR,
        ),
        (
            trailers(&[(":status", "200")]),
            "Fields(PseudoHeaderInTrailers)",
            PROTOCOL_ERROR,
        ),
        (
            trailers(&[("connection", "close")]),
            "Fields(ConnectionSpecific)",
            PROTOCOL_ERROR,
        ),
        (
            then(headers(1, NO_FLAGS, &block(&[("a", "b")]))),
            "TrailersDoNotEnd",
            PROTOCOL_ERROR,
        ),
    ]
}

fn lengths() -> Vec<Row> {
    let head = headers(
        1,
        NO_FLAGS,
        &block(&[(":status", "200"), ("content-length", "3")]),
    );
    let trailers = headers(1, END_STREAM, &block(&[("a", "b")]));
    let then = |bytes: Vec<u8>| [head.clone(), bytes].concat();
    let none = |status: &str, bytes: Vec<u8>| [self::head(1, status), bytes].concat();
    vec![
        (
            then(data(1, NO_FLAGS, b"abcd")),
            "BodyTooLong",
            PROTOCOL_ERROR,
        ),
        (
            then([data(1, NO_FLAGS, b"abc"), data(1, END_STREAM, b"d")].concat()),
            "BodyTooLong",
            PROTOCOL_ERROR,
        ),
        (
            then(data(1, END_STREAM, b"ab")),
            "BodyTooShort",
            PROTOCOL_ERROR,
        ),
        (
            then(data(1, END_STREAM, b"")),
            "BodyTooShort",
            PROTOCOL_ERROR,
        ),
        (then(trailers), "BodyTooShort", PROTOCOL_ERROR),
        (
            with_fields(&[(":status", "200"), ("content-length", "3")]),
            "BodyTooShort",
            PROTOCOL_ERROR,
        ),
        (
            none("204", data(1, END_STREAM, b"x")),
            "BodyTooLong",
            PROTOCOL_ERROR,
        ),
        (
            none("304", data(1, NO_FLAGS, b"x")),
            "BodyTooLong",
            PROTOCOL_ERROR,
        ),
    ]
}

fn others() -> Vec<Row> {
    let most = 0x7fff_ffff - 65_535;
    let overflow = [window_update(1, most), window_update(1, 1)].concat();
    let split = [
        frame(frames::HEADERS, NO_FLAGS, 1, b"\x88\x40\x01a\x7f\x81\x7e"),
        frame(frames::CONTINUATION, NO_FLAGS, 1, &[b'v'; 16_256]),
        frame(frames::CONTINUATION, frames::END_HEADERS, 1, &[0x88; 20]),
    ]
    .concat();
    vec![
        (window_update(1, 0), "ZeroIncrement", PROTOCOL_ERROR),
        (overflow, "WindowOverflow", FLOW_CONTROL_ERROR),
        (
            frame(PRIORITY, NO_FLAGS, 1, &[0; 4]),
            "PriorityLength",
            FRAME_SIZE_ERROR,
        ),
        (split, "Fields(PseudoHeaderLate)", PROTOCOL_ERROR),
    ]
}

#[test]
fn the_stream_ends_and_the_connection_continues() {
    for (bytes, violation, code) in rows() {
        let mut client = Client::new();
        client.get(0);
        client.get(1);
        client.sent();
        let seen = client.receive(&bytes);
        assert_eq!(seen.last(), Some(&format!("0: {violation}")));
        assert_eq!(
            client.sent(),
            [format!("RST_STREAM 1 {code}")],
            "{violation}"
        );
        // All later frames for this stream are ignored.
        assert!(client.receive(&data(1, END_STREAM, b"late")).is_empty());
        let events = client.receive(&headers(3, END_STREAM, OK));
        assert_eq!(events, ["1: head 200", "1: end"]);
        client.check_works();
    }
}

#[test]
fn the_rest_of_a_frame_that_broke_its_stream_is_skipped() {
    for size in [1, 2, 5, 100] {
        let mut client = Client::new();
        client.get(0);
        let frame = data(1, NO_FLAGS, &[0xff; 50]);
        let seen: Vec<String> = frame
            .chunks(size)
            .flat_map(|piece| client.receive(piece))
            .collect();
        assert_eq!(seen, ["0: DataBeforeHead"]);
        client.check_works();
    }
}

#[test]
fn a_tunnel_has_no_fields() {
    for flags in [NO_FLAGS, END_STREAM] {
        let mut client = Client::new();
        client.start("CONNECT", b"", 0);
        client.sent();
        let trailers = headers(1, flags, &block(&[("a", "b")]));
        let events = client.receive(&[head(1, "200"), data(1, NO_FLAGS, b"x"), trailers].concat());
        assert_eq!(events, ["0: head 200", "0: body x", "0: FieldsInTunnel"]);
        assert_eq!(client.sent(), ["RST_STREAM 1 1"]);
        client.check_works();
    }
}

#[test]
fn a_head_has_no_body() {
    let mut client = Client::new();
    client.start("HEAD", b"", 0);
    let events = client.receive(&[headers(1, NO_FLAGS, OK), data(1, END_STREAM, b"x")].concat());
    assert_eq!(events, ["0: head 200", "0: BodyTooLong"]);
    client.check_works();
}
