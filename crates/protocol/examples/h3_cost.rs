//! Measures the cost of an exchange in the protocol layer, without QUIC: `cargo run --release -p
//! prony-protocol --example h3_cost [EXCHANGES [ROW]]`. Times depend on the machine; compare rows
//! with each other and with the rows of `h2_cost`, or count instructions with `valgrind
//! --tool=callgrind`.

use std::time::Instant;

use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::RequestScheme;
use prony_protocol::h3::{ClientSettings, Connection, ConnectionEvent, EncodedRequest};

/// Number of requests in flight.
const STREAMS: u32 = 32;
/// Number of different responses, for a server whose responses all differ.
const DIFFERENT: usize = 1_000;
const BODY: &[u8] = b"Hello, world!";
/// Identifiers of the server's streams.
const CONTROL: u64 = 3;
const ENCODER: u64 = 7;

/// Values of fields, with the index of each name in the static table (RFC 9204 Appendix A).
const FIELDS: [(u8, &str); 6] = [
    (92, "nginx/1.22.1"),
    (6, "Thu, 01 Jan 2026 00:00:00 GMT"),
    (53, "text/plain"),
    (4, "13"),
    (10, "Thu, 01 Jan 2026 00:00:00 GMT"),
    (7, "\"6955b900-d\""),
];

/// A server's encoding of response fields.
#[derive(Clone, Copy)]
enum Coding {
    /// Like nginx: references to the static table, and literals.
    Literals,
    /// References to entries of the dynamic table.
    Indexed,
    /// Literals, with a unique identifier in each response.
    Different,
}

fn main() {
    let exchanges = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let exchanges: u64 = exchanges.unwrap_or(3_000_000);
    let only = std::env::args().nth(2);
    for (row, coding) in [
        ("literals", Coding::Literals),
        ("indexed", Coding::Indexed),
        ("all different", Coding::Different),
    ] {
        if only.as_ref().is_none_or(|only| only == row) {
            let nanos = run(coding, exchanges);
            println!("{row:>20}: {nanos:6.1} ns per exchange");
        }
    }
}

fn run(coding: Coding, exchanges: u64) -> f64 {
    let request = request();
    let mut connection = Connection::new(ClientSettings {
        streams: STREAMS,
        ..Default::default()
    });
    feed(&mut connection, CONTROL, b"\x00\x04\x00");
    feed(&mut connection, ENCODER, &insertions());
    let responses = responses(coding);
    let mut inputs = responses.iter().cycle();
    let mut out = Vec::new();
    let (mut nanos, mut done, mut stream) = (0, 0, 0);
    while done < exchanges {
        let clock = Instant::now();
        let first = stream;
        for tag in 0..STREAMS {
            let started = connection.start(&request, stream, tag);
            started.expect("a free stream");
            stream += 4;
        }
        for (id, input) in (first..stream).step_by(4).zip(&mut inputs) {
            assert_eq!(feed(&mut connection, id, input), BODY.len());
            let end = connection.finished(id).expect("no violation");
            assert!(matches!(end, ConnectionEvent::End { .. }));
        }
        out.clear();
        connection.take_decoder(&mut out);
        nanos += clock.elapsed().as_nanos();
        done += u64::from(STREAMS);
    }
    nanos as f64 / done as f64
}

/// Passes input to the connection. Returns the number of body bytes.
fn feed(connection: &mut Connection, stream: u64, mut input: &[u8]) -> usize {
    let mut body_bytes = 0;
    loop {
        match connection.next(stream, &mut input).expect("no violation") {
            ConnectionEvent::NeedMore => return body_bytes,
            ConnectionEvent::Head { status, .. } => assert_eq!(status, 200),
            ConnectionEvent::Body { bytes, .. } => body_bytes += bytes.len(),
            _ => {}
        }
    }
}

fn request() -> EncodedRequest {
    let spec = RequestSpec {
        method: "GET",
        target: "/bytes/13",
        version: Version::Http11,
        host: "127.0.0.1:8443",
        headers: &[],
        body: b"",
        keep_alive: true,
    };
    EncodedRequest::new(&spec, RequestScheme::Https).expect("a valid request")
}

/// Returns the content of the encoder stream, which sets the table's capacity to 4,096 bytes and
/// inserts every field.
fn insertions() -> Vec<u8> {
    let mut out = b"\x02\x3f\xe1\x1f".to_vec();
    for (index, value) in FIELDS {
        integer(6, 0xc0, usize::from(index), &mut out);
        string(value, &mut out);
    }
    out
}

/// Returns responses that consist of HEADERS and DATA.
fn responses(coding: Coding) -> Vec<Vec<u8>> {
    match coding {
        Coding::Literals => vec![response(literals(None))],
        Coding::Different => (0..DIFFERENT)
            .map(|number| response(literals(Some(number))))
            .collect(),
        Coding::Indexed => {
            let count = FIELDS.len() as u8;
            let mut section = vec![count + 1, 0, 0xd9];
            section.extend((0..count).map(|index| 0x80 | index));
            vec![response(section)]
        }
    }
}

fn literals(number: Option<usize>) -> Vec<u8> {
    let mut out = vec![0, 0, 0xd9];
    for (index, value) in FIELDS {
        integer(4, 0x50, usize::from(index), &mut out);
        string(value, &mut out);
    }
    if let Some(number) = number {
        out.extend_from_slice(b"\x27\x05x-request-id");
        string(&format!("{:032x}", number * 0x9e37_79b9), &mut out);
    }
    out
}

fn response(section: Vec<u8>) -> Vec<u8> {
    let mut out = vec![0x01];
    // The length is encoded in two bytes.
    out.extend_from_slice(&(section.len() as u16 | 0x4000).to_be_bytes());
    out.extend(section);
    out.extend_from_slice(&[0x00, BODY.len() as u8]);
    out.extend_from_slice(BODY);
    out
}

fn integer(bits: u32, pattern: u8, number: usize, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if number < most {
        out.push(pattern | number as u8)
    } else {
        out.extend_from_slice(&[pattern | most as u8, (number - most) as u8])
    }
}

/// Appends a Huffman-coded string.
fn string(text: &str, out: &mut Vec<u8>) {
    let mut coded = Vec::new();
    httlib_huffman::encode(text.as_bytes(), &mut coded).expect("text can be coded");
    integer(7, 0x80, coded.len(), out);
    out.extend(coded);
}
