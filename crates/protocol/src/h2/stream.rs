//! One stream, which is one exchange.

use super::StreamViolation;
use super::flow::{ReceiveWindow, SendWindow};
use super::hpack::Fields;
use super::limits;
use crate::h1::Expects;

/// Where a stream is in its life: Figure 2 of RFC 9113 §5.1, as a client without server push sees it.
///
/// ```text
///                   +--------+
///          send H   |  idle  |   send H, ES
///         ,---------|        |---------.
///        v          +--------+          v
///   +--------+                 +-----------------+
///   |  Open  |---------------->| HalfClosedLocal |
///   +--------+     send ES     +-----------------+
///     |    |                     |             |
///     |    | send R       send R |             | recv ES, recv R
///     |    |   +-----------+     |             v
///     |    `-->| Cancelled |<----'         +--------+
///     |        +-----------+               | Closed |
///     `----------------------------------->|        |
///       recv R; recv ES, then send R       +--------+
///
///   H: HEADERS, ES: END_STREAM, R: RST_STREAM; "idle" is a stream that is not there yet
/// ```
///
/// Both `Cancelled` and `Closed` are "closed" in the RFC. They differ in what may still come: frames
/// that the peer sent before it read this side's RST_STREAM are ignored, frames behind its own end
/// are violations. A stream does not stay in "half-closed (remote)": whoever answers without waiting
/// for the whole request doesn't need the rest of it (§8.1), so that the stream is reset at once.
/// The two "reserved" states are never reached, as PUSH_PROMISE is a violation.
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
    /// Whatever a tunnel carries, which is DATA only (RFC 9113 §8.5).
    Tunnel,
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
    /// Bytes of the body that were not sent, also after the stream's end.
    pub(super) unsent_bytes: u64,
    pub(super) answer: Answer,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// The receive window is to be opened with the next output.
    pub(super) opening: bool,
    pub(super) expects: Expects,
}

impl Stream {
    /// What stands in a place that no stream ever had.
    pub(super) const NONE: Stream = Stream {
        id: 0,
        tag: 0,
        state: State::Closed,
        unsent_bytes: 0,
        answer: Answer::Head { interims: 0 },
        send_window: SendWindow::new(0),
        receive_window: ReceiveWindow::new(0),
        opening: false,
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
        let interims = match &mut self.answer {
            Answer::Head { interims } => interims,
            Answer::Tunnel => return Err(StreamViolation::FieldsInTunnel),
            Answer::Body { .. } => {
                fields.check_trailers()?;
                return if ends {
                    Ok(Section::Trailers)
                } else {
                    Err(StreamViolation::TrailersDoNotEnd)
                };
            }
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
                self.answer = self.behind_head(status, fields.content_length);
                Ok(Section::Head(status))
            }
        }
    }

    /// What follows the final head, and how long that must be (RFC 9113 §8.1.1 and §8.5, RFC 9110
    /// §6.4.1 and §8.6).
    fn behind_head(&self, status: u16, content_length: Option<u64>) -> Answer {
        let left = match (self.expects, status) {
            (Expects::Connect, 200..=299) => return Answer::Tunnel,
            (Expects::NoBody, _) | (_, 204 | 304) => Some(0),
            _ => content_length,
        };
        Answer::Body { left }
    }

    /// A DATA frame with so many bytes of the body begins.
    #[inline]
    pub(super) fn data(&mut self, bytes: u32) -> Result<(), StreamViolation> {
        match &mut self.answer {
            Answer::Head { .. } => Err(StreamViolation::DataBeforeHead),
            Answer::Body { left: None } | Answer::Tunnel => Ok(()),
            Answer::Body { left: Some(left) } => {
                *left = left
                    .checked_sub(u64::from(bytes))
                    .ok_or(StreamViolation::BodyTooLong)?;
                Ok(())
            }
        }
    }

    /// Must the receive window be opened for what is still to come? Not for a body whose rest fits.
    #[inline]
    pub(super) fn is_window_low(&self) -> bool {
        let fits = match self.answer {
            Answer::Body { left: Some(left) } => {
                left <= u64::from(self.receive_window.left_bytes())
            }
            _ => false,
        };
        !fits && self.receive_window.is_low()
    }

    /// The peer has ended the stream: is the answer complete?
    pub(super) fn check_end(&self) -> Result<(), StreamViolation> {
        match self.answer {
            Answer::Head { .. } => Err(StreamViolation::DataBeforeHead),
            Answer::Body {
                left: None | Some(0),
            }
            | Answer::Tunnel => Ok(()),
            Answer::Body { left: Some(_) } => Err(StreamViolation::BodyTooShort),
        }
    }
}
