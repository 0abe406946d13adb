//! Handles the sockets' completions, and decides whether connections continue.

use std::io;

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::connections::SendState;
use crate::carrier::{ConnectionState, Progress, Reason};
use crate::socket::{Close, Completion, Key, Operation, Sockets};

/// Time given to the peer to close a drained connection before the load closes it.
const DRAIN_TIMEOUT: Nanos = Nanos::from_millis(10);

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Handles a completion. Inlined into both callers, because a function call would add 1% to the
    /// CPU time of a request.
    #[inline(always)]
    pub(super) fn on_completion(&mut self, completion: Completion, now: Nanos) {
        let key = completion.key();
        if !self.connections.is_current(key) {
            return;
        }
        let index = key.index;
        match completion {
            Completion::Connected(_) => self.connected(index, now),
            Completion::Sent(_, buffer) => self.sent(key, buffer),
            Completion::Received(_) if S::HAS_STREAMS => self.on_streams(key, now),
            Completion::Received(_) => {
                let bytes = self.sockets.received();
                let progress =
                    self.connections
                        .receive(index, bytes, now, &self.spec.responses.expect);
                self.on_progress(index, progress, now);
            }
            Completion::Closed(_) => self.on_peer_closed(index, now),
            Completion::Failed(_, Operation::Connect, error) => {
                self.on_connect_error(index, &error, now);
            }
            Completion::Failed(_, Operation::Send, _) => {
                // Bytes that the peer sent before it stopped reading may still arrive.
                self.connections[index].send = SendState::Failed;
                self.close_if_spent(index, now);
            }
            Completion::Failed(_, Operation::Receive, error) => {
                self.on_receive_error(index, &error, now);
            }
        }
    }

    /// Reads the events of a QUIC connection: the end of the handshake, responses, or the end of
    /// the connection.
    fn on_streams(&mut self, key: Key, now: Nanos) {
        if self.connections[key.index].is_early() {
            self.end_early_data(key.index, now);
        }
        let Some(quic) = self.sockets.quic(key) else {
            return;
        };
        let expected = &self.spec.responses.expect;
        let progress = self
            .connections
            .receive_streams(key.index, quic, now, expected);
        self.on_progress(key.index, progress, now);
    }

    /// Handles an orderly close by the peer. If a send failed before, the close counts as a reset.
    fn on_peer_closed(&mut self, index: u32, now: Nanos) {
        let entry = &self.connections[index];
        if entry.state.is_draining() {
            self.drained(index, Close::Orderly, now);
        } else if entry.send == SendState::Failed {
            // The failed send consumed the reset error, so the close looks orderly.
            let reset = io::Error::from_raw_os_error(libc::ECONNRESET);
            self.on_receive_error(index, &reset, now);
        } else {
            let progress = self
                .connections
                .peer_closed(index, &self.spec.responses.expect);
            self.on_progress(index, progress, now);
            if self.connections[index].state.is_draining() {
                self.drained(index, Close::Orderly, now);
            }
        }
    }

    /// Handles the progress of a connection after bytes have arrived or the peer has closed it.
    #[inline]
    fn on_progress(&mut self, index: u32, progress: Progress, now: Nanos) {
        match progress {
            Progress::Secured(secured) => return self.secured(index, secured, now),
            Progress::Tunneled => return self.tunneled(index, now),
            _ => {}
        }
        let has_streams = match &self.connections[index].state {
            ConnectionState::Ready(session) => session.http.has_streams(),
            ConnectionState::Draining(_) => {
                return self.on_progress_while_draining(index, &progress, now);
            }
            _ => return self.on_early_progress(index, progress, now),
        };
        if has_streams {
            self.note_heard(index, now);
            self.note_negotiated(index);
        }
        let has_events = self.handle_events(index, now);
        if self.sink.body_waits.is_testing() {
            self.acknowledge_test(index);
        }
        match progress {
            Progress::Open if has_streams => self.continue_streams(index, now),
            Progress::Open if has_events => {}
            Progress::Open => self.send_ciphertext(index),
            Progress::Closed => {
                self.sink.closed_by_server(now);
                self.close_idle(index, Close::Orderly, now);
            }
            Progress::Lost if has_streams => self.streams_lost(index, now),
            Progress::Lost => self.lost(index, now),
            Progress::Broken(outcome, reason) if has_streams => {
                self.streams_broken(index, outcome, reason, now);
            }
            Progress::Broken(outcome, reason) => {
                let slot = self.dispatcher.slot(self.connections[index].slot);
                let request = slot.request(&self.spec.requests);
                let reason = reason.of_request(request.map_or(&[], |request| &request.bytes));
                self.fail(index, outcome, Some(reason), now);
            }
            Progress::Unsolicited => {
                self.sink.unsolicited += 1;
                self.close_idle(index, Close::Abort, now);
            }
            // `Secured` and `Tunneled` were handled at the start of the function.
            Progress::Secured(_) | Progress::Tunneled => {}
        }
    }

    /// Acknowledges the beginning of a response immediately, if the response is a test.
    #[cold]
    fn acknowledge_test(&mut self, index: u32) {
        let mut slots = self.dispatcher.slots_of(index);
        let begun = slots.find(|&slot| {
            let stream = self.dispatcher.slot(slot).stream();
            let session = self.connections[index].session();
            let received = session.map(|session| session.http.received(stream));
            self.dispatcher.is_in_flight_on(slot, index)
                && received.is_some_and(|received| received.first_byte.is_some())
        });
        if begun.is_some_and(|slot| self.sink.body_waits.tests(slot)) {
            let key = self.connections[index].key(index);
            self.sockets.acknowledge(key);
        }
    }

    /// Handles received bytes on a connection that has served its last request.
    fn on_progress_while_draining(&mut self, index: u32, progress: &Progress, now: Nanos) {
        self.connections.buffers.events.clear();
        if self.connections[index].has_streams() {
            // The connection failed earlier, and only its GOAWAY remains to be sent.
            return;
        }
        match progress {
            Progress::Unsolicited => self.sink.unsolicited += 1,
            Progress::Broken(..) => self.drained(index, Close::Abort, now),
            _ => {}
        }
    }

    /// Closes a ready connection between two requests.
    fn close_idle(&mut self, index: u32, how: Close, now: Nanos) {
        if self.connections[index].state.is_ready() {
            self.note_preconnect_close();
            self.close(index, how);
            self.vacated(index, now);
        }
    }

    /// Waits for the peer to close a connection that has served its last request.
    pub(super) fn drain(&mut self, index: u32, now: Nanos) {
        self.connections[index].state.drain();
        self.timers.drains.set(index, now + DRAIN_TIMEOUT);
    }

    /// Closes a drained connection.
    pub(super) fn drained(&mut self, index: u32, how: Close, now: Nanos) {
        self.close(index, how);
        self.vacated(index, now);
    }

    /// Handles the loss of an HTTP/1 connection before any byte of the response: the request is
    /// sent again or fails.
    fn lost(&mut self, index: u32, now: Nanos) {
        self.sink.closed_by_server(now);
        let outcome = match self.connections[index].send {
            SendState::Failed => Outcome::Reset,
            _ => Outcome::ClosedEarly,
        };
        if !self.retry(index, now) {
            self.fail(index, outcome, None, now);
        }
    }

    /// Retries an HTTP/1 request that was lost on a *reused* connection, if the request is safe to
    /// repeat. Returns true if it is retried.
    fn retry(&mut self, index: u32, now: Nanos) -> bool {
        let slot = self.connections[index].slot;
        if !self.may_repeat(slot) {
            return false;
        }
        self.requeue_for_retry(slot, now);
        self.close(index, Close::Orderly);
        self.connect(index, now);
        true
    }

    fn on_receive_error(&mut self, index: u32, error: &io::Error, now: Nanos) {
        let outcome = match error.raw_os_error() {
            Some(libc::ETIMEDOUT) => Outcome::Timeout,
            _ => Outcome::Reset,
        };
        let reason = Reason::of_io(error);
        let occupancy = self.dispatcher.occupancy(index);
        let is_idle = occupancy.waiting + occupancy.in_flight == 0;
        if self.connections[index].state.is_ready() && !self.connections[index].has_streams() {
            self.sink.closed_by_server(now);
        }
        let (has_streams, has_begun) = match &self.connections[index].state {
            ConnectionState::Draining(_) => return self.drained(index, Close::Orderly, now),
            ConnectionState::Tunneling { .. } => {
                return self.connect_failed(index, Outcome::ConnectFailed, Some(reason), now);
            }
            ConnectionState::Ready(session) => (
                session.http.has_streams(),
                session.http.has_response_begun(),
            ),
            _ => (false, false),
        };
        if is_idle {
            self.note_preconnect_failure(outcome, Some(&reason));
            self.close(index, Close::Orderly);
            self.vacated(index, now);
        } else if has_streams {
            self.fail_streams(index, outcome, outcome, Some(&reason), now);
        } else if has_begun || !self.retry(index, now) {
            self.fail(index, outcome, Some(reason), now);
        }
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
        let state = &self.connections[index].state;
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
                self.record_end(slot, outcome, reason.as_ref(), now);
                self.dispatcher.set_free(slot, now);
            }
        }
        self.close(index, Close::Abort);
        self.vacated(index, now);
    }

    /// Records the negotiated protocols of an HTTP/2 or HTTP/3 connection. They are known as soon
    /// as the peer has sent its settings, even if no request succeeds.
    #[inline]
    pub(super) fn note_negotiated(&mut self, index: u32) {
        if self.sink.negotiated.is_some() {
            return;
        }
        let Some(session) = self.connections[index].session() else {
            return;
        };
        if session.http.has_streams() && session.http.is_established() {
            self.sink.negotiated = Some(session.negotiated());
        }
    }
}
