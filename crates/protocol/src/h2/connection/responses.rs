//! The frames of responses: HEADERS, CONTINUATION and DATA (RFC 9113 §8.1).

use super::Connection;
use super::reading::{DataFrame, ReadState};
use crate::compression::Fields;
use crate::h2::frame::{self, FrameHeader, FrameType, PAYLOAD_BYTES_MAX, flag};
use crate::h2::stream::StreamState;
use crate::h2::streams::StreamStatus;
use crate::h2::{CommonFrame, ConnectionEvent, ErrorCode, StreamViolation, Violation, limits};
use crate::response_stage::SectionRole;

/// Flags of trailers in a single frame.
const TRAILERS: u8 = flag::END_HEADERS | flag::END_STREAM;

/// A field block that continues in CONTINUATION frames (RFC 9113 §4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldBlock {
    stream: u32,
    /// True if the stream ends with this block.
    ends: bool,
    continuations: u32,
}

impl Connection {
    /// Checks that no other frame interrupts a field block (RFC 9113 §6.10).
    #[inline]
    pub(super) fn check_block(&self, header: FrameHeader) -> Result<(), Violation> {
        let continues = header.kind == FrameType::Continuation;
        match self.field_block {
            None if continues => Err(Violation::LoneContinuation),
            Some(field_block) if !continues || header.stream != field_block.stream => {
                Err(Violation::BlockInterrupted(header.kind))
            }
            _ => Ok(()),
        }
    }

