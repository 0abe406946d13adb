//! Tests of allocations by HTTP/3 connections.

use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::RequestScheme;
use prony_protocol::h3::{
    ClientSettings, Connection, ConnectionEvent, EncodedRequest, RequestPattern,
};

use crate::{allocations, most_held};

const STREAMS: u32 = 8;

/// Identifiers of the server's streams.
const CONTROL: u64 = 3;
const ENCODER: u64 = 7;

const BODY: &[u8] = &[7; 16_000];

fn spec(body: &[u8]) -> RequestSpec<'_> {
    RequestSpec {
        method: "POST",
        target: "/",
        version: Version::Http11,
        host: "host",
        headers: &[],
        body,
        keep_alive: true,
    }
}

fn frame(kind: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(payload.len() as u32 | 0x8000_0000).to_be_bytes());
    out.extend_from_slice(payload);
}

/// A client, its buffers, and the server's output in one round.
struct Round {
    connection: Connection,
    request: EncodedRequest,
    out: Vec<u8>,
    input: Vec<u8>,
    next_stream: u64,
    /// Number of insertions into the dynamic table.
    inserts: u64,
}

impl Round {
    fn new() -> Round {
        let settings = ClientSettings {
            streams: STREAMS,
            // With this size, the Required Insert Count is sent modulo 128, in one byte.
            header_table_bytes: 2_048,
        };
        let mut round = Round {
            connection: Connection::new(settings),
            request: EncodedRequest::new(&spec(b"abc"), RequestScheme::Https)
                .expect("a valid request"),
            out: Vec::new(),
            input: Vec::new(),
            next_stream: 0,
            inserts: 0,
        };
        round.open();
        round
    }

    /// Opens the server's streams.
    fn open(&mut self) {
        (self.next_stream, self.inserts) = (0, 1);
        self.feed(CONTROL, b"\x00\x04\x00", 2);
        self.feed(ENCODER, b"\x02\x3f\xe1\x0f\xc6\x041:23", 2);
    }

    /// Runs a request on every stream. The responses arrive in pieces of this size.
    fn run(&mut self, piece_bytes: usize, number: u8) {
        let first = self.next_stream;
        for tag in 0..STREAMS {
            let started = self.connection.start(&self.request, self.next_stream, tag);
            started.expect("a free stream");
            self.next_stream += 4;
        }
        // Inserts an entry that differs each time. The instructions arrive in parts.
        self.feed(ENCODER, &[0x41, b'a', 2, b'0' + number % 10, b'x'], 3);
        self.inserts += 1;
        for stream in (first..self.next_stream).step_by(4) {
            self.input.clear();
            // The section refers to the newest entry of the table, and contains a field that
            // differs each time.
            let required = (self.inserts % 128 + 1) as u8;
            let section = [
                required,
                0x00,
                0xd9,
                0x80,
                0x21,
                b'b',
                1,
                b'0' + number % 10,
            ];
            frame(1, &section, &mut self.input);
            frame(0, BODY, &mut self.input);
            frame(0x21, &[7; 9], &mut self.input);
            frame(0, &BODY[..9_000], &mut self.input);
            frame(1, b"\0\0\x21t\x01u", &mut self.input);
            let input = std::mem::take(&mut self.input);
            self.feed(stream, &input, piece_bytes);
            self.input = input;
            assert!(matches!(
                self.connection.finished(stream),
                Ok(ConnectionEvent::End { .. })
            ));
        }
        self.feed(CONTROL, &[0x21, 3, 1, 2, 3], 2);
        self.out.clear();
        self.connection.take_control(&mut self.out);
        self.connection.take_decoder(&mut self.out);
    }

    fn feed(&mut self, stream: u64, bytes: &[u8], piece_bytes: usize) {
        for mut input in bytes.chunks(piece_bytes) {
            while self
                .connection
                .next(stream, &mut input)
                .expect("no violation")
                != ConnectionEvent::NeedMore
            {}
        }
    }
}

#[test]
fn exchanges_allocate_nothing_once_warm() {
    let mut round = Round::new();
    let before = allocations();
    for number in 0..60 {
        for piece_bytes in [100_000, 1_000, 7] {
            round.run(piece_bytes, number);
        }
    }
    assert!(allocations() > before, "the counter counts");
    let warm = allocations();
    for number in 0..60 {
        for piece_bytes in [100_000, 1_000, 7] {
            round.run(piece_bytes, number);
        }
    }
    assert_eq!(allocations(), warm);
}

#[test]
fn the_next_connection_allocates_nothing() {
    let mut round = Round::new();
    let mut run = || {
        for number in 0..3 {
            round.connection.restart();
            round.open();
            round.run(7, number);
        }
    };
    run();
    let warm = allocations();
    run();
    assert_eq!(allocations(), warm);
}

#[test]
fn rendering_a_request_allocates_nothing_once_warm() {
    let is_varying = |value: &str| value == "/";
    let pattern = RequestPattern::new(&spec(b"x"), RequestScheme::Https, is_varying, true);
    let pattern = pattern.expect("a valid request");
    let mut request = EncodedRequest::default();
    let mut render = |number: u8| {
        let write = |_: usize, out: &mut Vec<u8>| out.extend_from_slice(&[b'/', b'0' + number]);
        pattern.encode(b"a body", Some(("cookie", "a=b")), write, &mut request);
        assert!(request.wire().ends_with(b"a body"));
    };
    render(0);
    let warm = allocations();
    for number in 0..10 {
        render(number);
    }
    assert_eq!(allocations(), warm);
}

#[test]
fn a_hostile_peer_causes_little_memory_use() {
    const LIMIT_BYTES: i64 = 3 << 20;
    let mut round = Round::new();
    let mut coded = vec![0, 0, 0xd9, 0x21, b'a', 0xff, 0xf0, 0xfd, 0x03];
    // The values are zeros, because the Huffman code encodes eight of them in five bytes.
    coded.resize(9 + 65_391, 0);
    let sections = [
        vec![0xd9; 65_536],
        coded,
        [&[0, 0][..], &[0xe0; 65_534]].concat(),
    ];
    let inputs: Vec<Vec<u8>> = sections
        .iter()
        .map(|section| {
            let mut input = Vec::new();
            frame(1, section, &mut input);
            input
        })
        .collect();
    let entries = b"\xc6\x00".repeat(1_000);
    let most = most_held(|| {
        for number in 0..100 {
            // Incomplete sections on all streams, and many insertions.
            for tag in 0..STREAMS {
                let stream = round.next_stream;
                let started = round.connection.start(&round.request, stream, tag);
                started.expect("a free stream");
                round.next_stream += 4;
                let input = &inputs[(tag as usize + number) % inputs.len()];
                let bytes = input.len() - usize::from(tag > 2);
                for mut piece in input[..bytes].chunks(1_000) {
                    while let Ok(event) = round.connection.next(stream, &mut piece)
                        && event != ConnectionEvent::NeedMore
                    {}
                }
                if round.connection.is_going_away() {
                    round.connection.restart();
                    round.open();
                    break;
                }
            }
            round.feed(ENCODER, &entries, 1_000);
            for tag in 0..STREAMS {
                round.connection.cancel(tag);
            }
            round.out.clear();
            round.connection.take_decoder(&mut round.out);
        }
    });
    assert!((100_000..LIMIT_BYTES).contains(&most), "{most} bytes");
}
