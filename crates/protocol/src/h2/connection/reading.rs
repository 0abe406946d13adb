//! Splits input of any size into frames.

use super::Connection;
use super::state::ConnectionState;
use crate::h2::frame::{FrameHeader, FrameType, HEADER_BYTES, PAYLOAD_BYTES_MAX, flag};
use crate::h2::{ConnectionEvent, Violation};

/// Meaning of the next byte, or an event that must be reported before that byte is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadState {
    /// The header of a frame.
    Header,
    /// The payload of a frame that is processed as a whole.
    Payload(FrameHeader),
    /// The length of a DATA frame's padding.
    PadLength(FrameHeader),
    /// The rest of a DATA frame of a live stream.
    Data(DataFrame),
    /// Bytes to be skipped.
    Skip(u32),
    /// The end of this stream must be reported, because the peer has ended the stream.
    End(u32),
    /// After GOAWAY, the remaining streams must be checked, beginning with this slot.
    Unprocessed(usize),
}

/// The remainder of a DATA frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataFrame {
    pub(super) stream: u32,
    pub(super) tag: u32,
    /// Remaining bytes of the body.
    pub(super) content: u32,
    /// Bytes of padding after the body.
    pub(super) padding: u32,
    /// True if the stream ends with this frame.
    pub(super) ends: bool,
}

impl ReadState {
    /// Skips the rest of the current frame if it belongs to a stream that has ended.
    pub(super) fn forget(&mut self, stream: u32) {
        if let ReadState::Data(frame) = self
            && frame.stream == stream
        {
            *self = ReadState::Skip(frame.content + frame.padding);
        }
    }
}

impl Connection {
    /// Consumes bytes from the front of `input` up to the next event.
    ///
    /// Call it until it returns [`ConnectionEvent::NeedMore`]. Only frames that arrive in parts are
    /// copied; body bytes never are.
    ///
    /// # Errors
    ///
    /// Returns the first connection error. Until a restart, each call returns the same violation.
    /// The next output notifies the peer of the error.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<ConnectionEvent<'a>, Violation> {
        if let ConnectionState::Failed { violation, .. } = self.state {
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
    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        match self.reading {
            ReadState::Header => self.read_header(input),
            ReadState::Payload(header) => self.read_payload(header, input),
            ReadState::PadLength(header) => self.read_pad_length(header, input),
            ReadState::Data(frame) => Ok(self.read_data(frame, input)),
            ReadState::Skip(bytes) => Ok(self.skip(bytes, input)),
            ReadState::End(stream) => Ok(self.end(stream)),
            ReadState::Unprocessed(slot) => Ok(self.report_unprocessed(slot)),
        }
    }

