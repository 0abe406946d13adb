//! Answers, byte by byte or all at once.

use super::chunk::{Chunks, Piece};
use super::head::{Fold, HeadLines, split_field, whole_field};
use super::lines::{Lines, TooLong};
use super::opening::{self, Opening};
use super::plain;
use super::{Eof, Event, Expects, Framing, Head, Limits, Violation};

/// Reads the answers on one connection, one exchange after the other.
///
/// ```text
///            ┌──────── interim (1xx) ────────┐
///            ▼                               │            ┌► Length ───────┐
///  start ► StatusLine ──line──► Fields ──empty line──► body ├► Chunks ► Trailers ├─► End ► Idle
///                                                         ├► UntilClose ── eof ─┘
///                                                         └► (none) ───────┘
/// ```
///
/// Whatever breaks the protocol leads to `Failed`, which only [`ResponseParser::start`] leaves.
#[derive(Debug)]
pub struct ResponseParser {
    limits: Limits,
    expects: Expects,
    state: State,
    lines: Lines,
    interims: u32,
    started: bool,
    reusable: bool,
}

/// Where in an answer the next byte belongs.
#[derive(Debug)]
enum State {
    /// No answer is due.
    Idle,
    StatusLine,
    Fields(HeadLines),
    /// A body, or what is left of it, in bytes. 0 for none.
    Length(u64),
    Chunks(Chunks),
    Trailers(Fold),
    UntilClose,
    Failed(Violation),
}

impl ResponseParser {
    /// A parser for a new connection. Until [`ResponseParser::start`] no answer is due.
    #[must_use]
    pub fn new(limits: Limits) -> ResponseParser {
        let head_bytes = limits.head_bytes.max(Limits::HEAD_MIN);
        ResponseParser {
            limits: Limits {
                head_bytes,
                ..limits
            },
            expects: Expects::Body,
            state: State::Idle,
            lines: Lines::default(),
            interims: 0,
            started: false,
            reusable: false,
        }
    }

    /// A new exchange begins: a request is about to be sent. Forgets whatever was before it, and
    /// keeps its memory, at most the limit on a head.
    pub fn start(&mut self, expects: Expects) {
        self.expects = expects;
        self.state = State::StatusLine;
        self.lines.start_section();
        self.interims = 0;
        self.started = false;
        self.reusable = false;
    }

