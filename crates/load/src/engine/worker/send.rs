//! Starts exchanges on connections, and sends the connections' output.

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::connect::BACKOFF_MIN;
use super::dispatcher::RequestPhase;
use super::timers::Alarm;
use crate::carrier::{ConnectionState, Reason, RequestRef, SendState, StartFailure, Transport};
use crate::socket::{Key, Sockets};

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Sends a slot's request on its connection, which must have capacity for it.
    #[inline]
    pub(super) fn send_request(&mut self, slot: u32, now: Nanos) {
        if self.journeys.is_some() {
            self.limit_capture(slot);
        }
        let index = self.dispatcher.slot(slot).connection;
        let is_limited = self.spec.transport.replaces_connections();
        let is_last = is_limited && self.announce_last_request(index);
        let taken = self.dispatcher.slot(slot);
        let entry = &mut self.connections[index];
        let (Some(request), ConnectionState::Ready(_)) =
            (taken.request(&self.spec.requests), &entry.link.state)
        else {
            return;
        };
        let (key, expected) = (entry.key(index), &self.spec.responses.expect);
        let started = self
            .transport
            .start(key, &mut entry.link, taken.stream(), request, expected);
        match started {
            Ok(started) => {
                self.dispatcher.set_in_flight(slot, started.bytes, now);
                if started.sends_now {
                    self.send_output(index);
                } else {
                    self.connections.mark_dirty(index);
                }
                if is_limited {
                    self.count_request(index, is_last, now);
                }
            }
            Err(StartFailure::NotNow) => {}
            Err(StartFailure::Never(reason)) => self.reject(slot, &reason, now),
        }
    }

    /// Rejects a request that can't be sent on this connection. The slot is parked for a while,
    /// because otherwise its requests would fail in an endless loop.
    fn reject(&mut self, slot: u32, reason: &Reason, now: Nanos) {
        let index = self.dispatcher.slot(slot).connection;
        self.record_end(slot, Outcome::Protocol, Some(reason), now);
        self.dispatcher.park(slot);
        let generation = self.connections[index].generation;
        self.timers
            .set_alarm(now + BACKOFF_MIN, index, generation, Alarm::Unpark);
    }

    /// Sends the output of a connection. If a send is in flight, the output is sent after it.
    #[inline]
    pub(super) fn send_output(&mut self, index: u32) {
        let first = self.dispatcher.slots_of(index).start;
        let (slots, requests) = (&self.dispatcher.slots, &self.spec.requests);
        let request_of = |stream: u32| {
            let slot = &slots[(first + stream) as usize];
            match (&slot.own, slot.pending()) {
                (Some(own), _) => Some(RequestRef::Own(own)),
                (None, pending) => {
                    let listed = requests.get(pending?.request as usize);
                    listed.map(RequestRef::Listed)
                }
            }
        };
        let (entry, _, buffers) = self.connections.parts(index);
        self.transport
            .send_output(entry.key(index), &mut entry.link, buffers, request_of);
    }

    /// Sends the pending output of the connections whose output is sent together.
    #[inline]
    pub(super) fn send_dirty(&mut self) {
        while let Some(index) = self.connections.take_dirty() {
            self.send_output(index);
        }
        self.transport.flush();
    }

    /// Handles the completion of a send. `buffer` is the sent buffer if the send owned one.
    #[inline]
    pub(super) fn sent(&mut self, key: Key, buffer: Option<Vec<u8>>) {
        if !self.connections.is_current(key) {
            return;
        }
        let index = key.index;
        let link = &mut self.connections[index].link;
        link.send = SendState::Idle;
        if let Some(buffer) = buffer {
            link.outbox = buffer;
            link.outbox.clear();
            self.send_output(index);
            self.end_backpressure(index);
        }
    }

    /// Subtracts the bytes that were counted as sent for a slot's request but have not been sent.
    /// Must be called before the request is detached from its connection.
    #[inline]
    pub(super) fn take_back_unsent(&mut self, slot: u32) {
        let taken = self.dispatcher.slot(slot);
        if taken.phase() != Some(RequestPhase::InFlight) {
            return;
        }
        let index = taken.connection;
        let entry = &self.connections[index];
        if entry.link.is_all_sent() && !entry.is_multiplexed() {
            return;
        }
        let Some(request) = taken.request(&self.spec.requests) else {
            return;
        };
        let is_alone = self.dispatcher.occupancy(index).in_flight == 1;
        let (key, stream) = (entry.key(index), taken.stream());
        let unsent = self
            .transport
            .unsent(key, &entry.link, stream, request, is_alone);
        if let Some(pending) = self.dispatcher.slot_mut(slot).pending_mut() {
            pending.bytes_out = pending.bytes_out.saturating_sub(unsent);
        }
    }

    /// Frees slots that were parked because of backpressure, once the send has completed.
    fn end_backpressure(&mut self, index: u32) {
        let occupancy = self.dispatcher.occupancy_mut(index);
        if std::mem::take(&mut occupancy.write_backpressured) || occupancy.waiting > 0 {
            let now = self.transport.sockets().cached_now();
            self.fill(index, now);
        }
    }

    /// Fills a connection's capacity, first with waiting requests, then with parked slots.
    pub(super) fn fill(&mut self, index: u32, now: Nanos) {
        self.send_waiting(index, now);
        if self.dispatcher.occupancy(index).waiting == 0 {
            self.dispatcher.unpark(index, now);
        }
    }

    /// Sends the requests that are waiting for a connection, as long as it has capacity for them.
    /// Requests that an earlier connection refused come first, because a server that limits the
    /// requests of a connection might refuse the last ones again.
    pub(super) fn send_waiting(&mut self, index: u32, now: Nanos) {
        for is_retried in [true, false] {
            for slot in self.dispatcher.slots_of(index) {
                if self.dispatcher.occupancy(index).waiting == 0
                    || !self.dispatcher.has_room(index, self.view())
                {
                    return;
                }
                if self.dispatcher.is_waiting_on(slot, index) && self.is_retried(slot) == is_retried
                {
                    self.send_request(slot, now);
                }
            }
        }
    }
}
