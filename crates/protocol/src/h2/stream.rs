//! One stream, which is one exchange.

use super::StreamViolation;
use super::flow::{ReceiveWindow, SendWindow};
use super::hpack::Fields;
use super::limits;
use crate::h1::Expects;

/// Where a stream is in its life (RFC 9113 §5.1), as a client without server push sees it.
///
/// ```text
///                         +--------+
///                         |  idle  |  no stream yet: its identifier is to come
///                         +--------+
///                             |  send HEADERS
///              a body follows | it is all (END_STREAM)
///                  +----------+-----------+
///                  v                      v
///              +--------+  send       +-----------+
///              |  Open  | ----------> | HalfClosed|
///              +--------+  END_STREAM |   Local   |
///               |  |   |              +-----------+
///               |  |   |                 |   |  |
///               |  |   | recv END_STREAM |   |  | recv END_STREAM
///               |  |   | (half-closed    |   |  | or RST_STREAM
///               |  |   | (remote)):      |   |  |
///               |  |   | send RST_STREAM |   |  |
///               |  |   v                 v   |  v
///               |  | +-----------+ send  |   | +--------+
///               |  | | Cancelled | <-----+   | | Closed |
///               |  | +-----------+ RST_STREAM| +--------+
///               |  |       ^                 |     ^
///               |  +-------+                 +-----+
///               |  send RST_STREAM                 |
///               +----------------------------------+
///                        recv RST_STREAM
/// ```
///
/// Both `Cancelled` and `Closed` are "closed" in the RFC. They differ in what may still come:
/// frames that the peer sent before it read this side's RST_STREAM are ignored, frames after its
/// own end are violations. A stream does not stay in "half-closed (remote)": whoever answers
/// without waiting for the whole request doesn't need the rest of it (§8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Cancelled,
    Open {
        /// Bytes of the body that are not sent yet, at least 1.
        unsent: u64,
    },
    HalfClosedLocal,
}

/// How far the answer is (RFC 9113 §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The final head is to come, after so many interim ones.
    Head { interims: u8 },
    /// The body, or the trailers behind it.
    Body {
        /// How many bytes are still to come, where Content-Length said it.
        left: Option<u64>,
    },
}

/// What a block of fields is in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Interim(u16),
    Head(u16),
    Trailers,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) tag: u32,
    pub(super) state: State,
    pub(super) answer: Answer,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    pub(super) expects: Expects,
}

impl Stream {
    /// What stands in a place that no stream ever had.
    pub(super) const NONE: Stream = Stream {
        id: 0,
        tag: 0,
        state: State::Closed,
        answer: Answer::Head { interims: 0 },
        send_window: SendWindow::new(0),
        receive_window: ReceiveWindow::new(0),
        expects: Expects::Body,
    };

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, State::Open { .. } | State::HalfClosedLocal)
    }

    /// Has any part of the answer come?
    pub(super) fn is_answered(&self) -> bool {
        self.answer != Answer::Head { interims: 0 }
    }

    /// A block of fields has come.
    pub(super) fn fields(
        &mut self,
        fields: &Fields,
        ends: bool,
    ) -> Result<Section, StreamViolation> {
        let Answer::Head { interims } = &mut self.answer else {
            fields.check_trailers()?;
            return if ends {
                Ok(Section::Trailers)
            } else {
                Err(StreamViolation::TrailersDoNotEnd)
            };
        };
        let status = fields.head_status()?;
        match status {
            101 => Err(StreamViolation::SwitchingProtocols),
            100..=199 if ends => Err(StreamViolation::InterimEnds),
            100..=199 if *interims == limits::INTERIMS => Err(StreamViolation::TooManyInterim {
                limit: limits::INTERIMS,
            }),
            100..=199 => {
                *interims += 1;
                Ok(Section::Interim(status))
            }
            _ => {
                let left = self.body_length(status, fields.content_length);
                self.answer = Answer::Body { left };
                Ok(Section::Head(status))
            }
        }
    }

    /// How long the body must be (RFC 9113 §8.1.1, RFC 9110 §6.4.1 and §8.6).
    fn body_length(&self, status: u16, content_length: Option<u64>) -> Option<u64> {
        match (self.expects, status) {
            (Expects::NoBody, _) | (_, 204 | 304) => Some(0),
            // A tunnel, which has no length.
            (Expects::Connect, 200..=299) => None,
            _ => content_length,
        }
    }

    /// A DATA frame with so many bytes of the body begins.
    #[inline]
    pub(super) fn data(&mut self, bytes: u32) -> Result<(), StreamViolation> {
        match &mut self.answer {
            Answer::Head { .. } => Err(StreamViolation::DataBeforeHead),
            Answer::Body { left: None } => Ok(()),
            Answer::Body { left: Some(left) } => {
                *left = left
                    .checked_sub(u64::from(bytes))
                    .ok_or(StreamViolation::BodyTooLong)?;
                Ok(())
            }
        }
    }

    /// By how much the receive window is to be opened, if at all: not for a body whose rest fits.
    #[inline]
    pub(super) fn window_increment(&mut self) -> Option<u32> {
        let fits = match self.answer {
            Answer::Body { left: Some(left) } => {
                left <= u64::from(self.receive_window.left_bytes())
            }
            _ => false,
        };
        if fits {
            return None;
        }
        self.receive_window.increment()
    }

    /// The peer has ended the stream: is the answer complete?
    pub(super) fn check_end(&self) -> Result<(), StreamViolation> {
        match self.answer {
            Answer::Head { .. } => Err(StreamViolation::DataBeforeHead),
            Answer::Body {
                left: None | Some(0),
            } => Ok(()),
            Answer::Body { left: Some(_) } => Err(StreamViolation::BodyTooShort),
        }
    }
}
