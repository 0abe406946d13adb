//! Request streams, and the HEADERS and DATA of the responses on them (RFC 9114 §4.1).

use super::Connection;
use crate::h3::frame::{FrameHeader, FrameType};
use crate::h3::stream::FrameReading;
use crate::h3::{ConnectionEvent, ErrorCode, StreamViolation, Violation, limits};
use crate::response_stage::SectionRole;

impl Connection {
    /// Reads bytes that arrived on the stream of a request.
    #[inline]
    pub(super) fn read_response<'a>(
        &mut self,
        stream: u64,
        input: &mut &'a [u8],
    ) -> Result<ConnectionEvent<'a>, Violation> {
        let Some(slot) = self.streams.find(stream) else {
            // The request was canceled, or ended before these bytes arrived.
            *input = &[];
            return Ok(ConnectionEvent::NeedMore);
        };
        while !input.is_empty() {
            let event = match self.streams.at(slot).reading {
                FrameReading::Header => self.read_frame_header(slot, input)?,
                FrameReading::Section { length } => self.read_section(slot, length, input)?,
                FrameReading::Data { left } => Some(self.read_data(slot, left, input)),
                FrameReading::Skip { left } => {
                    let left = skip(left, input);
                    self.streams.at(slot).reading = match left {
                        0 => FrameReading::Header,
                        left => FrameReading::Skip { left },
                    };
                    None
                }
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
        Ok(ConnectionEvent::NeedMore)
    }

    #[inline]
    fn read_frame_header<'a>(
        &mut self,
        slot: usize,
        input: &mut &'a [u8],
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        let kept = &mut self.streams.at(slot).kept;
        let whole = if kept.is_empty() {
            FrameHeader::take(input)
        } else {
            None
        };
        let header = match whole {
            Some(header) => header,
            None => match FrameHeader::take_split(kept, input) {
                Some(header) => header,
                None => return Ok(None),
            },
        };
        self.begin_frame(slot, header)
    }

    /// Checks the header of a frame and prepares for its payload.
    #[inline]
    fn begin_frame<'a>(
        &mut self,
        slot: usize,
        header: FrameHeader,
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        let stream = self.streams.at(slot);
        stream.check_frame(header.kind)?;
        match header.kind {
            FrameType::Headers => {
                if header.length > u64::from(limits::FIELD_SECTION_BYTES_MAX) {
                    let limit_bytes = limits::FIELD_SECTION_BYTES_MAX;
                    let too_long = StreamViolation::SectionTooLong { limit_bytes };
                    return Ok(Some(self.break_stream(slot, too_long)));
                }
                stream.reading = FrameReading::Section {
                    length: header.length as usize,
                };
                if header.length == 0 {
                    return self.section(slot, &[]);
                }
            }
            FrameType::Data => {
                if let Err(fault) = stream.data(header.length) {
                    return Ok(Some(self.break_stream(slot, fault.into())));
                }
                match header.length {
                    0 => self.note_idle_frame()?,
                    left => {
                        stream.reading = FrameReading::Data { left };
                        self.idle_frames = 0;
                    }
                }
            }
            _ => {
                if let left @ 1.. = header.length {
                    stream.reading = FrameReading::Skip { left };
                }
                self.note_idle_frame()?;
            }
        }
        Ok(None)
    }

    #[inline]
    fn read_section<'a>(
        &mut self,
        slot: usize,
        length: usize,
        input: &mut &'a [u8],
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        let stream = self.streams.at(slot);
        if let Some((section, rest)) = input.split_at_checked(length)
            && stream.kept.is_empty()
        {
            *input = rest;
            return self.section(slot, section);
        }
        let missing = length - stream.kept.len();
        let (part, rest) = input.split_at(missing.min(input.len()));
        *input = rest;
        stream.kept.extend_from_slice(part);
        self.partial_bytes += part.len();
        if stream.kept.len() < length {
            let per_stream = limits::PARTIAL_BYTES_PER_STREAM * self.settings.streams as usize;
            let limit = limits::PARTIAL_BYTES_MAX + per_stream;
            if self.partial_bytes > limit {
                let limit_bytes = limit as u32;
                return Err(Violation::TooManyParts { limit_bytes });
            }
            return Ok(None);
        }
        self.partial_bytes -= length;
        let section = std::mem::take(&mut stream.kept);
        let event = self.section(slot, &section);
        let stream = self.streams.at(slot);
        // If a stream error has ended the stream, its slot is already vacant. Replacing the buffer
        // of a vacant slot is harmless.
        stream.kept = section;
        stream.kept.clear();
        if stream.kept.capacity() > limits::RETAINED_BUFFER_BYTES_MAX {
            stream.kept = Vec::new();
        }
        event
    }

    /// Decodes a complete field section (a head, an interim head, or trailers), applies it to its
    /// stream, and returns the resulting event.
    #[inline]
    fn section<'a>(
        &mut self,
        slot: usize,
        section: &[u8],
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        self.idle_frames = 0;
        let stream = self.streams.at(slot);
        stream.reading = FrameReading::Header;
        let tag = stream.tag;
        let fields = self
            .decoder
            .decode(stream.id, section)
            .map_err(Violation::Section)?;
        if self.decoder.output_bytes() > limits::DECODER_OUTPUT_BYTES_MAX {
            let limit_bytes = limits::DECODER_OUTPUT_BYTES_MAX as u32;
            return Err(Violation::TooManyUnread { limit_bytes });
        }
        match stream.section(&fields) {
            Err(fault) => Ok(Some(self.break_stream(slot, fault.into()))),
            Ok(SectionRole::Interim(status)) => Ok(Some(ConnectionEvent::Interim { tag, status })),
            Ok(SectionRole::Head(status)) => Ok(Some(ConnectionEvent::Head { tag, status })),
            Ok(SectionRole::Trailers) => Ok(Some(ConnectionEvent::Trailers { tag })),
        }
    }

    #[inline]
    fn read_data<'a>(
        &mut self,
        slot: usize,
        left: u64,
        input: &mut &'a [u8],
    ) -> ConnectionEvent<'a> {
        let length = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        let (bytes, rest) = input.split_at(length);
        *input = rest;
        let stream = self.streams.at(slot);
        stream.reading = match left - length as u64 {
            0 => FrameReading::Header,
            left => FrameReading::Data { left },
        };
        ConnectionEvent::Body {
            tag: stream.tag,
            bytes,
        }
    }

    /// Closes the stream of a response that ended (FIN). Returns an error if the end cuts off a
    /// frame.
    #[inline]
    pub(super) fn finish_response(
        &mut self,
        id: u64,
    ) -> Result<ConnectionEvent<'static>, Violation> {
        let Some(slot) = self.streams.find(id) else {
            return Ok(ConnectionEvent::Ignored);
        };
        let stream = self.streams.at(slot);
        if stream.reading != FrameReading::Header || !stream.kept.is_empty() {
            return Err(Violation::FrameTruncated);
        }
        let (tag, call) = (stream.tag, stream.call);
        if let Err(fault) = stream.check_end() {
            return Ok(self.break_stream(slot, fault.into()));
        }
        self.streams.close(slot);
        Ok(ConnectionEvent::End { tag, call })
    }

    /// Abandons the stream of a response that the peer reset (RESET_STREAM). Ignores streams that
    /// are not live.
    pub(super) fn reset_response(&mut self, id: u64, code: ErrorCode) -> ConnectionEvent<'static> {
        let Some(slot) = self.streams.find(id) else {
            return ConnectionEvent::Ignored;
        };
        let stream = self.streams.at(slot);
        let tag = stream.tag;
        let unprocessed = code == ErrorCode::REQUEST_REJECTED && !stream.is_answered();
        self.abandon(slot);
        ConnectionEvent::Reset {
            tag,
            code,
            unprocessed,
        }
    }
}

/// Skips up to `left` bytes. Returns the number of bytes that are still to be skipped.
pub(super) fn skip(left: u64, input: &mut &[u8]) -> u64 {
    let length = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
    *input = &input[length..];
    left - length as u64
}
