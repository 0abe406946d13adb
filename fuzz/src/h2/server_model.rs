//! Checks a client's output against the frames that it has received.

use std::collections::BTreeMap;

use super::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE,
};

/// State of one connection as the server sees it.
pub struct ServerModel {
    /// Connection-level send window of the client, in bytes.
    window: i64,
    /// Initial send window of a stream, in bytes.
    initial_window: i64,
    most_streams: Option<u32>,
    streams: BTreeMap<u32, Stream>,
    /// WINDOW_UPDATE increments for streams whose HEADERS haven't been sent yet.
    early: BTreeMap<u32, i64>,
    /// Stream with an incomplete header block.
    gathering: Option<u32>,
    /// Numbers of outstanding acknowledgments: those of SETTINGS and those of PING.
    due: [u32; 2],
    /// Error code of the client's GOAWAY.
    goaway: Option<u32>,
    begun: bool,
}

/// A stream that the client has opened.
struct Stream {
    window: i64,
    ended: bool,
    reset: bool,
}

const MAX_WINDOW: u32 = 0x7fff_ffff;
const MAX_PAYLOAD_BYTES: usize = 16_384;

impl ServerModel {
    pub fn new() -> ServerModel {
        ServerModel {
            window: 65_535,
            initial_window: 65_535,
            most_streams: Some(100),
            streams: BTreeMap::new(),
            early: BTreeMap::new(),
            gathering: None,
            due: [0; 2],
            goaway: None,
            begun: false,
        }
    }

    /// Returns the limit of concurrent streams, if the server has set one.
    pub fn most_streams(&self) -> Option<u32> {
        self.most_streams
    }

    /// Records complete frames that the client has read without a connection error.
    pub fn record_received(&mut self, frames: &[u8], first: bool) {
        if first {
            self.most_streams = None;
        }
        each_frame(frames, |kind, flags, stream, payload| match kind {
            SETTINGS if flags & ACK == 0 => self.apply_settings(payload),
            PING if flags & ACK == 0 => self.due[1] += 1,
            WINDOW_UPDATE => {
                let increment = i64::from(number(payload, 0) & MAX_WINDOW);
                match self.streams.get_mut(&stream) {
                    Some(stream) => stream.window += increment,
                    None if stream == 0 => self.window += increment,
                    None => *self.early.entry(stream).or_default() += increment,
                }
            }
            _ => {}
        });
    }

    fn apply_settings(&mut self, payload: &[u8]) {
        self.due[0] += 1;
        for setting in payload.chunks(6) {
            let value = number(setting, 2);
            match setting[1] {
                _ if setting[0] > 0 => {}
                3 => self.most_streams = Some(value),
                4 => {
                    let more = i64::from(value) - self.initial_window;
                    self.initial_window += more;
                    for stream in self.streams.values_mut() {
                        stream.window += more;
                    }
                }
                _ => {}
            }
        }
    }

    /// Checks the client's output; panics if the client must not send it now.
    pub fn check_output(&mut self, mut sent: &[u8]) {
        if !self.begun && !sent.is_empty() {
            sent = sent.strip_prefix(PREFACE).expect("the preface");
            assert_eq!((sent[3], sent[4]), (SETTINGS, 0), "SETTINGS come first");
            self.begun = true;
        }
        each_frame(sent, |kind, flags, stream, payload| {
            assert!(
                self.goaway.is_none_or(|code| code == 0),
                "no frame may follow a GOAWAY with an error"
            );
            assert!(payload.len() <= MAX_PAYLOAD_BYTES);
            if let Some(gathering) = self.gathering {
                assert_eq!((kind, stream), (CONTINUATION, gathering));
            }
            match kind {
                HEADERS => self.opens(stream, flags),
                CONTINUATION => assert!(self.gathering.is_some()),
                DATA => self.sends(stream, flags, payload.len() as i64),
                RST_STREAM => self.stream(stream).reset = true,
                WINDOW_UPDATE => {
                    assert!((1..=MAX_WINDOW).contains(&number(payload, 0)));
                    if stream > 0 {
                        self.stream(stream);
                    }
                }
                SETTINGS if flags & ACK > 0 => self.acknowledges(0),
                PING => self.acknowledges(1),
                SETTINGS => {}
                GOAWAY => self.goaway = Some(number(payload, 4)),
                _ => panic!("a client must not send frames of type {kind}"),
            }
            if kind == HEADERS || kind == CONTINUATION {
                self.gathering = (flags & END_HEADERS == 0).then_some(stream);
            }
        });
    }

    fn opens(&mut self, stream: u32, flags: u8) {
        assert!(
            self.goaway.is_none(),
            "no stream may be opened after GOAWAY"
        );
        let last = self.streams.keys().next_back().copied();
        assert!(stream % 2 == 1 && Some(stream) > last, "identifiers grow");
        let opened = Stream {
            window: self.initial_window + self.early.remove(&stream).unwrap_or(0),
            ended: flags & END_STREAM > 0,
            reset: false,
        };
        self.streams.insert(stream, opened);
    }

    fn sends(&mut self, stream: u32, flags: u8, bytes: i64) {
        self.window -= bytes;
        assert!(self.window >= 0, "DATA exceeds the connection's window");
        let stream = self.stream(stream);
        stream.window -= bytes;
        assert!(stream.window >= 0, "DATA exceeds the stream's window");
        assert!(!stream.ended, "DATA after END_STREAM");
        stream.ended = flags & END_STREAM > 0;
    }

    /// Returns a stream that the client has opened and not reset.
    fn stream(&mut self, stream: u32) -> &mut Stream {
        let stream = self.streams.get_mut(&stream).expect("an opened stream");
        assert!(!stream.reset, "frame after RST_STREAM");
        stream
    }

    fn acknowledges(&mut self, what: usize) {
        let due = self.due[what].checked_sub(1);
        self.due[what] = due.expect("acknowledgment without a request");
    }
}

impl Default for ServerModel {
    fn default() -> ServerModel {
        ServerModel::new()
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn each_frame(mut bytes: &[u8], mut look: impl FnMut(u8, u8, u32, &[u8])) {
    while let Some((header, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let (payload, rest) = rest.split_at(length);
        let stream = number(header, 5) & MAX_WINDOW;
        look(header[3], header[4], stream, payload);
        bytes = rest;
    }
    assert!(bytes.is_empty(), "whole frames");
}
