//! The end of connections: idle, drained, lost, broken or failed, and what becomes of the requests
//! that were on them.
//!
//! A *successor connection* replaces a connection whose peer accepts no more requests while it has
//! some in flight (GOAWAY).

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::ramp::ConnectRamp;
use crate::carrier::{Carrier, ConnectionState, Reason, SendState, Transport};
use crate::socket::Close;

/// Time given to the peer to close a drained connection before the load closes it.
const DRAIN_TIMEOUT: Nanos = Nanos::from_millis(10);

/// The ends of the exchanges of a lost connection.
#[derive(Clone, Copy)]
pub(super) struct LostEnds<'a> {
    /// Outcome of an exchange whose response has not begun.
    pub(super) early: Outcome,
    /// Outcome of an exchange whose response has begun.
    pub(super) late: Outcome,
    /// Reason for the late outcome.
    pub(super) reason: Option<&'a Reason>,
}

impl<'a> LostEnds<'a> {
    /// All exchanges have the same end.
    pub(super) fn alike(outcome: Outcome, reason: Option<&'a Reason>) -> LostEnds<'a> {
        LostEnds {
            early: outcome,
            late: outcome,
            reason,
        }
    }
}

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Closes a ready connection between two requests.
    pub(super) fn close_idle(&mut self, index: u32, how: Close, now: Nanos) {
        if self.connections[index].link.state.is_ready() {
            self.note_preconnect_close();
            self.close(index, how);
            self.vacated(index, now);
        }
    }

    /// Waits for the peer to close a connection that has served its last request.
    pub(super) fn drain(&mut self, index: u32, now: Nanos) {
        self.connections[index].link.state.drain();
        self.timers.drains.set(index, now + DRAIN_TIMEOUT);
    }

    /// Closes a drained connection.
    pub(super) fn drained(&mut self, index: u32, how: Close, now: Nanos) {
        self.close(index, how);
        self.vacated(index, now);
    }

    /// Handles a close by the peer while exchanges were in flight.
    pub(super) fn lost(&mut self, index: u32, now: Nanos) {
        self.sink.closed_by_server(now);
        let within =
            Reason::Text("the connection closed before the end of the response".to_owned());
        let ends = if self.connections[index].link.send == SendState::Failed {
            LostEnds::alike(Outcome::Reset, None)
        } else {
            LostEnds {
                early: Outcome::ClosedEarly,
                late: Outcome::Truncated,
                reason: Some(&within),
            }
        };
        self.end_lost(index, ends, now);
    }

    /// Ends the exchanges of a lost connection. Those that may be repeated wait for another
    /// connection, unless their response has begun.
    pub(super) fn end_lost(&mut self, index: u32, ends: LostEnds<'_>, now: Nanos) {
        let session = self.connections[index].session();
        let end_reason = session.and_then(|session| session.carrier.end_reason());
        for slot in self.dispatcher.slots_of(index) {
            if !self.dispatcher.is_in_flight_on(slot, index) {
                continue;
            }
            let stream = self.dispatcher.slot(slot).stream();
            let session = self.connections[index].session();
            let received = session.map(|session| session.carrier.received(stream));
            let has_begun = received.is_some_and(|received| received.first_byte.is_some());
            if !has_begun && self.may_repeat(slot) {
                self.requeue_for_retry(slot, now);
                continue;
            }
            let (outcome, reason) = if has_begun {
                (ends.late, ends.reason)
            } else {
                (ends.early, ends.reason.filter(|_| ends.early == ends.late))
            };
            self.record_end(slot, outcome, end_reason.as_ref().or(reason), now);
            self.dispatcher.set_free(slot, now);
        }
        self.close(index, Close::Orderly);
        self.vacated(index, now);
    }

    /// Fails all exchanges on a connection whose peer violated the protocol or TLS.
    pub(super) fn broken(&mut self, index: u32, outcome: Outcome, reason: Reason, now: Nanos) {
        let entry = &self.connections[index];
        if outcome == Outcome::Tls || !entry.is_multiplexed() {
            self.fail(index, outcome, Some(reason), now);
            return;
        }
        self.note_preconnect_failure(outcome, Some(&reason));
        // If no request is in flight, none fails, but the violation is still counted.
        self.sink.unsolicited += u64::from(self.dispatcher.occupancy(index).in_flight == 0);
        for slot in self.dispatcher.slots_of(index) {
            if self.dispatcher.is_in_flight_on(slot, index) {
                self.record_end(slot, outcome, Some(&reason), now);
                self.dispatcher.park(slot);
            }
        }
        // The carrier's last output contains the reason, and the peer gets a short time to read it
        // (RFC 9113 §5.4.1).
        self.drain(index, now);
        self.send_output(index);
    }

