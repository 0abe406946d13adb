//! The end of connections: idle, drained, lost, broken or failed, and what becomes of the requests
//! that were on them.
//!
//! A *successor connection* replaces a connection whose peer accepts no more requests while it has
//! some in flight (GOAWAY).
//!
//! The load itself replaces connections that have carried enough requests or are old enough. The
//! last request of such a connection is marked before it is sent. Over HTTP/1 it asks the server to
//! close the connection, so that the server's side enters TIME_WAIT. Over HTTP/2 the load sends
//! GOAWAY after the last response, and gives the server a short time to close. WebSockets end with
//! the closing handshake (RFC 6455 §7.1.2), also at the end of the load.

use prony_record::{Nanos, Outcome};

use super::ramp::ConnectRamp;
use super::timers::Expired;
use super::{SLEEP_MAX, Worker};
use crate::carrier::{Carrier, ConnectionState, Reason, SendState, SessionLife, Transport};
use crate::socket::{Close, Sockets};

/// Time given to the peer to close a drained connection before the load closes it.
const DRAIN_TIMEOUT: Nanos = Nanos::from_millis(10);
/// Time given to the peer to answer the close frame of a WebSocket.
const CLOSE_TIMEOUT: Nanos = Nanos::from_secs(1);

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
        let entry = &mut self.connections[index];
        entry.link.state.drain();
        let session = entry.session();
        let timeout = if session.is_some_and(|session| session.carrier.awaits_close()) {
            CLOSE_TIMEOUT
        } else {
            DRAIN_TIMEOUT
        };
        self.timers.drains.set(index, now + timeout);
    }

    /// Closes the WebSockets of a load that has ended, and waits a short time for the server's
    /// answers.
    pub(crate) fn close_websockets(&mut self) {
        if self.spec.websocket.is_none() {
            return;
        }
        let begun = self.transport.sockets().now();
        for index in 0..self.connections.len() {
            if let ConnectionState::Ready(session) = &mut self.connections[index].link.state
                && session.carrier.announce_end()
            {
                self.drain(index, begun);
                self.send_output(index);
            }
        }
        // Connections are checked from the last one down, because closed ones stay closed.
        let mut open = self.connections.len();
        loop {
            let now = self.transport.sockets().now();
            while let Some(expired) = self.timers.expired(now) {
                if let Expired::Drain(index) = expired {
                    self.drained(index, Close::Abort, now);
                }
            }
            while open > 0 && !self.connections[open - 1].link.state.is_draining() {
                open -= 1;
            }
            let until = (now + SLEEP_MAX).min(begun + CLOSE_TIMEOUT);
            if open == 0 || now >= begun + CLOSE_TIMEOUT {
                return;
            }
            if self.transport.sockets_mut().wait(until).is_err() {
                return;
            }
            while let Some(completion) = self.transport.sockets_mut().next() {
                let now = self.transport.sockets().cached_now();
                self.on_completion(completion, now);
            }
            self.send_dirty();
        }
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
        // The last output of HTTP/2 and of WebSockets contains the reason.
        let has_last_output = entry
            .session()
            .is_some_and(|it| it.carrier.is_multiplexed() || it.carrier.may_receive_anytime());
        if outcome == Outcome::Tls || !has_last_output {
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
        // The peer gets a short time to read the reason (RFC 9113 §5.4.1).
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
        let has_served = state.session().is_some_and(|session| session.has_served);
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
            && session.life != SessionLife::Retired
            && entry.link.send != SendState::Failed
            && !session.carrier.is_going_away();
        let is_spent = self.dispatcher.occupancy(index).in_flight == 0 && !takes_more;
        if is_spent {
            let is_closed_by_server = session.carrier.is_going_away();
            if self.drains_after_last_request(index, now) {
                return true;
            }
            if is_closed_by_server {
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

    /// Starts the clock of a connection's lifetime, if the load limits it.
    pub(super) fn begin_life(&mut self, index: u32, now: Nanos) {
        if let Some(lifetime) = self.spec.transport.connection_lifetime {
            self.timers.lifetimes.set(index, now + lifetime);
        }
    }

    /// Handles the end of a connection's lifetime. A connection in use ends after its next request,
    /// which can announce the end.
    pub(super) fn on_lifetime_end(&mut self, index: u32, now: Nanos) {
        let occupancy = self.dispatcher.occupancy(index);
        let is_idle = occupancy.waiting + occupancy.in_flight == 0;
        let ConnectionState::Ready(session) = &mut self.connections[index].link.state else {
            return;
        };
        if !is_idle {
            if session.life == SessionLife::Current {
                session.life = SessionLife::Expired;
            }
            return;
        }
        session.life = SessionLife::Retired;
        if !self.close_if_spent(index, now) && !self.drains_after_last_request(index, now) {
            self.close_idle(index, Close::Orderly, now);
        }
    }

    /// Announces the end of a connection before its last request is sent. Returns true if the next
    /// request is the last one.
    pub(super) fn announce_last_request(&mut self, index: u32) -> bool {
        let limit = self.spec.transport.requests_per_connection;
        let ConnectionState::Ready(session) = &mut self.connections[index].link.state else {
            return false;
        };
        let is_last = session.life == SessionLife::Expired || u64::from(session.begun) + 1 >= limit;
        if is_last {
            session.carrier.announce_last();
        }
        is_last
    }

    /// Counts a request that began on a connection. After the last one, the connection's other
    /// request slots move to its successor.
    pub(super) fn count_request(&mut self, index: u32, is_last: bool, now: Nanos) {
        if let ConnectionState::Ready(session) = &mut self.connections[index].link.state {
            session.begun = session.begun.saturating_add(1);
            if is_last {
                session.life = SessionLife::Retired;
            }
        }
        if is_last && self.connections[index].is_multiplexed() {
            self.use_successor_if_going_away(index, now);
        }
    }

    /// Announces to the peer that a multiplexed connection has ended. Returns true if the peer gets
    /// a short time to close it.
    pub(super) fn drains_after_last_request(&mut self, index: u32, now: Nanos) -> bool {
        let ConnectionState::Ready(session) = &mut self.connections[index].link.state else {
            return false;
        };
        let may_close = session.life == SessionLife::Retired
            && !session.carrier.is_going_away()
            && session.carrier.announce_end();
        if may_close {
            self.drain(index, now);
            self.send_output(index);
        }
        may_close
    }

    /// Replaces the connections to addresses that their hosts no longer have.
    pub(super) fn replace_gone_addresses(&mut self, now: Nanos) {
        for index in 0..self.connections.len() {
            let target = self.connections[index].target;
            let book = self.addresses.as_ref();
            if book.is_some_and(|book| book.is_gone(index, target)) {
                self.on_lifetime_end(index, now);
            }
        }
    }
}
