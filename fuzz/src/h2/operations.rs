//! Arbitrary sequences of frames, starts, cancellations and sends on successive connections. Most
//! operations are valid, which keeps the connections alive.

use prony_protocol::h2::{ClientSettings, StreamId};

use super::drive::{Client, TraceEvent};
use super::frames::{self, END_STREAM, NO_FLAGS, PADDED};
use super::server_model::ServerModel;

/// Fragments of header blocks and trailers that let a few bytes of input reach many states.
const BLOCKS: [&[u8]; 16] = [
    b"\x88",
    b"\x88",
    b"\x88\x5c\x013",
    b"\x89",
    b"\x48\x03103",
    b"\x48\x03404\x40\x01a\x01b",
    b"\x88\x40\x01c\x82\x1c\x64",
    b"\x88\xbe",
    b"\x20\x88",
    b"\x3f\xe1\x1f\x88",
    b"\x40\x01c\x01d",
    b"\xbe",
    b"",
    b"\x88\x00\x01A\x01b",
    b"\x88\x01\x01",
    b"\x88\x5c\x0240",
];

const BODIES: [&[u8]; 4] = [b"", b"", b"abc", &[7; 40_000]];

struct Operations<'a> {
    data: std::slice::Iter<'a, u8>,
    settings: ClientSettings,
    client: Client,
    server_model: ServerModel,
    /// Streams of the current connection with their tags, live or ended.
    streams: Vec<(StreamId, u32)>,
    tag: u32,
    /// Events of all connections.
    seen: Vec<TraceEvent>,
}

/// Runs operations. The first byte determines the settings. The other bytes are operations, some
/// with arguments. Returns the events.
pub fn run(data: &[u8]) -> Vec<TraceEvent> {
    let mut data = data.iter();
    let choice = data.next().copied().unwrap_or(0);
    let settings = ClientSettings {
        streams: u32::from(choice % 5) + 1,
        stream_window_bytes: 65_535,
        connection_window_bytes: if choice & 0x80 == 0 { 65_535 } else { 1 << 20 },
        header_table_bytes: if choice & 0x40 == 0 {
            4_096
        } else {
            u32::from(choice) * 64
        },
    };
    let mut operations = Operations {
        data,
        settings,
        client: Client::new(settings),
        server_model: ServerModel::new(),
        streams: Vec::new(),
        tag: 0,
        seen: Vec::new(),
    };
    while let Some(&operation) = operations.data.next() {
        operations.step(operation);
        if operations.client.has_failed() {
            operations.restart();
        }
    }
    operations.restart();
    operations.seen
}