    #[inline]
    fn read_header<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        let header = match input.split_first_chunk() {
            Some((bytes, rest)) if self.kept.is_empty() => {
                *input = rest;
                if self.state == ConnectionState::Opening {
                    judge_opening(bytes)?;
                }
                FrameHeader::parse(bytes)
            }
            _ => match self.read_split_header(input)? {
                Some(header) => header,
                None => return Ok(Some(ConnectionEvent::NeedMore)),
            },
        };
        self.begin(header)
    }

    fn read_split_header(&mut self, input: &mut &[u8]) -> Result<Option<FrameHeader>, Violation> {
        self.keep(HEADER_BYTES, input);
        if self.state == ConnectionState::Opening {
            judge_opening(&self.kept)?;
        }
        let Some(bytes) = self.kept.first_chunk() else {
            return Ok(None);
        };
        let header = FrameHeader::parse(bytes);
        self.kept.clear();
        Ok(Some(header))
    }

    /// Moves bytes from the input to `kept` until `kept` has `bytes` bytes.
    fn keep(&mut self, bytes: usize, input: &mut &[u8]) {
        let missing = bytes - self.kept.len();
        let (part, rest) = input.split_at(missing.min(input.len()));
        self.kept.extend_from_slice(part);
        *input = rest;
    }

    /// Checks a frame header against the state of the connection.
    #[inline]
    fn begin<'a>(&mut self, header: FrameHeader) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        if self.state == ConnectionState::Opening
            && (header.kind != FrameType::Settings || header.has(flag::ACK))
        {
            return Err(Violation::NoSettings);
        }
        if header.length > PAYLOAD_BYTES_MAX as u32 {
            let limit_bytes = PAYLOAD_BYTES_MAX as u32;
            return Err(Violation::FrameTooLong { limit_bytes });
        }
        self.check_block(header)?;
        match header.kind {
            FrameType::Data => return self.begin_data(header),
            FrameType::Unknown => {
                self.note_idle_frame()?;
                self.reading = ReadState::Skip(header.length);
            }
            _ => {
                self.check_header(header)?;
                self.reading = ReadState::Payload(header);
            }
        }
        Ok(None)
    }

    #[inline]
    fn read_payload<'a>(
        &mut self,
        header: FrameHeader,
        input: &mut &'a [u8],
    ) -> Result<Option<ConnectionEvent<'a>>, Violation> {
        let bytes = header.length as usize;
        if let Some((payload, rest)) = input.split_at_checked(bytes)
            && self.kept.is_empty()
        {
            *input = rest;
            self.reading = ReadState::Header;
            return self.frame(header, payload);
        }
        self.keep(bytes, input);
        if self.kept.len() < bytes {
            return Ok(Some(ConnectionEvent::NeedMore));
        }
        self.reading = ReadState::Header;
        let mut kept = std::mem::take(&mut self.kept);
        let event = self.frame(header, &kept);
        kept.clear();
        self.kept = kept;
        event
    }

    /// Passes a complete frame other than DATA to the method for its type. Ignores unknown types.
    #[inline]
    fn frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<ConnectionEvent<'static>>, Violation> {
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
    fn read_data<'a>(
        &mut self,
        mut frame: DataFrame,
        input: &mut &'a [u8],
    ) -> Option<ConnectionEvent<'a>> {
        if input.is_empty() {
            return Some(ConnectionEvent::NeedMore);
        }
        let (bytes, rest) = input.split_at(input.len().min(frame.content as usize));
        *input = rest;
        frame.content -= bytes.len() as u32;
        self.reading = match frame {
            DataFrame {
                content: 0,
                padding: 0,
                ..
            } => after_data(frame),
            _ => ReadState::Data(frame),
        };
        if bytes.is_empty() {
            return self.read_padding(frame, input);
        }
        Some(ConnectionEvent::Body {
            tag: frame.tag,
            bytes,
        })
    }

    fn read_padding<'a>(
        &mut self,
        mut frame: DataFrame,
        input: &mut &'a [u8],
    ) -> Option<ConnectionEvent<'a>> {
        let bytes = input.len().min(frame.padding as usize);
        *input = &input[bytes..];
        frame.padding -= bytes as u32;
        self.reading = match frame.padding {
            0 => after_data(frame),
            _ => ReadState::Data(frame),
        };
        None
    }

    fn skip<'a>(&mut self, bytes: u32, input: &mut &'a [u8]) -> Option<ConnectionEvent<'a>> {
        let skipped = input.len().min(bytes as usize);
        *input = &input[skipped..];
        match bytes - skipped as u32 {
            0 => {
                self.reading = ReadState::Header;
                None
            }
            left => {
                self.reading = ReadState::Skip(left);
                Some(ConnectionEvent::NeedMore)
            }
        }
    }
}

/// Returns the state that follows a DATA frame.
#[inline]
fn after_data(frame: DataFrame) -> ReadState {
    if frame.ends {
        ReadState::End(frame.stream)
    } else {
        ReadState::Header
    }
}

/// Checks whether the first bytes from the peer belong to another protocol. More bytes never change
/// the result, so it doesn't depend on how the input is split.
#[cold]
fn judge_opening(bytes: &[u8]) -> Result<(), Violation> {
    match bytes {
        [b'H', b'T', b'T', b'P', b'/', ..] => Err(Violation::Http1),
        // A TLS record: its type (alert, handshake), then the major version 3 (RFC 8446 §5.1).
        [0x15 | 0x16, 0x03, ..] => Err(Violation::Tls),
        _ => Ok(()),
    }
}
