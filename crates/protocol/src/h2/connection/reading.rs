//! Bytes into frames, whatever pieces they come in.

use super::Connection;
use crate::h2::frame::{FrameHeader, FrameType, HEADER_BYTES, MAX_PAYLOAD_BYTES, flag};
use crate::h2::{Event, Violation};

/// What the next byte belongs to, or what is to be reported before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The header of a frame.
    Header,
    /// The payload of a frame that is looked at as a whole.
    Payload(FrameHeader),
    /// The length of a DATA frame's padding.
    PadLength(FrameHeader),
    /// The rest of a DATA frame of a live stream.
    Data(DataFrame),
    /// So many bytes that mean nothing.
    Skip(u32),
    /// The peer has ended this stream.
    End(u32),
    /// GOAWAY: the streams from this place on are to be looked at.
    Unprocessed(usize),
}

/// What is left of a DATA frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataFrame {
    pub(super) stream: u32,
    pub(super) tag: u32,
    /// Bytes of the body.
    pub(super) content: u32,
    /// Bytes behind it.
    pub(super) padding: u32,
    /// The stream ends behind it.
    pub(super) ends: bool,
}

impl Reading {
    /// A stream is over: what is left of its frame means nothing.
    pub(super) fn forget(&mut self, stream: u32) {
        if let Reading::Data(frame) = self
            && frame.stream == stream
        {
            *self = Reading::Skip(frame.content + frame.padding);
        }
    }
}

