//! Measures the cost of an exchange in the protocol layer: `cargo run --release -p prony-protocol
//! --example h2_cost [EXCHANGES [ROW]]`. Times depend on the machine; compare rows with each other,
//! or count instructions with `valgrind --tool=callgrind`.

use std::time::Instant;

use httlib_hpack::Encoder;
use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::{
    ClientSettings, Connection, ConnectionEvent, EncodedRequest, RequestScheme,
};

/// Number of requests in flight.
const STREAMS: u32 = 32;
/// Number of different responses, for a server whose responses all differ.
const DIFFERENT: usize = 1_000;
const BODY: &[u8] = b"Hello, world!";

/// A server's encoding of response fields.
#[derive(Clone, Copy)]
enum Coding {
    /// Like nginx: every field is a literal with indexing.
    SpelledOut,
    /// Like most servers other than nginx: fields in the table are sent as their index.
    Indexed,
    /// Each response has a unique identifier.
    Different,
}

fn main() {
    let exchanges = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let exchanges: u64 = exchanges.unwrap_or(3_000_000);
    let only = std::env::args().nth(2);
    for (name, coding) in [
        ("spelled out", Coding::SpelledOut),
        ("indexed", Coding::Indexed),
        ("all different", Coding::Different),
    ] {
        for header_table_bytes in [4_096, 0] {
            let row = format!("{name}, {header_table_bytes}");
            if only.as_ref().is_some_and(|only| *only != row) {
                continue;
            }
            let nanos = run(coding, header_table_bytes, exchanges);
            println!("{row:>20}: {nanos:6.1} ns per exchange");
        }
    }
}

fn run(coding: Coding, header_table_bytes: u32, exchanges: u64) -> f64 {
    let request = request();
    let mut blocks = Blocks::new(coding, header_table_bytes);
    let settings = ClientSettings {
        streams: STREAMS,
        header_table_bytes,
        ..Default::default()
    };
    let mut connection = Connection::new(settings);
    let (mut out, mut input) = (Vec::new(), Vec::new());
    // SETTINGS, and the acknowledgment of the client's SETTINGS.
    input.extend_from_slice(b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0");
    feed(&mut connection, &input);
    let mut nanos = 0;
    let mut done = 0;
    while done < exchanges {
        let clock = Instant::now();
        let ids = [(); STREAMS as usize].map(|()| {
            let id = connection.start(&request, 1).expect("a free stream");
            id.number()
        });
        out.clear();
        connection.take_output(&mut out, |_| request.body());
        nanos += clock.elapsed().as_nanos();
        input.clear();
        for id in ids {
            answer(id, blocks.next(), &mut input);
        }
        let clock = Instant::now();
        assert_eq!(feed(&mut connection, &input), STREAMS);
        nanos += clock.elapsed().as_nanos();
        done += u64::from(STREAMS);
    }
    nanos as f64 / done as f64
}

/// Passes input to the connection. Returns the number of responses that ended.
fn feed(connection: &mut Connection, mut input: &[u8]) -> u32 {
    let mut ends = 0;
    let mut body_bytes = 0;
    loop {
        match connection.next(&mut input).expect("no violation") {
            ConnectionEvent::NeedMore => break,
            ConnectionEvent::Head { status, .. } => assert_eq!(status, 200),
            ConnectionEvent::Body { bytes, .. } => body_bytes += bytes.len(),
            ConnectionEvent::End { .. } => ends += 1,
            _ => {}
        }
    }
    assert_eq!(body_bytes, ends as usize * BODY.len());
    ends
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

fn answer(id: u32, block: &[u8], out: &mut Vec<u8>) {
    for (payload, kind, flags) in [(block, 1, 4), (BODY, 0, 1)] {
        out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(payload);
    }
}

/// Field blocks of consecutive responses.
struct Blocks {
    list: Vec<Vec<u8>>,
    /// Number of blocks at the start that may change the table and aren't repeated.
    once: usize,
    at: usize,
}

impl Blocks {
    fn new(coding: Coding, table_bytes: u32) -> Blocks {
        let mut encoder = Encoder::with_dynamic_size(table_bytes);
        let mut list = Vec::new();
        if table_bytes == 0 {
            list.push(vec![0x20, 0x88, 0x0f, 0x0d, 0x02, b'1', b'3']);
        }
        let once = list.len();
        match coding {
            Coding::SpelledOut => list.push(block(&mut encoder, None)),
            Coding::Indexed => list.extend([block(&mut encoder, None), block(&mut encoder, None)]),
            Coding::Different => {
                list.extend((0..DIFFERENT).map(|number| block(&mut encoder, Some(number))));
            }
        }
        let once = once + usize::from(matches!(coding, Coding::Indexed));
        Blocks { list, once, at: 0 }
    }

    fn next(&mut self) -> &[u8] {
        let at = self.at;
        self.at += 1;
        if self.at == self.list.len() {
            self.at = self.once;
        }
        &self.list[at]
    }
}

fn block(encoder: &mut Encoder, number: Option<usize>) -> Vec<u8> {
    let mut out = Vec::new();
    let identifier = number.map(|number| format!("{:032x}", number * 0x9e37_79b9));
    let mut fields = vec![
        (":status", "200"),
        ("server", "nginx/1.22.1"),
        ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("content-type", "text/plain"),
        ("content-length", "13"),
        ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("etag", "\"6955b900-d\""),
        ("accept-ranges", "bytes"),
    ];
    fields.extend(
        identifier
            .iter()
            .map(|identifier| ("x-request-id", identifier.as_str())),
    );
    for (name, value) in fields {
        let flags = match name {
            "x-request-id" => Encoder::HUFFMAN_NAME | Encoder::HUFFMAN_VALUE,
            _ => Encoder::HUFFMAN_VALUE | Encoder::WITH_INDEXING | Encoder::BEST_FORMAT,
        };
        let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), flags);
        encoder
            .encode(field, &mut out)
            .expect("fields can be coded");
    }
    out
}