impl Operations<'_> {
    fn byte(&mut self) -> u8 {
        self.data.next().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u32 {
        // Off-by-one errors are most likely near powers of two.
        let bits = u32::from(self.byte());
        (1u32 << (bits % 32))
            .wrapping_add(bits / 32)
            .wrapping_sub(4)
    }

    /// Usually returns a live stream, and starts one if there is none.
    fn stream(&mut self) -> u32 {
        let choice = self.byte();
        match choice {
            0..=239 => {
                let client = &self.client;
                let live = self.streams.iter().filter(|(_, tag)| client.is_open(*tag));
                let live: Vec<u32> = live.map(|(stream, _)| stream.number()).collect();
                match live.len() {
                    0 => self.start().map_or(1, StreamId::number),
                    count => live[usize::from(choice) % count],
                }
            }
            240..=251 => {
                let back = usize::from(choice - 240);
                let recent = self.streams.iter().rev().nth(back);
                recent.map_or(0, |(stream, _)| stream.number())
            }
            _ => u32::from(choice - 251),
        }
    }

    fn block(&mut self) -> &'static [u8] {
        // Valid blocks come first and are chosen more often.
        let choice = usize::from(self.byte());
        BLOCKS[(choice % 16).min(choice / 16)]
    }

    fn step(&mut self, operation: u8) {
        let bytes = match operation % 32 {
            0..=4 => {
                self.start();
                return;
            }
            5 => return self.cancel(),
            6 | 7 => return self.send(),
            8..=12 => {
                let stream = self.stream();
                frames::headers(stream, operation >> 7, self.block())
            }
            13 => self.split_block(operation),
            14..=18 => self.body(operation),
            19 => frames::window_update(self.stream(), self.number()),
            20 => frames::window_update(0, self.number()),
            21 => frames::rst_stream(self.stream(), u32::from(self.byte() % 16)),
            22 => {
                let identifier = u16::from(self.byte() % 8);
                frames::settings(&[(identifier, self.number())])
            }
            23 => frames::settings(&[(3, u32::from(self.byte() % 8)), (4, self.number() % 80_000)]),
            24 => frames::settings_ack(),
            25 => frames::ping([operation; 8]),
            26 if operation > 127 => frames::goaway(self.stream(), u32::from(self.byte())),
            26 => frames::goaway(0x7fff_ffff, 0),
            27 => frames::frame(frames::PRIORITY, NO_FLAGS, self.stream(), &[operation; 5]),
            28 => frames::frame(0xee, operation, self.stream(), &[operation; 20]),
            29 => {
                let stream = self.stream();
                frames::headers(stream, END_STREAM, b"\x00\x01a\x01b")
            }
            30 => return,
            _ => {
                let (kind, flags, stream) = (self.byte() % 12, self.byte(), self.stream());
                let payload = vec![self.byte() % 64; usize::from(self.byte() % 40)];
                frames::frame(kind, flags, stream, &payload)
            }
        };
        self.receive(&bytes);
    }

    fn start(&mut self) -> Option<StreamId> {
        let method = ["GET", "GET", "HEAD", "CONNECT"][usize::from(self.byte()) % 4];
        let body = BODIES[usize::from(self.byte()) % BODIES.len()];
        self.tag += 1;
        let stream = self.client.start(method, body, self.tag)?;
        let most = self.server_model.most_streams().unwrap_or(u32::MAX);
        assert!(
            self.client.connection.active() <= most,
            "more streams than the server allows"
        );
        self.streams.push((stream, self.tag));
        Some(stream)
    }

    fn cancel(&mut self) {
        if let Some(&(stream, tag)) = self.streams.last() {
            self.client.cancel(stream, tag);
        }
    }

    fn send(&mut self) {
        let before = self.client.sent.len();
        self.client.send();
        self.server_model.check_output(&self.client.sent[before..]);
    }

    /// Encodes a header block split into HEADERS and CONTINUATION.
    fn split_block(&mut self, operation: u8) -> Vec<u8> {
        let (stream, block) = (self.stream(), self.block());
        let (first, second) = block.split_at(usize::from(self.byte()) % (block.len() + 1));
        let flags = operation >> 7;
        let mut bytes = frames::frame(frames::HEADERS, flags, stream, first);
        let flags = frames::END_HEADERS;
        bytes.extend(frames::frame(frames::CONTINUATION, flags, stream, second));
        bytes
    }

    /// Encodes DATA, usually with a few bytes.
    fn body(&mut self, operation: u8) -> Vec<u8> {
        let (stream, choice) = (self.stream(), usize::from(self.byte()));
        let length = match choice {
            0..=199 => choice % 5,
            _ => choice * usize::from(self.byte() & 0x3f),
        };
        let flags = (operation >> 5 & END_STREAM) | (operation >> 3 & PADDED);
        frames::data(stream, flags, &vec![choice as u8 % 4; length])
    }

    /// Receives the bytes. On a new connection, SETTINGS usually precede them.
    fn receive(&mut self, bytes: &[u8]) {
        if !self.client.connection.is_established() && self.byte() > 20 {
            self.receive_in_parts(&frames::settings(&[]));
        }
        self.receive_in_parts(bytes);
    }

    /// Receives the bytes in two parts. A stream may be canceled between them.
    fn receive_in_parts(&mut self, bytes: &[u8]) {
        let first = !self.client.connection.is_established();
        let choice = usize::from(self.byte());
        let (one, other) = bytes.split_at(choice.min(bytes.len()));
        self.client.receive(one);
        if choice > 248 {
            self.cancel();
        }
        self.client.receive(other);
        if !self.client.has_failed() {
            self.server_model.record_received(bytes, first);
        }
    }

    /// Closes this connection and restarts the client on a new one.
    fn restart(&mut self) {
        self.send();
        frames::describe(&self.client.sent);
        let previous = self.client.restart(self.settings);
        self.seen.extend(previous.seen);
        self.server_model = ServerModel::new();
        self.streams.clear();
    }
}
