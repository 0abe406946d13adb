//! The streams of one connection, in a fixed number of slots.

use super::flow::{ReceiveWindow, SendWindow};
use super::frame::U31_MAX;
use super::stream::{Stream, StreamState};
use crate::buffer::emptied;
use crate::h1::Expects;
use crate::response_stage::ResponseStage;

/// All streams of a connection.
///
/// A stream's identifier determines its slot, so no search is needed: the slots are a ring, and
/// successive identifiers have successive slots. If the slot of the next identifier is still used
/// by a slow stream, that identifier is skipped, which is allowed (RFC 9113 §5.1.1: identifiers
/// increase, and skipped ones count as closed). There are at least twice as many slots as
/// concurrent streams, so few identifiers are skipped.
///
/// A stream that has ended stays in its slot until the slot is reused.
#[derive(Debug)]
pub(super) struct Streams {
    /// The number of slots is a power of two.
    slots: Box<[Stream]>,
    next_id: u32,
    /// Number of live streams.
    active: u32,
    /// Number of live streams whose request body hasn't been sent completely.
    sending: u32,
    /// Highest identifier that was ever canceled.
    last_canceled: u32,
    /// Streams that need a WINDOW_UPDATE, each listed once. Some of them may have ended in the
    /// meantime.
    window_updates_due: Vec<u32>,
}

/// Status of an identifier without a live stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamStatus {
    /// The identifier was never used.
    Idle,
    /// The stream was ended by the peer, or the identifier was skipped.
    Closed,
    /// This side may have reset the stream, so frames may arrive that the peer sent before the
    /// reset.
    Canceled,
}

impl Streams {
    /// Creates slots for `capacity` concurrent streams.
    pub(super) fn new(capacity: u32) -> Streams {
        let slots = (capacity as usize * 2).next_power_of_two();
        Streams::in_slots(vec![Stream::NONE; slots].into_boxed_slice(), Vec::new())
    }

    /// Returns the streams of a new connection, which take over the memory.
    pub(super) fn renewed(&mut self) -> Streams {
        let mut slots = std::mem::take(&mut self.slots);
        slots.fill(Stream::NONE);
        Streams::in_slots(slots, emptied(&mut self.window_updates_due))
    }

    fn in_slots(slots: Box<[Stream]>, window_updates_due: Vec<u32>) -> Streams {
        Streams {
            slots,
            next_id: 1,
            active: 0,
            sending: 0,
            last_canceled: 0,
            window_updates_due,
        }
    }

    pub(super) fn active(&self) -> u32 {
        self.active
    }

    pub(super) fn sending(&self) -> u32 {
        self.sending
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn at(&mut self, slot: usize) -> &mut Stream {
        &mut self.slots[slot]
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &Stream> {
        self.slots.iter().filter(|stream| stream.is_live())
    }

    pub(super) fn live_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().filter(|stream| stream.is_live())
    }

    #[inline]
    fn slot(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.slots.len() - 1)
    }

