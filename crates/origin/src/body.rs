//! Response bodies for hyper and h3.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::alarm::Alarm;
use crate::events::Events;
use crate::pattern;

/// Maximum size in bytes of a piece of a body.
const PIECE_BYTES_MAX: u64 = 64 << 10;

/// Number of chunks in the response of `/chunked/N`. Bodies that have fewer bytes than this have
/// fewer chunks, and large bodies have more.
const CHUNK_COUNT: u64 = 4;

/// Maximum number of pieces in the response of `/slow/N`.
const SLOW_PIECE_COUNT: u64 = 10;

/// A response body.
pub(crate) enum Body {
    /// The whole body in one piece.
    Whole(Bytes),
    /// The byte pattern, in pieces.
    Pattern(Pattern),
    /// The byte pattern, with a pause before each piece.
    Slow(Slow),
    /// Events on a schedule.
    Events(Box<Events>),
    /// One piece, after which the body neither continues nor ends.
    Stuck(Bytes),
}

/// The range of the byte pattern that remains to be sent.
pub(crate) struct Pattern {
    at: u64,
    end: u64,
    piece: u64,
    /// True if the response has a Content-Length.
    announced: bool,
}

/// A range of the byte pattern whose pieces are sent at fixed intervals.
pub(crate) struct Slow {
    pattern: Pattern,
    gap: Duration,
    due: Instant,
    alarm: Rc<Alarm>,
    pause: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::Whole(Bytes::new())
    }

    /// Creates a body of `size` bytes with a Content-Length.
    pub(crate) fn sized(size: u64) -> Self {
        if size <= pattern::PERIOD as u64 {
            return Self::Whole(pattern::piece(0, size));
        }
        Self::Pattern(Pattern {
            at: 0,
            end: size,
            piece: PIECE_BYTES_MAX,
            announced: true,
        })
    }

    /// Creates a body of `size` bytes without a Content-Length.
    pub(crate) fn chunked(size: u64) -> Self {
        let piece = size.div_ceil(CHUNK_COUNT).clamp(1, PIECE_BYTES_MAX);
        Self::Pattern(Pattern {
            at: 0,
            end: size,
            piece,
            announced: false,
        })
    }

    /// Creates a body of `size` bytes whose pieces are sent at equal intervals. The last piece is
    /// sent when the time `over` has passed.
    pub(crate) fn slow(size: u64, over: Duration, alarm: Rc<Alarm>) -> Self {
        let piece = size.div_ceil(SLOW_PIECE_COUNT).max(1);
        let pieces = size.div_ceil(piece).max(1);
        let gap = over / u32::try_from(pieces).unwrap_or(u32::MAX);
        let pattern = Pattern {
            at: 0,
            end: size,
            piece,
            announced: true,
        };
        Self::Slow(Slow {
            pattern,
            gap,
            due: Instant::now(),
            alarm,
            pause: None,
        })
    }
}

impl Pattern {
    fn next(&mut self) -> Option<Bytes> {
        if self.at == self.end {
            return None;
        }
        let piece = pattern::piece(self.at, self.piece.min(self.end - self.at));
        self.at += piece.len() as u64;
        Some(piece)
    }

    fn size_hint(&self) -> SizeHint {
        if self.announced {
            SizeHint::with_exact(self.end - self.at)
        } else {
            SizeHint::new()
        }
    }
}

impl Slow {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.pattern.at == self.pattern.end {
            return Poll::Ready(None);
        }
        let pause = match &mut self.pause {
            Some(pause) => pause,
            None => {
                self.due += self.gap;
                let (alarm, due) = (Rc::clone(&self.alarm), self.due);
                self.pause
                    .insert(Box::pin(async move { alarm.until(due).await }))
            }
        };
        ready!(pause.as_mut().poll(cx));
        self.pause = None;
        Poll::Ready(self.pattern.next())
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = match self.get_mut() {
            Self::Whole(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()),
            Self::Pattern(pattern) => pattern.next(),
            Self::Slow(slow) => ready!(slow.poll_next(cx)),
            Self::Events(events) => {
                let piece = ready!(events.poll_next(cx));
                return Poll::Ready(piece.map(|piece| piece.map(Frame::data)));
            }
            Self::Stuck(bytes) if bytes.is_empty() => return Poll::Pending,
            Self::Stuck(bytes) => Some(std::mem::take(bytes)),
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            // Without a Content-Length, a separate last chunk ends the body, even if the body is
            // empty.
            Self::Pattern(pattern) => pattern.announced && pattern.at == pattern.end,
            Self::Slow(slow) => slow.pattern.at == slow.pattern.end,
            Self::Events(_) | Self::Stuck(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Pattern(pattern) => pattern.size_hint(),
            Self::Slow(slow) => slow.pattern.size_hint(),
            Self::Events(_) | Self::Stuck(_) => SizeHint::new(),
        }
    }
}