impl Connection {
    /// Consumes bytes from the front of `input` up to the next event.
    ///
    /// To be called again until it returns [`Event::NeedMore`]. Frames that come in parts, and only
    /// those, are copied; the bytes of bodies never are.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with the connection. Until it is restarted each call fails
    /// with the same violation; what there is to send says it to the peer.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Violation> {
        if let Some(violation) = self.failed {
            return Err(violation);
        }
        loop {
            match self.step(input) {
                Ok(None) => {}
                Ok(Some(event)) => return Ok(event),
                Err(violation) => {
                    self.fail(violation);
                    return Err(violation);
                }
            }
        }
    }

    #[inline]
    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Violation> {
        match self.reading {
            Reading::Header => self.read_header(input),
            Reading::Payload(header) => self.read_payload(header, input),
            Reading::PadLength(header) => self.read_pad_length(header, input),
            Reading::Data(frame) => Ok(self.read_data(frame, input)),
            Reading::Skip(bytes) => Ok(self.skip(bytes, input)),
            Reading::End(stream) => Ok(self.end(stream)),
            Reading::Unprocessed(place) => Ok(self.report_unprocessed(place)),
        }
    }

    #[inline]
    fn read_header<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Violation> {
        let header = match input.split_first_chunk() {
            Some((bytes, rest)) if self.kept.is_empty() => {
                *input = rest;
                if !self.peer.seen {
                    judge_opening(bytes)?;
                }
                FrameHeader::parse(bytes)
            }
            _ => match self.read_split_header(input)? {
                Some(header) => header,
                None => return Ok(Some(Event::NeedMore)),
            },
        };
        self.begin(header)
    }

    fn read_split_header(&mut self, input: &mut &[u8]) -> Result<Option<FrameHeader>, Violation> {
        self.keep(HEADER_BYTES, input);
        if !self.peer.seen {
            judge_opening(&self.kept)?;
        }
        let Some(bytes) = self.kept.first_chunk() else {
            return Ok(None);
        };
        let header = FrameHeader::parse(bytes);
        self.kept.clear();
        Ok(Some(header))
    }

    /// Moves bytes from the input until so many are kept.
    fn keep(&mut self, bytes: usize, input: &mut &[u8]) {
        let missing = bytes - self.kept.len();
        let (part, rest) = input.split_at(missing.min(input.len()));
        self.kept.extend_from_slice(part);
        *input = rest;
    }

    /// The header of a frame is read: may such a frame come here?
    #[inline]
    fn begin<'a>(&mut self, header: FrameHeader) -> Result<Option<Event<'a>>, Violation> {
        if !self.peer.seen && (header.kind != FrameType::Settings || header.has(flag::ACK)) {
            return Err(Violation::NoSettings);
        }
        if header.length > MAX_PAYLOAD_BYTES as u32 {
            let limit_bytes = MAX_PAYLOAD_BYTES as u32;
            return Err(Violation::FrameTooLong { limit_bytes });
        }
        self.check_block(header)?;
        match header.kind {
            FrameType::Data => return self.begin_data(header),
            FrameType::Unknown => {
                self.note_idle_frame()?;
                self.reading = Reading::Skip(header.length);
            }
            _ => {
                self.check_header(header)?;
                self.reading = Reading::Payload(header);
            }
        }
        Ok(None)
    }

    #[inline]
    fn read_payload<'a>(
        &mut self,
        header: FrameHeader,
        input: &mut &'a [u8],
    ) -> Result<Option<Event<'a>>, Violation> {
        let bytes = header.length as usize;
        if let Some((payload, rest)) = input.split_at_checked(bytes)
            && self.kept.is_empty()
        {
            *input = rest;
            self.reading = Reading::Header;
            return self.frame(header, payload);
        }
        self.keep(bytes, input);
        if self.kept.len() < bytes {
            return Ok(Some(Event::NeedMore));
        }
        self.reading = Reading::Header;
        let mut kept = std::mem::take(&mut self.kept);
        let event = self.frame(header, &kept);
        kept.clear();
        self.kept = kept;
        event
    }

    /// A whole frame other than DATA has come.
    #[inline]
    fn frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        if header.kind == FrameType::Headers {
            return self.headers(header, payload);
        }
        match header.kind {
            FrameType::Continuation => self.continuation(header, payload),
            FrameType::Settings if header.has(flag::ACK) => self.settings_ack(),
            FrameType::Settings => self.settings(payload),
            FrameType::Ping => self.ping(header, payload),
            FrameType::WindowUpdate => self.window_update(header, payload),
            FrameType::RstStream => self.rst_stream(header, payload),
            FrameType::GoAway => self.goaway(payload),
            FrameType::Priority => self.priority(header),
            FrameType::Data | FrameType::Headers | FrameType::PushPromise | FrameType::Unknown => {
                Ok(None)
            }
        }
    }

    #[inline]
    fn read_data<'a>(&mut self, mut frame: DataFrame, input: &mut &'a [u8]) -> Option<Event<'a>> {
        if input.is_empty() {
            return Some(Event::NeedMore);
        }
        let (bytes, rest) = input.split_at(input.len().min(frame.content as usize));
        *input = rest;
        frame.content -= bytes.len() as u32;
        self.reading = match frame {
            DataFrame {
                content: 0,
                padding: 0,
                ..
            } => behind(frame),
            _ => Reading::Data(frame),
        };
        if bytes.is_empty() {
            return self.read_padding(frame, input);
        }
        Some(Event::Body {
            tag: frame.tag,
            bytes,
        })
    }

    fn read_padding<'a>(
        &mut self,
        mut frame: DataFrame,
        input: &mut &'a [u8],
    ) -> Option<Event<'a>> {
        let bytes = input.len().min(frame.padding as usize);
        *input = &input[bytes..];
        frame.padding -= bytes as u32;
        self.reading = match frame.padding {
            0 => behind(frame),
            _ => Reading::Data(frame),
        };
        None
    }

    fn skip<'a>(&mut self, bytes: u32, input: &mut &'a [u8]) -> Option<Event<'a>> {
        let skipped = input.len().min(bytes as usize);
        *input = &input[skipped..];
        match bytes - skipped as u32 {
            0 => {
                self.reading = Reading::Header;
                None
            }
            left => {
                self.reading = Reading::Skip(left);
                Some(Event::NeedMore)
            }
        }
    }
}

/// What follows a DATA frame.
#[inline]
fn behind(frame: DataFrame) -> Reading {
    if frame.ends {
        Reading::End(frame.stream)
    } else {
        Reading::Header
    }
}

/// Judges the first bytes of a peer that might speak something else. More bytes never change a
/// judgement, so that it does not depend on how they were split.
#[cold]
fn judge_opening(bytes: &[u8]) -> Result<(), Violation> {
    match bytes {
        [b'H', b'T', b'T', b'P', b'/', ..] => Err(Violation::Http1),
        // A TLS record: its type (alert, handshake), then the major version 3 (RFC 8446 §5.1).
        [0x15 | 0x16, 0x03, ..] => Err(Violation::Tls),
        _ => Ok(()),
    }
}
