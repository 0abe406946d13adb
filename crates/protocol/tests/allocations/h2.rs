//! Tests of allocations by HTTP/2 connections.

use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::{
    ClientSettings, Connection, ConnectionEvent, EncodedRequest, RequestScheme,
};

use crate::{allocations, most_held};

const STREAMS: u32 = 8;

const BODY: &[u8] = &[7; 20_000];

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

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A client, its buffers, and the server's output in one round.
struct Round {
    connection: Connection,
    requests: [EncodedRequest; 2],
    out: Vec<u8>,
    input: Vec<u8>,
    ids: Vec<u32>,
}

impl Round {
    fn new() -> Round {
        let settings = ClientSettings {
            streams: STREAMS,
            stream_window_bytes: 0,
            ..Default::default()
        };
        let mut round = Round {
            connection: Connection::new(settings),
            requests: [request("GET", b""), request("POST", BODY)],
            out: Vec::new(),
            input: Vec::new(),
            ids: Vec::with_capacity(STREAMS as usize),
        };
        frame(4, 0, 0, &[], &mut round.input);
        frame(4, 1, 0, &[], &mut round.input);
        round.feed(usize::MAX);
        round
    }

    /// Runs a request on every stream. The responses arrive in pieces of this size.
    fn run(&mut self, piece_bytes: usize, number: u8) {
        self.ids.clear();
        for tag in 0..STREAMS {
            let request = &self.requests[tag as usize % 2];
            let id = self.connection.start(request, tag).expect("a free stream");
            self.ids.push(id.number());
        }
        while self.connection.has_output() {
            self.out.clear();
            self.connection.take_output(&mut self.out, |_| BODY);
        }
        self.input.clear();
        for &id in &self.ids {
            // Each block inserts a field that differs each time, and refers to a constant field by
            // index.
            let block = [
                0x88,
                0x40,
                1,
                b'a',
                2,
                b'0' + number % 10,
                b'0' + id as u8 % 10,
            ];
            let (first, second) = block.split_at(3);
            frame(1, 0, id, first, &mut self.input);
            frame(9, 4, id, second, &mut self.input);
            frame(0, 0, id, &BODY[..16_000], &mut self.input);
            frame(0, 1, id, &BODY[..9_000], &mut self.input);
        }
        let most = i32::MAX as u32 / 2;
        frame(
            8,
            0,
            0,
            &(u32::from(number) + 80_000).min(most).to_be_bytes(),
            &mut self.input,
        );
        frame(6, 0, 0, &[number; 8], &mut self.input);
        frame(4, 0, 0, &[0, 3, 0, 0, 0, 100], &mut self.input);
        assert_eq!(self.feed(piece_bytes), STREAMS);
    }

    fn feed(&mut self, piece_bytes: usize) -> u32 {
        let mut ends = 0;
        for mut input in self.input.chunks(piece_bytes) {
            loop {
                match self.connection.next(&mut input).expect("no violation") {
                    ConnectionEvent::NeedMore => break,
                    ConnectionEvent::End { .. } => ends += 1,
                    _ => {}
                }
            }
        }
        ends
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
    round.run(7, 1);
    round.run(7, 1);
    let warm = allocations();
    for _ in 0..3 {
        round.connection.restart();
        round.input.clear();
        frame(4, 0, 0, &[], &mut round.input);
        round.feed(5);
        round.run(7, 1);
    }
    assert_eq!(allocations(), warm);
}

/// Splits a block into as many frames as necessary.
fn block(stream: u32, block: &[u8], out: &mut Vec<u8>) {
    let mut parts = block.chunks(16_384).peekable();
    let mut kind = 1;
    while let Some(part) = parts.next() {
        let ends = if parts.peek().is_none() { 4 } else { 0 };
        frame(kind, ends, stream, part, out);
        kind = 9;
    }
}

/// Returns blocks that cause as much memory use as possible, each in a different way. The blocks
/// are different for each `number`.
fn costly(number: u32) -> [Vec<u8>; 6] {
    let mut coded = vec![0x88, 0x00, 0x01, b'a', 0xff, 0xfe, 0xfd, 0x03];
    // The values are zeros, because the Huffman code encodes eight of them in five bytes.
    coded.resize(8 + 65_405, 0);
    let statuses = number.to_be_bytes().map(|byte| 0x88 | byte & 7);
    [
        // The maximum number of insertions into the table in one block.
        [0x76, 0].repeat(32_768),
        // Similar insertions, but in a block that is short enough to be cached.
        [&statuses[..], &[0x76, 0].repeat(500)].concat(),
        coded,
        vec![0x88; 65_536],
        // The largest possible entry, and a block that repeats it.
        [&[0x88, 0x76, 0x7f, 0x80, 0x1e][..], &[b'v'; 3_967]].concat(),
        [&[0x88][..], &[0xbe; 65_535]].concat(),
    ]
}

#[test]
fn a_hostile_peer_causes_little_memory_use() {
    const LIMIT_BYTES: i64 = 1 << 20;
    // Sizes of the pieces in which the input arrives: single bytes, larger parts, and the whole
    // input.
    const PIECES_BYTES: [usize; 3] = [1, 1_000, 100_000];
    let blocks: Vec<Vec<u8>> = (0..16).flat_map(costly).collect();
    let mut inputs: Vec<(usize, Vec<u8>)> = (0..blocks.len() * PIECES_BYTES.len())
        .map(|at| {
            let mut input = Vec::new();
            block(
                2 * at as u32 + 1,
                &blocks[at / PIECES_BYTES.len()],
                &mut input,
            );
            (PIECES_BYTES[at % PIECES_BYTES.len()], input)
        })
        .collect();
    let mut round = Round::new();
    let most = most_held(|| {
        for (piece_bytes, input) in &mut inputs {
            let stream = round.connection.start(&round.requests[0], 0);
            // Memory from before the measurement must not be freed during it, so buffers are
            // swapped.
            std::mem::swap(&mut round.input, input);
            round.feed(*piece_bytes);
            std::mem::swap(&mut round.input, input);
            round.connection.cancel(stream.expect("a free stream"));
            round.out.clear();
            round.connection.take_output(&mut round.out, |_| BODY);
        }
    });
    assert!((100_000..LIMIT_BYTES).contains(&most), "{most} bytes");
}