    /// Decodes the field block of HEADERS or, if CONTINUATION follows, stores the fragment (RFC
    /// 9113 §6.2).
    #[inline]
    pub(super) fn headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
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
        self.field_block = Some(FieldBlock {
            stream: header.stream,
            ends,
            continuations: 0,
        });
        Ok(None)
    }

    /// Appends a fragment to the field block, and decodes the block when it is complete (RFC 9113
    /// §6.10).
    pub(super) fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        let Some(field_block) = &mut self.field_block else {
            return Ok(None);
        };
        field_block.continuations += 1;
        if field_block.continuations > limits::CONTINUATION_FRAMES_MAX {
            let limit = limits::CONTINUATION_FRAMES_MAX;
            return Err(Violation::TooManyContinuations { limit });
        }
        if self.block.len() + payload.len() > limits::HEADER_LIST_BYTES_MAX as usize {
            let limit_bytes = limits::HEADER_LIST_BYTES_MAX;
            return Err(Violation::BlockTooLong { limit_bytes });
        }
        self.block.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        let ends = field_block.ends;
        self.field_block = None;
        let fields = self.decoder.decode(&self.block).map_err(Violation::Hpack)?;
        if let Some(texts) = &mut self.texts {
            texts.read(&self.block);
        }
        self.section(header.stream, ends, fields)
    }

    /// Applies a decoded field block (a head, an interim head, or trailers) to its stream, and
    /// returns the resulting event.
    #[inline]
    fn section(
        &mut self,
        id: u32,
        ends: bool,
        fields: Fields,
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
        let Some(slot) = self.streams.find(id) else {
            // The stream was canceled, so only the decoder's table needed the block.
            self.note_idle_frame()?;
            return Ok(None);
        };
        self.idle_frames = 0;
        let stream = self.streams.at(slot);
        let tag = stream.tag;
        match stream.fields(&fields, ends) {
            Err(violation) => Ok(Some(self.break_stream(slot, violation))),
            Ok(SectionRole::Interim(status)) => Ok(Some(ConnectionEvent::Interim { tag, status })),
            Ok(SectionRole::Head(status)) => {
                if ends {
                    self.reading = ReadState::End(id);
                }
                Ok(Some(ConnectionEvent::Head { tag, status }))
            }
            Ok(SectionRole::Trailers) => {
                self.reading = ReadState::End(id);
                Ok(Some(ConnectionEvent::Trailers { tag }))
            }
        }
    }

    /// Handles the header of DATA (RFC 9113 §6.1). The whole payload counts toward flow control,
    /// even if the stream has ended (§5.1, §6.9.1).
    #[inline]
    pub(super) fn begin_data<'a>(
        &mut self,
        header: FrameHeader,
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        if header.stream == 0 {
            return Err(Violation::StreamZero(header.kind));
        }
        self.receive_window
            .take(header.length)
            .map_err(|_| Violation::ConnectionWindowExceeded)?;
        let Some(slot) = self.streams.find(header.stream) else {
            self.check_late(header)?;
            if header.length == 0 {
                self.note_idle_frame()?;
            }
            self.reading = ReadState::Skip(header.length);
            return Ok(None);
        };
        let window = &mut self.streams.at(slot).receive_window;
        if window.take(header.length).is_err() {
            self.reading = ReadState::Skip(header.length);
            let exceeded = StreamViolation::WindowExceeded;
            return Ok(Some(self.break_stream(slot, exceeded)));
        }
        if !header.has(flag::PADDED) {
            return self.begin_content(header, header.length, 0);
        }
        if header.length == 0 {
            return Err(Violation::FrameLength(header.kind));
        }
        self.reading = ReadState::PadLength(header);
        Ok(None)
    }

    pub(super) fn read_pad_length<'a>(
        &mut self,
        header: FrameHeader,
        input: &mut &'a [u8],
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        let Some((&padding, rest)) = input.split_first() else {
            return Ok(Some(ConnectionEvent::NeedMore));
        };
        *input = rest;
        let padding = u32::from(padding);
        let content = (header.length - 1)
            .checked_sub(padding)
            .ok_or(Violation::Padding)?;
        self.begin_content(header, content, padding)
    }

    /// Starts the content of a DATA frame: `content` bytes of a body, then padding.
    #[inline]
    fn begin_content<'a>(
        &mut self,
        header: FrameHeader,
        content: u32,
        padding: u32,
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        let ends = header.has(flag::END_STREAM);
        // The stream may have been canceled before the length of the padding arrived.
        let Some(slot) = self.streams.find(header.stream) else {
            self.reading = ReadState::Skip(content + padding);
            return Ok(None);
        };
        if content > 0 {
            self.idle_frames = 0;
        } else if !ends {
            self.note_idle_frame()?;
        }
        let stream = self.streams.at(slot);
        let tag = stream.tag;
        if let Err(violation) = stream.data(content) {
            self.reading = ReadState::Skip(content + padding);
            return Ok(Some(self.break_stream(slot, violation)));
        }
        if !ends && stream.is_window_low() {
            self.streams.schedule_window_update(slot);
        }
        self.reading = match (content + padding, ends) {
            (0, true) => ReadState::End(header.stream),
            (0, false) => ReadState::Header,
            _ => ReadState::Data(DataFrame {
                stream: header.stream,
                tag,
                content,
                padding,
                ends,
            }),
        };
        Ok(None)
    }

    /// Closes a stream that the peer ended, if its response is complete. Resets it if part of the
    /// request is unsent.
    #[inline]
    pub(super) fn end(&mut self, id: u32) -> Option<ConnectionEvent<'static>> {
        self.reading = ReadState::Header;
        // A stream that isn't live was canceled before its last event.
        let slot = self.streams.find(id)?;
        let stream = self.streams.at(slot);
        let (tag, state, call) = (stream.tag, stream.state, stream.call);
        if let Err(violation) = stream.check_end() {
            return Some(self.break_stream(slot, violation));
        }
        self.streams.close(slot);
        if state != StreamState::HalfClosedLocal {
            // The exchange is over, so the rest of the request isn't needed.
            frame::write_rst_stream(self.outbox.own(), id, ErrorCode::CANCEL);
        }
        Some(ConnectionEvent::End { tag, call })
    }

    /// Consumes a common frame at the front of `input`. Returns `None`, and consumes nothing, if the
    /// next bytes are anything else. They must then be passed to [`next`](Connection::next), which
    /// reports all frames as events, at twice the cost.
    #[inline(always)]
    pub fn next_common<'a>(&mut self, input: &mut &'a [u8]) -> Option<CommonFrame<'a>> {
        let is_between_frames = self.reading == ReadState::Header && self.kept.is_empty();
        if !is_between_frames || self.field_block.is_some() || !self.state.has_settings() {
            return None;
        }
        let (header, rest) = input.split_first_chunk()?;
        let header = FrameHeader::parse(header);
        let (payload, rest) = rest.split_at_checked(header.length as usize)?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return None;
        }
        let common = match (header.kind, header.flags) {
            (FrameType::Headers, flag::END_HEADERS) => self.common_head(header.stream, payload)?,
            (FrameType::Data, flag::END_STREAM) => self.common_rest(header.stream, payload)?,
            (FrameType::Data, 0) => self.common_part(header.stream, payload)?,
            (FrameType::Headers, TRAILERS) => self.common_trailers(header.stream, payload)?,
            _ => return None,
        };
        self.idle_frames = 0;
        *input = rest;
        Some(common)
    }

    #[inline(always)]
    fn common_head(&mut self, id: u32, block: &[u8]) -> Option<CommonFrame<'static>> {
        if self.texts.is_some() {
            return None;
        }
        let slot = self.streams.find(id)?;
        let stream = self.streams.at(slot);
        let tag = stream.tag;
        let status = self.decoder.decode_known(block, |fields| {
            let mut changed = *stream;
            match changed.fields(fields, false) {
                Ok(SectionRole::Head(status)) => {
                    stream.response = changed.response;
                    stream.call = changed.call;
                    Some(status)
                }
                _ => None,
            }
        })?;
        Some(CommonFrame::Head { tag, status })
    }

    /// The trailers of a gRPC call.
    fn common_trailers(&mut self, id: u32, block: &[u8]) -> Option<CommonFrame<'static>> {
        if self.texts.is_some() {
            return None;
        }
        let slot = self.streams.find(id)?;
        let mut stream = *self.streams.at(slot);
        if stream.state != StreamState::HalfClosedLocal {
            return None;
        }
        let call = self.decoder.decode_known(block, |fields| {
            let role = stream.fields(fields, true);
            let is_complete = role == Ok(SectionRole::Trailers) && stream.check_end().is_ok();
            is_complete.then_some(stream.call)
        })?;
        self.streams.close(slot);
        Some(CommonFrame::Trailers {
            tag: stream.tag,
            call,
        })
    }

    fn common_part<'a>(&mut self, id: u32, bytes: &'a [u8]) -> Option<CommonFrame<'a>> {
        let slot = self.streams.find(id)?;
        let mut stream = *self.streams.at(slot);
        let length = bytes.len() as u32;
        let is_valid = length > 0
            && stream.receive_window.take(length).is_ok()
            && stream.data(length).is_ok()
            && !stream.is_window_low();
        let mut receive_window = self.receive_window;
        if !is_valid || receive_window.take(length).is_err() {
            return None;
        }
        self.receive_window = receive_window;
        *self.streams.at(slot) = stream;
        Some(CommonFrame::Part {
            tag: stream.tag,
            bytes,
        })
    }

    #[inline(always)]
    fn common_rest<'a>(&mut self, id: u32, bytes: &'a [u8]) -> Option<CommonFrame<'a>> {
        let slot = self.streams.find(id)?;
        let mut stream = *self.streams.at(slot);
        let length = bytes.len() as u32;
        let is_valid = stream.state == StreamState::HalfClosedLocal
            && stream.receive_window.take(length).is_ok()
            && stream.data(length).is_ok()
            && stream.check_end().is_ok();
        let mut receive_window = self.receive_window;
        if !is_valid || receive_window.take(length).is_err() {
            return None;
        }
        self.receive_window = receive_window;
        self.streams.close(slot);
        Some(CommonFrame::Rest {
            tag: stream.tag,
            bytes,
            call: stream.call,
        })
    }

    /// Resets a stream because of a stream error (RFC 9113 §5.4.2). The connection continues.
    #[cold]
    pub(super) fn break_stream(
        &mut self,
        slot: usize,
        violation: StreamViolation,
    ) -> ConnectionEvent<'static> {
        let stream = self.streams.at(slot);
        let (id, tag) = (stream.id, stream.tag);
        self.streams.cancel(slot);
        frame::write_rst_stream(self.outbox.own(), id, violation.code());
        ConnectionEvent::Broken { tag, violation }
    }

    /// Checks a frame on a stream that isn't live. The frame is either late, which is allowed, or a
    /// violation (RFC 9113 §5.1).
    #[cold]
    pub(super) fn check_late(&self, header: FrameHeader) -> Result<(), Violation> {
        match (self.streams.status(header.stream), header.kind) {
            (StreamStatus::Idle, _) => Err(Violation::IdleStream(header.kind)),
            // Either side may send these frames before it is notified that the stream has ended.
            (StreamStatus::Closed, FrameType::RstStream | FrameType::WindowUpdate) => Ok(()),
            // nginx sends this frame after a head that ended the stream, if it could not write the
            // head immediately.
            (StreamStatus::Closed, FrameType::Data) if header.length == 0 => Ok(()),
            (StreamStatus::Closed, _) => Err(Violation::ClosedStream(header.kind)),
            (StreamStatus::Canceled, _) => Ok(()),
        }
    }
}

/// Returns the field block in the payload of HEADERS (RFC 9113 §6.2).
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
