//! Request slots. Each slot has the capacity for one exchange: a request from its start to its end.

use std::sync::Arc;

use prony_record::Nanos;

use crate::request::Request;

/// The phase of a request between its start and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine::worker) enum RequestPhase {
    /// The request waits for its slot's connection.
    Waiting,
    /// The request is in flight on the connection.
    InFlight,
    /// The request's target differs from the connection's target. The request waits until the
    /// connection is idle.
    Deferred,
}

/// A request between its start and its end.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine::worker) struct Pending {
    /// Index of the request in the spec's list; unused for a script's own request. A rendered
    /// request belongs to the slot and has the index of its template.
    pub(in crate::engine::worker) request: u32,
    pub(in crate::engine::worker) phase: RequestPhase,
    /// True if the request is being sent a second time.
    pub(in crate::engine::worker) retried: bool,
    pub(in crate::engine::worker) intended: Nanos,
    /// Time at which the connect or send for the request began.
    pub(in crate::engine::worker) begun: Nanos,
    /// Time at which the first byte was passed to the socket.
    pub(in crate::engine::worker) sent: Option<Nanos>,
    /// Number of HTTP bytes sent for the request so far.
    pub(in crate::engine::worker) bytes_out: u64,
    /// True if the request started in the settling part of a slice.
    pub(in crate::engine::worker) is_settling: bool,
}

/// The state of a request slot.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine::worker) enum SlotState {
    /// The slot is in the list of free slots.
    Free,
    /// The slot can't take a request until the state of its connection changes.
    Parked,
    /// The slot's virtual user is thinking, or has left.
    Away,
    /// The slot has a request.
    Busy(Pending),
}

/// Capacity for one exchange on a connection.
pub(in crate::engine::worker) struct RequestSlot {
    /// The slot's current connection: the primary one or its successor.
    pub(in crate::engine::worker) connection: u32,
    stream: u16,
    pub(in crate::engine::worker) state: SlotState,
    /// The pending request if it is not in the spec's list, because it comes from a script, was
    /// rendered, or follows a redirect.
    pub(in crate::engine::worker) own: Option<Arc<Request>>,
    pub(in crate::engine::worker) free_since: Nanos,
}

impl RequestSlot {
    pub(super) fn new(connection: u32, stream: u32) -> RequestSlot {
        RequestSlot {
            connection,
            stream: stream as u16,
            state: SlotState::Free,
            own: None,
            free_since: Nanos::ZERO,
        }
    }

    /// Returns the stream number on the connection, counted from 0. It is less than
    /// `ClientSettings::STREAMS_MAX`.
    #[inline]
    pub(in crate::engine::worker) fn stream(&self) -> u32 {
        u32::from(self.stream)
    }

    /// The pending request's data.
    #[inline]
    pub(in crate::engine::worker) fn pending(&self) -> Option<&Pending> {
        match &self.state {
            SlotState::Busy(pending) => Some(pending),
            _ => None,
        }
    }

    /// The pending request's data, mutable.
    #[inline]
    pub(in crate::engine::worker) fn pending_mut(&mut self) -> Option<&mut Pending> {
        match &mut self.state {
            SlotState::Busy(pending) => Some(pending),
            _ => None,
        }
    }

    /// The phase of the pending request.
    #[inline]
    pub(in crate::engine::worker) fn phase(&self) -> Option<RequestPhase> {
        self.pending().map(|pending| pending.phase)
    }

    /// Returns the pending request: the slot's own, or one of the list.
    #[inline]
    pub(in crate::engine::worker) fn request<'a>(
        &'a self,
        listed: &'a [Request],
    ) -> Option<&'a Request> {
        match (&self.own, &self.state) {
            (Some(own), _) => Some(own),
            (None, SlotState::Busy(pending)) => listed.get(pending.request as usize),
            (None, _) => None,
        }
    }
}