    /// Fails a connection and its requests in flight. If the connection was not ready yet, the
    /// requests that are waiting for it fail as well.
    pub(super) fn fail(
        &mut self,
        index: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        let state = &self.connections[index].link.state;
        if state.is_draining() {
            self.drained(index, Close::Abort, now);
            return;
        }
        let is_ready = state.is_ready();
        let has_served = state.session().is_some_and(|session| session.served > 0);
        if let (Outcome::Tls, false, Some(reason)) = (outcome, has_served, &reason) {
            self.sink.refusals.add_handshake(reason, now);
        }
        self.note_preconnect_failure(outcome, reason.as_ref());
        for slot in self.dispatcher.slots_of(index) {
            let waits = !is_ready && self.dispatcher.is_waiting_on(slot, index);
            if waits || self.dispatcher.is_in_flight_on(slot, index) {
                let request = self.dispatcher.slot(slot).request(&self.spec.requests);
                let bytes = request.map_or(&[][..], |request| request.http1());
                let reason = reason.clone().map(|reason| reason.of_request(bytes));
                self.record_end(slot, outcome, reason.as_ref(), now);
                self.dispatcher.set_free(slot, now);
            }
        }
        self.close(index, Close::Abort);
        self.vacated(index, now);
    }

    /// Closes a multiplexed connection that has no exchange in flight and accepts no more. The
    /// connection is aborted, because otherwise its port would stay in TIME_WAIT.
    pub(super) fn close_if_spent(&mut self, index: u32, now: Nanos) -> bool {
        let entry = &self.connections[index];
        let (ConnectionState::Ready(session) | ConnectionState::Draining(session)) =
            &entry.link.state
        else {
            return false;
        };
        if !session.carrier.is_multiplexed() {
            return false;
        }
        let takes_more = self.spec.transport.keepalive
            && !session.maybe_dead
            && entry.link.send != SendState::Failed
            && !session.carrier.is_going_away();
        let is_spent = self.dispatcher.occupancy(index).in_flight == 0 && !takes_more;
        if is_spent {
            if session.carrier.is_going_away() {
                self.sink.closed_by_server(now);
            }
            self.note_preconnect_close();
            self.close(index, Close::Abort);
            self.vacated(index, now);
        }
        is_spent
    }

    /// Moves the idle slots of a connection whose peer accepts no more requests to the successor
    /// connection. If the successor is still closing, the slots wait.
    pub(super) fn use_successor_if_going_away(&mut self, index: u32, now: Nanos) {
        let entry = &self.connections[index];
        let successor = self.dispatcher.successor(index);
        let Some(successor) = successor.filter(|_| entry.is_going_away()) else {
            return;
        };
        if !self.dispatcher.occupancy(index).uses_successor {
            if !self.connections[successor].link.state.is_vacant() {
                return;
            }
            let target = entry.target;
            self.dispatcher.occupancy_mut(index).uses_successor = true;
            self.connections[successor].target = target;
        }
        let occupancy = self.dispatcher.occupancy(index);
        if occupancy.waiting + occupancy.parked > 0 {
            self.move_to_successor(index, successor, now);
        }
    }

    fn move_to_successor(&mut self, index: u32, successor: u32, now: Nanos) {
        self.dispatcher.move_to_successor(index, successor);
        if self.connections[successor].link.state.is_vacant() {
            self.vacated(successor, now);
        } else {
            self.fill(successor, now);
        }
    }

    /// Updates the dispatcher after the end of a connection. Slots that are waiting for the
    /// connection get another one, unless their requests are held.
    pub(super) fn vacated(&mut self, index: u32, now: Nanos) {
        let is_held = |ramp: &ConnectRamp| ramp.is_held(index);
        if self.ramp.as_ref().is_some_and(is_held) {
            return;
        }
        let occupancy = self.dispatcher.occupancy_mut(index);
        if std::mem::take(&mut occupancy.uses_successor)
            && let Some(successor) = self.dispatcher.successor(index)
        {
            self.move_to_successor(index, successor, now);
            // The successor may have waited for this connection to end.
            self.use_successor_if_going_away(successor, now);
            return;
        }
        if self.dispatcher.occupancy(index).waiting > 0 {
            self.connect(index, now);
        }
        self.dispatcher.unpark(index, now);
    }
}
