//! Any frames, starts, cancellations and sends in any order.

use prony_protocol::h2::{ClientSettings, StreamId};

use super::drive::Client;
use super::frames::{self, END_STREAM, PADDED};

/// Blocks that answers begin or end with, so that few bytes reach far.
const BLOCKS: &[&[u8]] = &[
    b"\x88",
    b"\x88\x5c\x013",
    b"\x89",
    b"\x48\x03103",
    b"\x48\x03404\x40\x01a\x01b",
    b"\xbe",
    b"\x40\x01c\x01d",
    b"\x20\x88",
    b"\x3f\xe1\x1f",
    b"\x88\x01",
];

const BODIES: [&[u8]; 3] = [b"", b"abc", &[7; 40_000]];

struct Operations<'a> {
    data: std::slice::Iter<'a, u8>,
    client: Client,
    streams: Vec<(StreamId, u32)>,
}

/// The first byte chooses the settings; the others are operations, some with arguments.
pub fn run(data: &[u8]) {
    let mut data = data.iter();
    let choice = data.next().copied().unwrap_or(0);
    let settings = ClientSettings {
        streams: u32::from(choice % 5) + 1,
        stream_window_bytes: 65_535,
        connection_window_bytes: if choice & 0x80 == 0 { 65_535 } else { 1 << 20 },
        header_table_bytes: u32::from(choice) * 64,
    };
    let mut operations = Operations {
        data,
        client: Client::new(settings),
        streams: Vec::new(),
    };
    if choice % 4 > 0 {
        operations.client.receive(&frames::settings(&[]));
    }
    let mut tag = 0;
    while operations.step(tag) {
        tag += 1;
    }
    operations.client.send();
    frames::describe(&operations.client.sent);
}

impl Operations<'_> {
    fn byte(&mut self) -> u8 {
        self.data.next().copied().unwrap_or(0)
    }

    fn number(&mut self) -> u32 {
        // Numbers near powers of two, where limits are.
        let bits = u32::from(self.byte());
        (1u32 << (bits % 32))
            .wrapping_add(bits / 32)
            .wrapping_sub(4)
    }

    /// One that was used of late, mostly.
    fn stream(&mut self) -> u32 {
        let choice = usize::from(self.byte());
        match self.streams.len().checked_sub(1 + choice % 8) {
            Some(at) => self.streams[at].0.number(),
            None => choice as u32 / 8,
        }
    }

    fn step(&mut self, tag: u32) -> bool {
        let Some(&operation) = self.data.next() else {
            return false;
        };
        let bytes = match operation % 16 {
            0..=2 => return self.start(tag),
            3 => {
                if let Some((stream, tag)) = self.streams.pop() {
                    self.client.cancel(stream, tag);
                }
                return true;
            }
            4 => {
                self.client.send();
                return true;
            }
            5 | 6 => {
                let (stream, choice) = (self.stream(), self.byte());
                let block = BLOCKS[usize::from(choice) % BLOCKS.len()];
                frames::headers(stream, choice >> 7, block)
            }
            7 => {
                let (stream, choice) = (self.stream(), self.byte());
                let block = BLOCKS[usize::from(choice) % BLOCKS.len()];
                let (first, second) = block.split_at(usize::from(choice >> 5) % block.len());
                let mut bytes = frames::frame(frames::HEADERS, choice >> 7, stream, first);
                bytes.extend(frames::frame(frames::CONTINUATION, 4, stream, second));
                bytes
            }
            8 | 9 => {
                let (stream, choice) = (self.stream(), self.byte());
                let body = vec![choice; usize::from(choice) * usize::from(choice & 0x3f)];
                frames::data(stream, choice & (END_STREAM | PADDED), &body)
            }
            10 => frames::window_update(self.stream(), self.number()),
            11 => frames::window_update(0, self.number()),
            12 => frames::rst_stream(self.stream(), u32::from(self.byte() % 16)),
            13 => {
                let identifier = u16::from(self.byte() % 8);
                frames::settings(&[(identifier, self.number())])
            }
            14 => match self.byte() {
                0..=99 => frames::ping([operation; 8]),
                100..=199 => frames::settings_ack(),
                _ => frames::goaway(self.stream(), u32::from(self.byte())),
            },
            _ => {
                let (kind, flags, stream) = (self.byte() % 12, self.byte(), self.stream());
                let payload = vec![self.byte() % 64; usize::from(self.byte() % 40)];
                frames::frame(kind, flags, stream, &payload)
            }
        };
        self.receive(&bytes);
        true
    }

    fn start(&mut self, tag: u32) -> bool {
        let method = ["GET", "HEAD", "CONNECT"][usize::from(self.byte()) % 3];
        let body = BODIES[usize::from(self.byte()) % BODIES.len()];
        let stream = self.client.start(method, body, tag);
        self.streams.extend(stream.map(|stream| (stream, tag)));
        true
    }

    /// In two parts, between which a stream may be given up.
    fn receive(&mut self, bytes: &[u8]) {
        let choice = usize::from(self.byte());
        let (first, second) = bytes.split_at(choice.min(bytes.len()));
        self.client.receive(first);
        if choice.is_multiple_of(7)
            && let Some((stream, tag)) = self.streams.pop()
        {
            self.client.cancel(stream, tag);
        }
        self.client.receive(second);
    }
}
