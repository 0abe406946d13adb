//! Parser of responses that arrive in pieces of any size.

use super::chunk::{ChunkDecoder, ChunkPiece, take};
use super::first_bytes::{self, FirstBytes};
use super::head::{FoldTarget, HeadLines, split_field, whole_field};
use super::lines::{Lines, SectionTooLong};
use super::plain;
use super::{Eof, Expects, Framing, Head, Limits, ResponseEvent, Violation};

/// Parses the responses of successive exchanges on one connection.
///
/// ```text
///            ┌──────── interim (1xx) ────────┐
///            ▼                               │            ┌► Length ───────┐
///  start ► StatusLine ──line──► Fields ──empty line──► body ├► ChunkDecoder ► Trailers ├─► End ► Idle
///                                                         ├► UntilClose ── eof ─┘
///                                                         └► (none) ───────┘
/// ```
///
/// Every violation leads to the state `Failed`, which only [`ResponseParser::start`] leaves.
#[derive(Debug)]
pub struct ResponseParser {
    limits: Limits,
    expects: Expects,
    state: ResponseState,
    lines: Lines,
    interims: u32,
    started: bool,
    reusable: bool,
}

/// Position in a response.
#[derive(Debug)]
enum ResponseState {
    /// No response is expected.
    Idle,
    StatusLine,
    Fields(HeadLines),
    /// Number of remaining bytes of the body; 0 if there are none.
    Length(u64),
    ChunkDecoder(ChunkDecoder),
    Trailers(FoldTarget),
    UntilClose,
    Failed(Violation),
}

impl ResponseParser {
    /// Creates a parser for a new connection. No response is expected until
    /// [`ResponseParser::start`] is called.
    #[must_use]
    pub fn new(limits: Limits) -> ResponseParser {
        let head_bytes = limits.head_bytes.max(Limits::HEAD_MIN);
        ResponseParser {
            limits: Limits {
                head_bytes,
                ..limits
            },
            expects: Expects::Body,
            state: ResponseState::Idle,
            lines: Lines::default(),
            interims: 0,
            started: false,
            reusable: false,
        }
    }

    /// Starts a new exchange. Must be called before a request is sent. Replaces the parser by a new
    /// one, which takes over the memory, up to the limit on a head.
    #[inline]
    pub fn start(&mut self, expects: Expects) {
        *self = ResponseParser {
            limits: self.limits,
            expects,
            state: ResponseState::StatusLine,
            lines: self.lines.next_section(),
            interims: 0,
            started: false,
            reusable: false,
        };
    }

