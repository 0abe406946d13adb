//! HEADERS, CONTINUATION and DATA: what answers are made of (RFC 9113 §8.1).

use super::Connection;
use super::reading::{DataFrame, Reading};
use crate::h2::frame::{self, FrameHeader, FrameType, flag};
use crate::h2::hpack::Fields;
use crate::h2::stream::{Section, State};
use crate::h2::streams::Standing;
use crate::h2::{ErrorCode, Event, StreamViolation, Violation, limits};

/// A block of fields that goes on in further frames (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gathering {
    stream: u32,
    /// The stream ends behind the block.
    ends: bool,
    continuations: u32,
}

impl Connection {
    /// Within a block of fields nothing but the rest of it may come (RFC 9113 §6.10).
    #[inline]
    pub(super) fn check_block(&self, header: FrameHeader) -> Result<(), Violation> {
        let continues = header.kind == FrameType::Continuation;
        match self.gathering {
            None if continues => Err(Violation::LoneContinuation),
            Some(gathering) if !continues || header.stream != gathering.stream => {
                Err(Violation::BlockInterrupted(header.kind))
            }
            _ => Ok(()),
        }
    }

    /// RFC 9113 §6.2.
    #[inline]
    pub(super) fn headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        let ends = header.has(flag::END_STREAM);
        let fragment = match header.flags & (flag::PADDED | flag::PRIORITY) {
            0 => payload,
            _ => fragment(header, payload)?,
        };
        if header.has(flag::END_HEADERS) {
            let fields = self.decoder.decode(fragment).map_err(Violation::Hpack)?;
            if let Some(texts) = &mut self.texts {
                texts.read(fragment);
            }
            return self.section(header.stream, ends, fields);
        }
        self.block.clear();
        self.block.extend_from_slice(fragment);
        self.gathering = Some(Gathering {
            stream: header.stream,
            ends,
            continuations: 0,
        });
        Ok(None)
    }

    /// RFC 9113 §6.10.
    pub(super) fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event<'static>>, Violation> {
        let Some(gathering) = &mut self.gathering else {
            return Ok(None);
        };
        gathering.continuations += 1;
        if gathering.continuations > limits::CONTINUATIONS {
            let limit = limits::CONTINUATIONS;
            return Err(Violation::TooManyContinuations { limit });
        }
        if self.block.len() + payload.len() > limits::HEADER_LIST_BYTES as usize {
            let limit_bytes = limits::HEADER_LIST_BYTES;
            return Err(Violation::BlockTooLong { limit_bytes });
        }
        self.block.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let ends = gathering.ends;
        self.gathering = None;
        let fields = self.decoder.decode(&self.block).map_err(Violation::Hpack)?;
        if let Some(texts) = &mut self.texts {
            texts.read(&self.block);
        }
        self.section(header.stream, ends, fields)
    }

    /// A block of fields is decoded: a head, an interim one, or trailers.
    #[inline]
    fn section(
        &mut self,
        id: u32,
        ends: bool,
        fields: Fields,
    ) -> Result<Option<Event<'static>>, Violation> {
        let Some(place) = self.streams.find(id) else {
            // It was cancelled; only the decoder had to see this.
            self.note_idle_frame()?;
            return Ok(None);
        };
        self.idle_frames = 0;
        let stream = self.streams.at(place);
        let tag = stream.tag;
        match stream.fields(&fields, ends) {
            Err(violation) => Ok(Some(self.break_stream(place, violation))),
            Ok(Section::Interim(status)) => Ok(Some(Event::Interim { tag, status })),
            Ok(Section::Head(status)) => {
                if ends {
                    self.reading = Reading::End(id);
                }
                Ok(Some(Event::Head { tag, status }))
            }
            Ok(Section::Trailers) => Ok(self.end(id)),
        }
    }

    /// The header of DATA is read (RFC 9113 §6.1). All of its payload counts for flow control,
    /// whatever becomes of the stream (§5.1, §6.9.1).
    #[inline]
    pub(super) fn begin_data<'a>(
        &mut self,
        header: FrameHeader,
    ) -> Result<Option<Event<'a>>, Violation> {
        if header.stream == 0 {
            return Err(Violation::StreamZero(header.kind));
        }
        self.receive_window
            .take(header.length)
            .map_err(|_| Violation::ConnectionWindowExceeded)?;
        let Some(place) = self.streams.find(header.stream) else {
            self.check_late(header)?;
            if header.length == 0 {
                self.note_idle_frame()?;
            }
            self.reading = Reading::Skip(header.length);
            return Ok(None);
        };
        let window = &mut self.streams.at(place).receive_window;
        if window.take(header.length).is_err() {
            self.reading = Reading::Skip(header.length);
            let exceeded = StreamViolation::WindowExceeded;
            return Ok(Some(self.break_stream(place, exceeded)));
        }
        if !header.has(flag::PADDED) {
            return self.begin_content(header, header.length, 0);
        }
        if header.length == 0 {
            return Err(Violation::FrameLength(header.kind));
        }
        self.reading = Reading::PadLength(header);
        Ok(None)
    }

    pub(super) fn read_pad_length<'a>(
        &mut self,
        header: FrameHeader,
        input: &mut &'a [u8],
    ) -> Result<Option<Event<'a>>, Violation> {
        let Some((&padding, rest)) = input.split_first() else {
            return Ok(Some(Event::NeedMore));
        };
        *input = rest;
        let padding = u32::from(padding);
        let content = (header.length - 1)
            .checked_sub(padding)
            .ok_or(Violation::Padding)?;
        self.begin_content(header, content, padding)
    }

    /// So many bytes of a body come next, and then so many of padding.
    #[inline]
    fn begin_content<'a>(
        &mut self,
        header: FrameHeader,
        content: u32,
        padding: u32,
    ) -> Result<Option<Event<'a>>, Violation> {
        let ends = header.has(flag::END_STREAM);
        // It may have been cancelled before its padding's length came.
        let Some(place) = self.streams.find(header.stream) else {
            self.reading = Reading::Skip(content + padding);
            return Ok(None);
        };
        if content > 0 {
            self.idle_frames = 0;
        } else if !ends {
            self.note_idle_frame()?;
        }
        let stream = self.streams.at(place);
        let tag = stream.tag;
        if let Err(violation) = stream.data(content) {
            self.reading = Reading::Skip(content + padding);
            return Ok(Some(self.break_stream(place, violation)));
        }
        if !ends && stream.is_window_low() {
            self.streams.open_window(place);
        }
        self.reading = match (content + padding, ends) {
            (0, true) => Reading::End(header.stream),
            (0, false) => Reading::Header,
            _ => Reading::Data(DataFrame {
                stream: header.stream,
                tag,
                content,
                padding,
                ends,
            }),
        };
        Ok(None)
    }

    /// The peer has ended a stream.
    #[inline]
    pub(super) fn end(&mut self, id: u32) -> Option<Event<'static>> {
        self.reading = Reading::Header;
        // Where it isn't live, it was cancelled before its last event.
        let place = self.streams.find(id)?;
        let stream = self.streams.at(place);
        let (tag, state) = (stream.tag, stream.state);
        if let Err(violation) = stream.check_end() {
            return Some(self.break_stream(place, violation));
        }
        self.streams.close(place);
        if state != State::HalfClosedLocal {
            // The exchange is over; nobody needs the rest of the request.
            frame::write_rst_stream(self.outbox.own(), id, ErrorCode::CANCEL);
        }
        Some(Event::End { tag })
    }

    /// A stream error (RFC 9113 §5.4.2).
    #[cold]
    pub(super) fn break_stream(
        &mut self,
        place: usize,
        violation: StreamViolation,
    ) -> Event<'static> {
        let stream = self.streams.at(place);
        let (id, tag) = (stream.id, stream.tag);
        self.streams.cancel(place);
        frame::write_rst_stream(self.outbox.own(), id, violation.code());
        Event::Broken { tag, violation }
    }

    /// A frame has come for a stream that is not live. Is it late, or is it wrong (RFC 9113 §5.1)?
    #[cold]
    pub(super) fn check_late(&self, header: FrameHeader) -> Result<(), Violation> {
        match (self.streams.standing(header.stream), header.kind) {
            (Standing::Idle, _) => Err(Violation::IdleStream(header.kind)),
            // Either side may send these before it knows that the stream is over.
            (Standing::Closed, FrameType::RstStream | FrameType::WindowUpdate) => Ok(()),
            // nginx sends it behind a head that ended the stream, where it could not write the head
            // at once.
            (Standing::Closed, FrameType::Data) if header.length == 0 => Ok(()),
            (Standing::Closed, _) => Err(Violation::ClosedStream(header.kind)),
            (Standing::Cancelled, _) => Ok(()),
        }
    }
}

/// The block of fields within the payload of HEADERS (RFC 9113 §6.2).
fn fragment(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Violation> {
    let too_short = Violation::FrameLength(header.kind);
    let (padding, mut content) = if header.has(flag::PADDED) {
        payload
            .split_first()
            .ok_or(too_short)
            .map(|(&p, rest)| (usize::from(p), rest))?
    } else {
        (0, payload)
    };
    if header.has(flag::PRIORITY) {
        content = content.get(5..).ok_or(too_short)?;
    }
    let bytes = content
        .len()
        .checked_sub(padding)
        .ok_or(Violation::Padding)?;
    Ok(&content[..bytes])
}
