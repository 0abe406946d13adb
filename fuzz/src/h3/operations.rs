//! Arbitrary bytes and frames on all streams of a server, mixed with operations of the client. The
//! events must not depend on how the bytes are split.

use prony_protocol::h3::ClientSettings;

use super::super::drive::pieces;
use super::drive::{Step, TraceEvent, trace, trace_again};
use super::frames::{self, frame};

/// Field sections that let a few bytes of input reach many states. Valid ones come first.
const SECTIONS: [&[u8]; 16] = [
    b"\x00\x00\xd9",
    b"\x00\x00\xd9",
    b"\x00\x00\xd9\x54\x013",
    b"\x00\x00\xff\x01",
    b"\x00\x00\x5f\x09\x03103",
    b"\x02\x00\x80",
    b"\x02\x00\xd9\x80",
    b"\x03\x80\xd9\x10\x00\x01b",
    b"\x02\x01\xd9\x81",
    b"\x00\x00\x21a\x01b",
    b"\x00\x00",
    b"",
    b"\x00\x00\xd9\x21A\x01b",
    b"\x02\x00\xd9\xc0",
    b"\x05\x00\x80",
    b"\x00\x00\x5f\x09\x03404\x2c\x82\x1c\x64",
];

/// Instructions on a server's encoder stream.
const INSTRUCTIONS: [&[u8]; 8] = [
    b"\x3f\xe1\x1f",
    b"\x3f\xe1\x1f\xd9\x03404",
    b"\x41a\x01b",
    b"\xc6\x04date",
    b"\x00",
    b"\x80\x83\x1c\x64\x3f",
    b"\x3f\x45",
    b"\x20",
];

/// Streams of the server. The first three are its control, encoder and decoder streams, which are
/// opened at the start.
const CONTROL: u64 = 3;
const ENCODER: u64 = 7;
const DECODER: u64 = 11;

const METHODS: [&str; 4] = ["GET", "GET", "HEAD", "CONNECT"];

struct Operations<'a> {
    data: std::slice::Iter<'a, u8>,
    steps: Vec<Step>,
    started: u32,
}

/// Runs operations. The first byte determines the settings; the next four determine how bytes are
/// split. The other bytes are operations, some with arguments. Returns the events.
pub fn run(data: &[u8]) -> Vec<TraceEvent> {
    let Some((&[choice, splits @ ..], rest)) = data.split_first_chunk::<5>() else {
        return Vec::new();
    };
    let settings = ClientSettings {
        streams: u32::from(choice % 5) + 1,
        header_table_bytes: if choice & 0x40 == 0 { 4_096 } else { 64 },
    };
    let mut operations = Operations {
        data: rest.iter(),
        steps: Vec::new(),
        started: 0,
    };
    if choice & 0x80 == 0 {
        operations.open();
    }
    while let Some(&operation) = operations.data.next() {
        operations.step(operation);
    }
    let steps = operations.steps;
    let whole = trace(settings, &steps, std::iter::once);
    let single = trace(settings, &steps, |bytes| bytes.chunks(1));
    assert_eq!(whole, single, "byte by byte");
    let split = trace(settings, &steps, |bytes| pieces(bytes, &splits));
    assert_eq!(whole, split, "split into {splits:?}");
    let again = trace_again(settings, &steps);
    assert_eq!(whole, again, "on a reused connection");
    whole.0
}

impl Operations<'_> {
    fn byte(&mut self) -> u8 {
        self.data.next().copied().unwrap_or(0)
    }

    /// Opens the server's streams.
    fn open(&mut self) {
        self.bytes(CONTROL, frames::control(&[(1, 4_096), (6, 1_000)]));
        self.bytes(ENCODER, b"\x02\x3f\x21".to_vec());
        self.bytes(DECODER, b"\x03".to_vec());
    }

    fn bytes(&mut self, stream: u64, bytes: Vec<u8>) {
        self.steps.push(Step::Bytes(stream, bytes));
    }

    /// Usually returns one of the latest requests.
    fn request(&mut self) -> u64 {
        let back = u32::from(self.byte() % 6);
        u64::from(self.started.saturating_sub(back)) * 4
    }

    fn any_stream(&mut self) -> u64 {
        match self.byte() {
            choice @ 0..=199 => u64::from(choice % 20),
            choice => u64::from(choice),
        }
    }

    fn section(&mut self) -> Vec<u8> {
        // Valid sections come first and are chosen more often.
        let choice = usize::from(self.byte());
        SECTIONS[(choice % 16).min(choice / 16)].to_vec()
    }

    fn start(&mut self) {
        let method = METHODS[usize::from(self.byte() % 4)];
        self.steps.push(Step::Start(method, self.started));
        self.started += 1;
    }

    fn step(&mut self, operation: u8) {
        match operation % 24 {
            0..=5 => self.start(),
            6..=9 => {
                let (stream, section) = (self.request(), self.section());
                self.bytes(stream, frames::headers(&section));
            }
            10..=12 => {
                let (stream, length) = (self.request(), self.byte() % 5);
                self.bytes(stream, frames::data(&vec![operation; usize::from(length)]));
            }
            13 | 14 => {
                let stream = self.request();
                self.steps.push(Step::Fin(stream));
            }
            15 => {
                let (stream, code) = (self.request(), u64::from(self.byte()));
                self.steps.push(Step::Reset(stream, 0x100 + code % 20));
            }
            16 => {
                let tag = self.started.saturating_sub(u32::from(self.byte() % 8));
                self.steps.push(Step::Cancel(tag));
            }
            17 | 18 => self.steps.push(Step::Send),
            19 | 20 => {
                let choice = usize::from(self.byte()) % INSTRUCTIONS.len();
                self.bytes(ENCODER, INSTRUCTIONS[choice].to_vec());
            }
            21 => self.control(),
            22 => self.unusual(),
            _ => {
                let (stream, length) = (self.any_stream(), usize::from(self.byte() % 20));
                let bytes: Vec<u8> = self.data.by_ref().take(length).copied().collect();
                self.bytes(stream, bytes);
            }
        }
    }

    fn control(&mut self) {
        let bytes = match self.byte() % 8 {
            0 => frames::goaway(u64::from(self.byte()) * 4),
            1 => frames::goaway(u64::from(self.byte())),
            2 => frames::settings(&[(u64::from(self.byte()), 1)]),
            3 => frame(u64::from(self.byte() % 16), b"\x00"),
            _ => frame(0x21, &vec![7; usize::from(self.byte())]),
        };
        self.bytes(CONTROL, bytes);
    }

    fn unusual(&mut self) {
        let stream = self.any_stream();
        let step = match self.byte() % 6 {
            0 => Step::Fin(stream),
            1 => Step::Reset(stream, 0x10b),
            2 => Step::Stop(stream),
            3 => Step::Bytes(DECODER, vec![0x40 | self.byte() & 0x7f, 1]),
            4 => Step::Bytes(stream, frames::varint(u64::from(self.byte()) << 7)),
            _ => {
                let kind = u64::from(self.byte() % 16);
                Step::Bytes(stream, frame(kind, b"\x00\x00\xd9"))
            }
        };
        self.steps.push(step);
    }
}