    /// Consumes bytes from the front of `input` up to the next event.
    ///
    /// Call it until it returns [`ResponseEvent::NeedMore`] or [`ResponseEvent::End`]. Only split
    /// heads are copied; the memory is kept for the next exchange.
    ///
    /// # Errors
    ///
    /// Returns the first violation in the response. The connection must not be used again; until
    /// the next start, each call returns the same violation.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<ResponseEvent<'a>, Violation> {
        self.started |= !input.is_empty();
        let result = self.advance(input);
        if let Err(violation) = result {
            self.state = ResponseState::Failed(violation);
        }
        result
    }

    /// Returns the rest of the response if it is known to be exactly as long as `input`: the body
    /// that [`ResponseParser::next`] would return, followed by the end. Otherwise returns `None`
    /// and changes nothing.
    ///
    /// For small responses, this avoids stepping through the remaining states after the head.
    #[inline]
    pub fn rest<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        match self.state {
            ResponseState::Length(left) if left == input.len() as u64 => {
                self.state = ResponseState::Idle;
                Some(std::mem::take(input))
            }
            _ => None,
        }
    }

    /// Notifies the parser that the peer closed its side. All bytes received before that must
    /// already have been passed to [`ResponseParser::next`].
    ///
    /// If the close delimits the body, this completes the body and the exchange.
    pub fn eof(&mut self) -> Eof {
        match self.state {
            ResponseState::UntilClose | ResponseState::Length(0) => {
                self.state = ResponseState::Idle;
                Eof::Complete
            }
            ResponseState::Idle => Eof::Idle,
            ResponseState::StatusLine if !self.started => Eof::Idle,
            _ => Eof::Truncated,
        }
    }

    /// Returns true if the last part of the body completed a chunk.
    #[must_use]
    pub fn is_at_chunk_end(&self) -> bool {
        matches!(&self.state, ResponseState::ChunkDecoder(chunks) if chunks.is_at_end())
    }

    /// Returns true if any byte of a response was received since the last start.
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    fn advance<'a>(&mut self, input: &mut &'a [u8]) -> Result<ResponseEvent<'a>, Violation> {
        match &mut self.state {
            ResponseState::StatusLine => self.status_line(input),
            ResponseState::Fields(_) => self.fields(input),
            ResponseState::Length(0) => Ok(self.end()),
            ResponseState::Length(_) | ResponseState::UntilClose if input.is_empty() => {
                Ok(ResponseEvent::NeedMore)
            }
            ResponseState::Length(left) => Ok(ResponseEvent::Body(take(input, left))),
            ResponseState::UntilClose => Ok(ResponseEvent::Body(std::mem::take(input))),
            ResponseState::ChunkDecoder(_) => self.chunks(input),
            ResponseState::Trailers(_) => self.trailers(input),
            ResponseState::Idle if input.is_empty() => Ok(ResponseEvent::NeedMore),
            ResponseState::Idle => Err(Violation::BytesAfterEnd),
            ResponseState::Failed(violation) => Err(*violation),
        }
    }

    fn status_line<'a>(&mut self, input: &mut &'a [u8]) -> Result<ResponseEvent<'a>, Violation> {
        let limit_bytes = self.limits.head_bytes;
        if self.lines.kept().is_empty()
            && let mut head = HeadLines::new()
            && let Some(bytes) = plain::read_head(&mut head, input)
            && bytes <= limit_bytes
            && let Ok(head) = head.finish(self.expects)
        {
            *input = &input[bytes..];
            return Ok(self.body_follows(head));
        }
        let too_long = |SectionTooLong| Violation::HeadTooLong { limit_bytes };
        let whole_start =
            self.lines.kept().is_empty() && input.starts_with(first_bytes::STATUS_LINE_START);
        if !whole_start && self.first_bytes(input)? == FirstBytes::Undecided {
            self.lines.keep(input, limit_bytes).map_err(too_long)?;
            return Ok(ResponseEvent::NeedMore);
        }
        let Some(line) = self.lines.next(input, limit_bytes).map_err(too_long)? else {
            return Ok(ResponseEvent::NeedMore);
        };
        let mut head = HeadLines::new();
        head.status_line(line)?;
        self.state = ResponseState::Fields(head);
        self.fields(input)
    }

    /// Examines the first bytes of the response: those received earlier, followed by `input`.
    fn first_bytes(&self, input: &[u8]) -> Result<FirstBytes, Violation> {
        let mut first = [0; first_bytes::FIRST_BYTES_MAX];
        let mut length = 0;
        for (slot, &byte) in first.iter_mut().zip(self.lines.kept().iter().chain(input)) {
            *slot = byte;
            length += 1;
        }
        first_bytes::judge(&first[..length])
    }

    fn fields<'a>(&mut self, input: &mut &'a [u8]) -> Result<ResponseEvent<'a>, Violation> {
        let limit_bytes = self.limits.head_bytes;
        let ResponseState::Fields(head) = &mut self.state else {
            return Ok(ResponseEvent::NeedMore);
        };
        let too_long = Violation::HeadTooLong { limit_bytes };
        loop {
            if self.lines.at_beginning()
                && let Some((field, bytes)) = whole_field(input)
            {
                self.lines
                    .skip(input, bytes, limit_bytes)
                    .map_err(|SectionTooLong| too_long)?;
                head.field(field)?;
                continue;
            }
            match self.lines.next(input, limit_bytes) {
                Err(SectionTooLong) => return Err(too_long),
                Ok(None) => return Ok(ResponseEvent::NeedMore),
                Ok(Some([])) => break,
                Ok(Some(line)) => head.field_line(line)?,
            }
        }
        self.lines = self.lines.next_section();
        let status = head.status();
        if (100..200).contains(&status) {
            return self.interim(status);
        }
        let head = head.finish(self.expects)?;
        Ok(self.body_follows(head))
    }

    #[inline]
    fn body_follows<'a>(&mut self, head: Head) -> ResponseEvent<'a> {
        self.reusable = head.reusable;
        self.state = match (head.framing, head.length) {
            (Framing::Chunked, _) => ResponseState::ChunkDecoder(ChunkDecoder::new()),
            (_, Some(length)) => ResponseState::Length(length),
            (_, None) => ResponseState::UntilClose,
        };
        ResponseEvent::Head(head)
    }

    /// Ends an interim response, which never has a body, whatever its fields (RFC 9112 §6.3).
    fn interim<'a>(&mut self, status: u16) -> Result<ResponseEvent<'a>, Violation> {
        if status == 101 {
            self.state = ResponseState::Idle;
            return Ok(ResponseEvent::SwitchingProtocols);
        }
        if self.interims == self.limits.interim {
            return Err(Violation::TooManyInterim {
                limit: self.limits.interim,
            });
        }
        self.interims += 1;
        self.state = ResponseState::StatusLine;
        Ok(ResponseEvent::Interim(status))
    }

    fn chunks<'a>(&mut self, input: &mut &'a [u8]) -> Result<ResponseEvent<'a>, Violation> {
        let ResponseState::ChunkDecoder(chunks) = &mut self.state else {
            return Ok(ResponseEvent::NeedMore);
        };
        match chunks.next(input, self.limits.chunk_line_bytes)? {
            ChunkPiece::NeedMore => Ok(ResponseEvent::NeedMore),
            ChunkPiece::Data(piece) => Ok(ResponseEvent::Body(piece)),
            ChunkPiece::Last => {
                self.state = ResponseState::Trailers(FoldTarget::Nothing);
                self.trailers(input)
            }
        }
    }

    /// Checks the syntax of the trailers and otherwise ignores them, because they can't affect the
    /// framing (RFC 9110 §6.5.1).
    fn trailers<'a>(&mut self, input: &mut &'a [u8]) -> Result<ResponseEvent<'a>, Violation> {
        let limit_bytes = self.limits.trailer_bytes;
        let ResponseState::Trailers(fold) = &mut self.state else {
            return Ok(ResponseEvent::NeedMore);
        };
        loop {
            match self.lines.next(input, limit_bytes) {
                Err(SectionTooLong) => return Err(Violation::TrailerTooLong { limit_bytes }),
                Ok(None) => return Ok(ResponseEvent::NeedMore),
                Ok(Some([])) => return Ok(self.end()),
                Ok(Some(line)) => {
                    split_field(line, *fold)?;
                    *fold = FoldTarget::Any;
                }
            }
        }
    }

    fn end<'a>(&mut self) -> ResponseEvent<'a> {
        self.state = ResponseState::Idle;
        ResponseEvent::End {
            reusable: self.reusable,
        }
    }
}