    /// Consumes bytes from the front of `input` up to the next event.
    ///
    /// To be called again until it returns [`Event::NeedMore`] or [`Event::End`]. Split heads,
    /// and only those, are copied; the memory for it is kept for the next exchange.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with the answer. The connection is of no use then; until the
    /// next start each call fails with the same violation.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Violation> {
        self.started |= !input.is_empty();
        let result = self.advance(input);
        if let Err(violation) = result {
            self.state = State::Failed(violation);
        }
        result
    }

    /// All that is left of the answer, if it is known to be as long as `input`: what
    /// [`ResponseParser::next`] would give by a body, if that is not empty, and the end. None, and
    /// nothing has changed, in any other case.
    ///
    /// After the head of a small answer this saves the way through the other states.
    #[inline]
    pub fn rest<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        match self.state {
            State::Length(left) if left == input.len() as u64 => {
                self.state = State::Idle;
                Some(std::mem::take(input))
            }
            _ => None,
        }
    }

    /// The peer closed its side, after all of its bytes went through [`ResponseParser::next`].
    ///
    /// A body that ends with the connection is complete then; that is the end of its exchange.
    pub fn eof(&mut self) -> Eof {
        match self.state {
            State::UntilClose | State::Length(0) => {
                self.state = State::Idle;
                Eof::Complete
            }
            State::Idle => Eof::Idle,
            State::StatusLine if !self.started => Eof::Idle,
            _ => Eof::Truncated,
        }
    }

    /// Has a byte of an answer been seen since the last start?
    #[must_use]
    pub fn started(&self) -> bool {
        self.started
    }

    fn advance<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Violation> {
        match &mut self.state {
            State::StatusLine => self.status_line(input),
            State::Fields(_) => self.fields(input),
            State::Length(0) => Ok(self.end()),
            State::Length(_) | State::UntilClose if input.is_empty() => Ok(Event::NeedMore),
            State::Length(left) => Ok(Event::Body(take(input, left))),
            State::UntilClose => Ok(Event::Body(std::mem::take(input))),
            State::Chunks(_) => self.chunks(input),
            State::Trailers(_) => self.trailers(input),
            State::Idle if input.is_empty() => Ok(Event::NeedMore),
            State::Idle => Err(Violation::BytesAfterEnd),
            State::Failed(violation) => Err(*violation),
        }
    }

    fn status_line<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Violation> {
        let limit_bytes = self.limits.head_bytes;
        if self.lines.kept().is_empty()
            && let mut head = HeadLines::new()
            && let Some(bytes) = plain::read(&mut head, input)
            && bytes <= limit_bytes
            && let Ok(head) = head.finish(self.expects)
        {
            *input = &input[bytes..];
            return Ok(self.body_follows(head));
        }
        let too_long = |TooLong| Violation::HeadTooLong { limit_bytes };
        let whole_start = self.lines.kept().is_empty() && input.starts_with(opening::START);
        if !whole_start && self.opening(input)? == Opening::Undecided {
            self.lines.keep(input, limit_bytes).map_err(too_long)?;
            return Ok(Event::NeedMore);
        }
        let Some(line) = self.lines.next(input, limit_bytes).map_err(too_long)? else {
            return Ok(Event::NeedMore);
        };
        let mut head = HeadLines::new();
        head.status_line(line)?;
        self.state = State::Fields(head);
        self.fields(input)
    }

    /// Judges the first bytes of the answer, of which some may have come before.
    fn opening(&self, input: &[u8]) -> Result<Opening, Violation> {
        let mut first = [0; opening::LONGEST];
        let mut length = 0;
        for (slot, &byte) in first.iter_mut().zip(self.lines.kept().iter().chain(input)) {
            *slot = byte;
            length += 1;
        }
        opening::judge(&first[..length])
    }

    fn fields<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Violation> {
        let limit_bytes = self.limits.head_bytes;
        let State::Fields(head) = &mut self.state else {
            return Ok(Event::NeedMore);
        };
        let too_long = Violation::HeadTooLong { limit_bytes };
        loop {
            if self.lines.at_beginning()
                && let Some((field, bytes)) = whole_field(input)
            {
                self.lines
                    .skip(input, bytes, limit_bytes)
                    .map_err(|TooLong| too_long)?;
                head.field(field)?;
                continue;
            }
            match self.lines.next(input, limit_bytes) {
                Err(TooLong) => return Err(too_long),
                Ok(None) => return Ok(Event::NeedMore),
                Ok(Some([])) => break,
                Ok(Some(line)) => head.field_line(line)?,
            }
        }
        self.lines.start_section();
        let status = head.status();
        if (100..200).contains(&status) {
            return self.interim(status);
        }
        let head = head.finish(self.expects)?;
        Ok(self.body_follows(head))
    }

    #[inline]
    fn body_follows<'a>(&mut self, head: Head) -> Event<'a> {
        self.reusable = head.reusable;
        self.state = match (head.framing, head.length) {
            (Framing::Chunked, _) => State::Chunks(Chunks::new()),
            (_, Some(length)) => State::Length(length),
            (_, None) => State::UntilClose,
        };
        Event::Head(head)
    }

    /// An interim answer has no body, whatever its fields say (RFC 9112 §6.3).
    fn interim<'a>(&mut self, status: u16) -> Result<Event<'a>, Violation> {
        if status == 101 {
            return Err(Violation::Upgrade);
        }
        if self.interims == self.limits.interim {
            return Err(Violation::TooManyInterim {
                limit: self.limits.interim,
            });
        }
        self.interims += 1;
        self.state = State::StatusLine;
        Ok(Event::Interim(status))
    }

    fn chunks<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Violation> {
        let State::Chunks(chunks) = &mut self.state else {
            return Ok(Event::NeedMore);
        };
        match chunks.next(input, self.limits.chunk_line_bytes)? {
            Piece::NeedMore => Ok(Event::NeedMore),
            Piece::Data(piece) => Ok(Event::Body(piece)),
            Piece::Last => {
                self.state = State::Trailers(Fold::Nothing);
                self.trailers(input)
            }
        }
    }

    /// Trailers are checked like fields and otherwise ignored: they can't frame anything any more
    /// (RFC 9110 §6.5.1).
    fn trailers<'a>(&mut self, input: &mut &'a [u8]) -> Result<Event<'a>, Violation> {
        let limit_bytes = self.limits.trailer_bytes;
        let State::Trailers(fold) = &mut self.state else {
            return Ok(Event::NeedMore);
        };
        loop {
            match self.lines.next(input, limit_bytes) {
                Err(TooLong) => return Err(Violation::TrailerTooLong { limit_bytes }),
                Ok(None) => return Ok(Event::NeedMore),
                Ok(Some([])) => return Ok(self.end()),
                Ok(Some(line)) => {
                    split_field(line, *fold)?;
                    *fold = Fold::Any;
                }
            }
        }
    }

    fn end<'a>(&mut self) -> Event<'a> {
        self.state = State::Idle;
        Event::End {
            reusable: self.reusable,
        }
    }
}

/// Takes as much from the input as there is, but no more than is left, and lessens that.
pub(super) fn take<'a>(input: &mut &'a [u8], left: &mut u64) -> &'a [u8] {
    let length = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    let (piece, rest) = input.split_at(length);
    *input = rest;
    *left -= length as u64;
    piece
}