    /// Returns the slot of a live stream.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        let slot = self.slot(id);
        let stream = &self.slots[slot];
        (stream.id == id && stream.is_live()).then_some(slot)
    }

    /// Returns the status of an identifier that [`Streams::find`] doesn't find.
    #[cold]
    pub(super) fn status(&self, id: u32) -> StreamStatus {
        // Even identifiers belong to the server, which must not open streams.
        if id.is_multiple_of(2) || id >= self.next_id {
            return StreamStatus::Idle;
        }
        let stream = &self.slots[self.slot(id)];
        let canceled = if stream.id == id {
            stream.state == StreamState::Canceled
        } else {
            id <= self.last_canceled
        };
        if canceled {
            StreamStatus::Canceled
        } else {
            StreamStatus::Closed
        }
    }

    /// Returns true if at least one identifier is left.
    pub(super) fn has_ids(&self) -> bool {
        // Identifiers may be skipped before the next free slot.
        (self.next_id as usize) + 2 * self.slots.len() < U31_MAX as usize
    }

    /// Skips nearly all identifiers, so that only a few are left.
    #[cfg(test)]
    pub(super) fn skip_ids(&mut self) {
        self.next_id = U31_MAX - 4 * self.slots.len() as u32;
    }

    /// Opens a stream with a body of the given size in bytes. At least one identifier must be left,
    /// and there must be fewer live streams than slots.
    #[inline]
    pub(super) fn open(
        &mut self,
        tag: u32,
        expects: Expects,
        body_bytes: u64,
        windows: (SendWindow, ReceiveWindow),
    ) -> u32 {
        while self.slots[self.slot(self.next_id)].is_live() {
            self.next_id += 2;
        }
        let id = self.next_id;
        self.next_id += 2;
        self.active += 1;
        let state = match body_bytes {
            0 => StreamState::HalfClosedLocal,
            unsent => {
                self.sending += 1;
                StreamState::Open { unsent }
            }
        };
        self.slots[self.slot(id)] = Stream {
            id,
            tag,
            state,
            unsent_bytes: body_bytes,
            response: ResponseStage::START,
            send_window: windows.0,
            receive_window: windows.1,
            window_update_due: false,
            expects,
            call: None,
        };
        id
    }

    /// Opens a stream that carries a tunnel. The conditions are those of [`Streams::open`].
    pub(super) fn open_tunnel(&mut self, tag: u32, windows: (SendWindow, ReceiveWindow)) -> u32 {
        let id = self.open(tag, Expects::Connect, 0, windows);
        let slot = self.slot(id);
        self.slots[slot].state = StreamState::Tunnel;
        id
    }

    /// Records that `bytes` body bytes of a live stream were sent. `bytes` must not exceed the
    /// number of unsent bytes. Returns true if the body has now been sent completely.
    pub(super) fn sent(&mut self, slot: usize, bytes: u64) -> bool {
        let stream = &mut self.slots[slot];
        let StreamState::Open { unsent } = &mut stream.state else {
            return false;
        };
        *unsent -= bytes;
        stream.unsent_bytes = *unsent;
        let all = *unsent == 0;
        if all {
            stream.state = StreamState::HalfClosedLocal;
            self.sending -= 1;
        }
        all
    }

    /// Returns the number of unsent body bytes of a stream. It is known until a later stream reuses
    /// the slot.
    pub(super) fn unsent_bytes(&self, id: u32) -> u64 {
        let stream = &self.slots[self.slot(id)];
        if stream.id == id {
            stream.unsent_bytes
        } else {
            0
        }
    }

    /// Schedules a WINDOW_UPDATE for a stream, to be sent with the next output.
    pub(super) fn schedule_window_update(&mut self, slot: usize) {
        let stream = &mut self.slots[slot];
        if !stream.window_update_due {
            stream.window_update_due = true;
            self.window_updates_due.push(stream.id);
        }
    }

    /// Returns true if any stream needs a WINDOW_UPDATE.
    #[inline]
    pub(super) fn has_window_updates(&self) -> bool {
        !self.window_updates_due.is_empty()
    }

    /// Restores the receive window of the next stream that needs a WINDOW_UPDATE. Returns the
    /// stream's identifier and the increment.
    pub(super) fn next_window_update(&mut self) -> Option<(u32, u32)> {
        while let Some(id) = self.window_updates_due.pop() {
            if let Some(slot) = self.find(id) {
                let stream = &mut self.slots[slot];
                stream.window_update_due = false;
                return Some((id, stream.receive_window.refill()));
            }
        }
        None
    }

    /// Closes a live stream that the peer ended.
    #[inline]
    pub(super) fn close(&mut self, slot: usize) {
        self.leave(slot, StreamState::Closed);
    }

    /// Cancels a live stream on this side's initiative.
    pub(super) fn cancel(&mut self, slot: usize) {
        self.last_canceled = self.last_canceled.max(self.slots[slot].id);
        self.leave(slot, StreamState::Canceled);
    }

    #[inline]
    fn leave(&mut self, slot: usize, to: StreamState) {
        let stream = &mut self.slots[slot];
        self.sending -= u32::from(matches!(stream.state, StreamState::Open { .. }));
        self.active -= 1;
        stream.state = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(streams: &mut Streams, body_bytes: u64) -> u32 {
        let windows = (SendWindow::new(9), ReceiveWindow::new(9));
        streams.open(7, Expects::Body, body_bytes, windows)
    }

    fn find(streams: &Streams, id: u32) -> usize {
        streams.find(id).expect("a live stream")
    }

    #[test]
    fn a_taken_place_is_passed_over() {
        let mut streams = Streams::new(2);
        let slow = open(&mut streams, 0);
        assert_eq!((slow, streams.slots()), (1, 4));
        let ids: Vec<u32> = (0..6)
            .map(|_| {
                let id = open(&mut streams, 0);
                let slot = find(&streams, id);
                streams.close(slot);
                id
            })
            .collect();
        assert_eq!(ids, [3, 5, 7, 11, 13, 15]);
        assert_eq!(streams.active(), 1);
        assert!(streams.find(slow).is_some());
        assert_eq!(streams.status(9), StreamStatus::Closed);
    }

    #[test]
    fn what_is_over_is_remembered() {
        let mut streams = Streams::new(1);
        assert_eq!(streams.status(1), StreamStatus::Idle);
        let canceled = open(&mut streams, 5);
        assert_eq!((streams.active(), streams.sending()), (1, 1));
        let slot = find(&streams, canceled);
        streams.cancel(slot);
        assert_eq!((streams.active(), streams.sending()), (0, 0));
        assert_eq!(streams.status(canceled), StreamStatus::Canceled);
        for _ in 0..9 {
            let id = open(&mut streams, 0);
            let slot = find(&streams, id);
            streams.close(slot);
            assert_eq!(streams.status(id), StreamStatus::Closed);
            assert_eq!(streams.status(canceled), StreamStatus::Canceled);
        }
        for id in [0, 2, 4, 21, 23, U31_MAX] {
            assert_eq!(streams.status(id), StreamStatus::Idle, "{id}");
        }
        streams = streams.renewed();
        assert_eq!(streams.status(canceled), StreamStatus::Idle);
    }

    #[test]
    fn a_body_is_sent_in_parts() {
        let mut streams = Streams::new(1);
        let id = open(&mut streams, 5);
        let slot = find(&streams, id);
        assert!(!streams.sent(slot, 3));
        assert_eq!(streams.at(slot).state, StreamState::Open { unsent: 2 });
        assert!(streams.sent(slot, 2));
        assert_eq!(
            (streams.sending(), streams.at(slot).state),
            (0, StreamState::HalfClosedLocal)
        );
    }

    #[test]
    fn identifiers_end() {
        let mut streams = Streams::new(1);
        streams.next_id = U31_MAX - 8;
        assert!(streams.has_ids());
        while streams.has_ids() {
            let id = open(&mut streams, 0);
            assert!(id <= U31_MAX);
            let slot = find(&streams, id);
            streams.close(slot);
        }
        assert!(streams.next_id > U31_MAX - 8);
    }
}
