//! A place for one request on a connection: HTTP/1 has one, HTTP/2 one for each stream.

use std::sync::Arc;

use prony_record::Nanos;

use crate::request::Request;
use crate::worker::PendingRedirect;

/// A request between its start and its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    /// Its index in the spec, where the seat has no request of its own.
    pub(crate) request: u32,
    pub(crate) intended: Nanos,
    /// When its connect or send began.
    pub(crate) begun: Nanos,
    /// When its first byte was handed to the socket.
    pub(crate) sent: Option<Nanos>,
    pub(crate) first_byte: Option<Nanos>,
    /// It is being sent a second time.
    pub(crate) retried: bool,
    /// The connection carries it; until then it waits for the connection.
    pub(crate) is_under_way: bool,
    /// It goes to another target than its slot's connection, and waits until nothing else is on that.
    pub(crate) is_diverted: bool,
    /// HTTP bytes sent for it so far.
    pub(crate) bytes_out: u64,
}

/// A seat is free and listed as such, or has a pending request, or is parked, or away.
pub(crate) struct Seat {
    /// The slot whose connection it is on.
    pub(crate) slot: u32,
    /// Its number on that connection, of at most `ClientSettings::STREAMS_MAX`; see [`Seat::tag`].
    tag: u16,
    pub(crate) pending: Option<Pending>,
    /// The pending request, where it is none of the spec's.
    pub(crate) own: Option<Arc<Request>>,
    /// The name lookup that the pending request waits for, after a redirect to a new host.
    pub(crate) lookup: Option<Box<PendingRedirect>>,
    /// Its user rests, or has left.
    pub(crate) is_away: bool,
    /// It has no request and can't have one before something happens to its connection.
    pub(crate) is_parked: bool,
    /// When it became free.
    pub(crate) free_since: Nanos,
}

impl Seat {
    pub(crate) fn new(slot: u32, tag: u32) -> Seat {
        Seat {
            slot,
            tag: tag as u16,
            pending: None,
            own: None,
            lookup: None,
            is_away: false,
            is_parked: false,
            free_since: Nanos::ZERO,
        }
    }

    /// Its number on its slot's connection.
    #[inline]
    pub(crate) fn tag(&self) -> u32 {
        u32::from(self.tag)
    }

    /// The pending request: its own, or one of the spec's.
    #[inline]
    pub(crate) fn request<'a>(&'a self, listed: &'a [Request]) -> Option<&'a Request> {
        match (&self.own, &self.pending) {
            (Some(own), _) => Some(own),
            (None, Some(pending)) => listed.get(pending.request as usize),
            (None, None) => None,
        }
    }
}
