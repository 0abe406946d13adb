//! A stream, which carries one exchange.

use super::StreamViolation;
use super::flow::{ReceiveWindow, SendWindow};
use crate::compression::Fields;
use crate::h1::Expects;
use crate::response_stage::{GrpcCall, ResponseStage, SectionRole};

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
///     |    `-->| Canceled  |<----'         +--------+
///     |        +-----------+               | Closed |
///     `----------------------------------->|        |
///       recv R; recv ES, then send R       +--------+
///
///   H: HEADERS, ES: END_STREAM, R: RST_STREAM; "idle" is a stream that doesn't exist yet
/// ```
///
/// Both `Canceled` and `Closed` are "closed" in the RFC. They differ in the frames that may still
/// arrive: frames sent before the peer read this side's RST_STREAM are ignored, and frames after
/// the peer's own end are violations. A stream doesn't stay in "half-closed (remote)": a peer that
/// responds without waiting for the whole request doesn't need the rest of it (§8.1), so the stream
/// is reset immediately. The two "reserved" states are never reached, because PUSH_PROMISE is a
/// violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamState {
    Closed,
    Canceled,
    Open {
        /// Number of unsent body bytes, at least 1.
        unsent: u64,
    },
    /// Open in both directions, without a request body: bytes are sent at any time (RFC 8441 §5).
    Tunnel,
    HalfClosedLocal,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) tag: u32,
    pub(super) state: StreamState,
    /// Number of unsent body bytes. It stays valid after the end of the stream.
    pub(super) unsent_bytes: u64,
    pub(super) response: ResponseStage,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// True if a WINDOW_UPDATE must be sent with the next output.
    pub(super) window_update_due: bool,
    pub(super) expects: Expects,
    /// The gRPC call, once the head of the response has arrived.
    pub(super) call: Option<GrpcCall>,
}

impl Stream {
    /// Initial content of a slot, before its first use.
    pub(super) const NONE: Stream = Stream {
        id: 0,
        tag: 0,
        state: StreamState::Closed,
        unsent_bytes: 0,
        response: ResponseStage::START,
        send_window: SendWindow::new(0),
        receive_window: ReceiveWindow::new(0),
        window_update_due: false,
        expects: Expects::Body,
        call: None,
    };

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(
            self.state,
            StreamState::Open { .. } | StreamState::Tunnel | StreamState::HalfClosedLocal
        )
    }

    /// Returns true if any part of the response was received.
    pub(super) fn is_answered(&self) -> bool {
        self.response != ResponseStage::START
    }

    /// Decodes a complete field block and applies it to its stream.
    #[inline]
    pub(super) fn fields(
        &mut self,
        fields: &Fields,
        ends: bool,
    ) -> Result<SectionRole, StreamViolation> {
        let role = self.response.section(fields, self.expects)?;
        GrpcCall::update(&mut self.call, role, fields);
        match role {
            SectionRole::Interim(_) if ends => Err(StreamViolation::InterimEnds),
            SectionRole::Trailers if !ends => Err(StreamViolation::TrailersDoNotEnd),
            _ => Ok(role),
        }
    }

    /// Counts a DATA frame with `bytes` bytes of the body. The body must not exceed the content
    /// length.
    #[inline]
    pub(super) fn data(&mut self, bytes: u32) -> Result<(), StreamViolation> {
        Ok(self.response.data(u64::from(bytes))?)
    }

    /// Returns true if the receive window must be enlarged to receive the rest of the body.
    #[inline]
    pub(super) fn is_window_low(&self) -> bool {
        let fits = match self.response {
            ResponseStage::Body { left: Some(left) } => {
                left <= u64::from(self.receive_window.left_bytes())
            }
            _ => false,
        };
        !fits && self.receive_window.is_low()
    }

    /// Checks that the response is complete when the peer ends the stream.
    pub(super) fn check_end(&self) -> Result<(), StreamViolation> {
        Ok(self.response.check_end()?)
    }
}
