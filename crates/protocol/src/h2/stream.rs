//! A stream, which carries one exchange.

use super::StreamViolation;
use super::flow::{ReceiveWindow, SendWindow};
use super::hpack::Fields;
use super::limits;
use crate::h1::Expects;

/// State of a stream: Figure 2 of RFC 9113 §5.1, for a client without server push.
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
/// Both `Cancelled` and `Closed` are "closed" in the RFC. They differ in the frames that may still
/// arrive: frames sent before the peer read this side's RST_STREAM are ignored, and frames after
/// the peer's own end are violations. A stream doesn't stay in "half-closed (remote)": a peer that
/// responds without waiting for the whole request doesn't need the rest of it (§8.1), so the stream
/// is reset at once. The two "reserved" states are never reached, because PUSH_PROMISE is a
/// violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamState {
    Closed,
    Cancelled,
    Open {
        /// Body bytes that aren't sent yet, at least 1.
        unsent: u64,
    },
    HalfClosedLocal,
}

/// Stage of the response (RFC 9113 §8.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseStage {
    /// The final head is expected, after `interims` interim heads.
    Head { interims: u8 },
    /// The body, or the trailers after it.
    Body {
        /// Remaining body bytes, if there was a Content-Length.
        left: Option<u64>,
    },
    /// The content of a tunnel: DATA only (RFC 9113 §8.5).
    Tunnel,
}

/// Meaning of a field block in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockRole {
    Interim(u16),
    Head(u16),
    Trailers,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) tag: u32,
    pub(super) state: StreamState,
    /// Body bytes that weren't sent; kept after the stream's end.
    pub(super) unsent_bytes: u64,
    pub(super) answer: ResponseStage,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// True if the receive window is to be opened with the next output.
    pub(super) opening: bool,
    pub(super) expects: Expects,
}

impl Stream {
    /// Content of a slot that was never used.
    pub(super) const NONE: Stream = Stream {
        id: 0,
        tag: 0,
        state: StreamState::Closed,
        unsent_bytes: 0,
        answer: ResponseStage::Head { interims: 0 },
        send_window: SendWindow::new(0),
        receive_window: ReceiveWindow::new(0),
        opening: false,
        expects: Expects::Body,
    };

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(
            self.state,
            StreamState::Open { .. } | StreamState::HalfClosedLocal
        )
    }

    /// Returns true if any part of the response was received.
    pub(super) fn is_answered(&self) -> bool {
        self.answer != ResponseStage::Head { interims: 0 }
    }

    /// Handles a field block.
    pub(super) fn fields(
        &mut self,
        fields: &Fields,
        ends: bool,
    ) -> Result<BlockRole, StreamViolation> {
        let interims = match &mut self.answer {
            ResponseStage::Head { interims } => interims,
            ResponseStage::Tunnel => return Err(StreamViolation::FieldsInTunnel),
            ResponseStage::Body { .. } => {
                fields.check_trailers()?;
                return if ends {
                    Ok(BlockRole::Trailers)
                } else {
                    Err(StreamViolation::TrailersDoNotEnd)
                };
            }
        };
        let status = fields.head_status()?;
        match status {
            101 => Err(StreamViolation::SwitchingProtocols),
            100..=199 if ends => Err(StreamViolation::InterimEnds),
            100..=199 if *interims == limits::INTERIM_RESPONSES_MAX => {
                Err(StreamViolation::TooManyInterim {
                    limit: limits::INTERIM_RESPONSES_MAX,
                })
            }
            100..=199 => {
                *interims += 1;
                Ok(BlockRole::Interim(status))
            }
            _ => {
                self.answer = self.behind_head(status, fields.content_length);
                Ok(BlockRole::Head(status))
            }
        }
    }

    /// Stage after the final head, and the required length of the body (RFC 9113 §8.1.1 and §8.5,
    /// RFC 9110 §6.4.1 and §8.6).
    fn behind_head(&self, status: u16, content_length: Option<u64>) -> ResponseStage {
        let left = match (self.expects, status) {
            (Expects::Connect, 200..=299) => return ResponseStage::Tunnel,
            (Expects::NoBody, _) | (_, 204 | 304) => Some(0),
            _ => content_length,
        };
        ResponseStage::Body { left }
    }

    /// Handles the start of a DATA frame with `bytes` of body.
    #[inline]
    pub(super) fn data(&mut self, bytes: u32) -> Result<(), StreamViolation> {
        match &mut self.answer {
            ResponseStage::Head { .. } => Err(StreamViolation::DataBeforeHead),
            ResponseStage::Body { left: None } | ResponseStage::Tunnel => Ok(()),
            ResponseStage::Body { left: Some(left) } => {
                *left = left
                    .checked_sub(u64::from(bytes))
                    .ok_or(StreamViolation::BodyTooLong)?;
                Ok(())
            }
        }
    }

    /// Returns true if the receive window must be opened for the rest of the body; false if the
    /// rest fits.
    #[inline]
    pub(super) fn is_window_low(&self) -> bool {
        let fits = match self.answer {
            ResponseStage::Body { left: Some(left) } => {
                left <= u64::from(self.receive_window.left_bytes())
            }
            _ => false,
        };
        !fits && self.receive_window.is_low()
    }

    /// Checks that the response is complete when the peer ends the stream.
    pub(super) fn check_end(&self) -> Result<(), StreamViolation> {
        match self.answer {
            ResponseStage::Head { .. } => Err(StreamViolation::DataBeforeHead),
            ResponseStage::Body {
                left: None | Some(0),
            }
            | ResponseStage::Tunnel => Ok(()),
            ResponseStage::Body { left: Some(_) } => Err(StreamViolation::BodyTooShort),
        }
    }
}
