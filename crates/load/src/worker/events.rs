//! Handles connection events: ends requests, and continues or closes HTTP/2 connections.

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::connections::SendState;
use crate::carrier::{ConnectionState, EventKind, HttpMachine, Reason};
use crate::socket::{Close, Sockets};

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Handles the events that the last bytes completed. Returns true if there were any.
    #[inline]
    pub(super) fn handle_events(&mut self, index: u32, now: Nanos) -> bool {
        if self.connections.buffers.events.is_empty() {
            return false;
        }
        let first = self.dispatcher.slots_of(index).start;
        let mut next = 0;
        // Handling one event never adds another.
        while let Some(&event) = self.connections.buffers.events.get(next) {
            next += 1;
            self.handle_event(index, first + event.stream, event.kind, now);
        }
        self.connections.buffers.events.clear();
        true
    }

    #[inline]
    fn handle_event(&mut self, index: u32, slot: u32, kind: EventKind, now: Nanos) {
        match kind {
            EventKind::Response { outcome, reusable } => {
                if self.connections[index].has_streams() {
                    self.on_stream_response(index, slot, outcome, None, now);
                } else {
                    self.on_h1_response(index, slot, outcome, reusable, now);
                }
                return;
            }
            EventKind::CallFailed { status } => {
                let reason = Reason::Grpc(status);
                self.on_stream_response(index, slot, Outcome::GrpcStatus, Some(reason), now);
                return;
            }
            // The peer did not process the request, so the request can be repeated with any method.
            EventKind::Reset {
                unprocessed: true, ..
            } if !self.is_retried(slot) => {
                self.requeue_for_retry(slot, now);
                return;
            }
            EventKind::Reset { code, unprocessed } => {
                let again = unprocessed;
                let reason = Reason::Reset { code, again };
                self.record_end(slot, Outcome::Reset, Some(&reason), now);
            }
            EventKind::Malformed(violation) => {
                let reason = Reason::Stream(violation);
                self.record_end(slot, Outcome::Protocol, Some(&reason), now);
            }
        }
        self.dispatcher.set_free(slot, now);
    }

    /// Handles a complete HTTP/1 response. The connection is reused, drained or closed.
    fn on_h1_response(
        &mut self,
        index: u32,
        slot: u32,
        outcome: Outcome,
        reusable: bool,
        now: Nanos,
    ) {
        let entry = &mut self.connections[index];
        let sent_all = entry.is_all_sent();
        let mut keepalive = self.spec.transport.keepalive;
        if let Some(session) = entry.session_mut() {
            if let HttpMachine::One(h1) = &session.http {
                keepalive &= !h1.asked_to_close();
            }
            session.served = session.served.saturating_add(1);
            if self.sink.negotiated.is_none() {
                self.sink.negotiated = Some(session.negotiated());
            }
        }
        self.note_latency(slot, now);
        let is_over = self.end_or_redirect(slot, outcome, None, now);
        if reusable && sent_all && keepalive {
            if is_over {
                self.dispatcher.set_free(slot, now);
            }
            if self.dispatcher.occupancy(index).waiting > 0 {
                self.send_waiting(index, now);
            }
        } else if !reusable && sent_all {
            if keepalive {
                self.sink.closed_by_server(now);
            }
            if is_over {
                self.dispatcher.park(slot);
            }
            self.drain(index, now);
        } else {
            // There are two possible reasons: the response arrived before the request was sent, so
            // the server does not read the rest; or the connection must not be reused, whether the
            // server announced its close or not (RFC 9112 §9.6).
            self.close(index, Close::Abort);
            if is_over {
                self.dispatcher.set_free(slot, now);
            }
            self.vacated(index, now);
        }
    }

    /// Handles a complete response on a stream: the request ends or follows a redirect.
    fn on_stream_response(
        &mut self,
        index: u32,
        slot: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        if let Some(session) = self.connections[index].session_mut() {
            session.served = session.served.saturating_add(1);
        }
        self.note_latency(slot, now);
        if self.is_too_early(index, slot) {
            self.requeue_for_retry(slot, now);
            // The handshake is over, so the request is not early data again on this connection.
            self.send_request(slot, now);
            return;
        }
        if self.end_or_redirect(slot, outcome, reason.as_ref(), now) {
            self.dispatcher.set_free(slot, now);
        }
    }

    /// Returns true if the server refused a request because it was early data, for the first time.
    #[inline]
    fn is_too_early(&self, index: u32, slot: u32) -> bool {
        let session = self.connections[index].session();
        let stream = self.dispatcher.slot(slot).stream();
        matches!(session.map(|it| &it.http), Some(HttpMachine::Three(h3)) if h3.was_too_early(stream))
            && !self.is_retried(slot)
    }

    /// Records the latency of a response, which limits the length of coalesced waits.
    #[inline]
    fn note_latency(&mut self, slot: u32, now: Nanos) {
        let pending = self.dispatcher.slot(slot).pending();
        let sent = pending.and_then(|pending| pending.sent);
        self.coalescing.note_latency(now.since(sent.unwrap_or(now)));
    }

    pub(super) fn is_retried(&self, slot: u32) -> bool {
        let pending = self.dispatcher.slot(slot).pending();
        pending.is_some_and(|pending| pending.retried)
    }

    /// Returns true if a request in flight that was lost may be sent again. This requires an
    /// idempotent request, and a connection that had already served other requests.
    pub(super) fn may_repeat(&self, slot: u32) -> bool {
        let taken = self.dispatcher.slot(slot);
        let index = taken.connection;
        if !self.dispatcher.is_in_flight_on(slot, index) || self.is_retried(slot) {
            return false;
        }
        let session = self.connections[index].session();
        let is_reused = session.is_some_and(|session| session.served > 0);
        let request = taken.request(&self.spec.requests);
        is_reused && request.is_some_and(|request| request.idempotent)
    }

    /// Makes a lost request in flight wait for a connection again, as a retry.
    pub(super) fn requeue_for_retry(&mut self, slot: u32, now: Nanos) {
        self.take_back_unsent(slot);
        if self.dispatcher.slot(slot).pending().is_some() {
            self.dispatcher.requeue(slot, true);
            self.sink.recorder.retried(now);
        }
    }

    /// Records that bytes arrived on an HTTP/2 connection, which proves that it is alive.
    pub(super) fn note_heard(&mut self, index: u32, now: Nanos) {
        if let Some(session) = self.connections[index].session_mut() {
            session.last_heard = now;
            if std::mem::take(&mut session.maybe_dead) {
                self.dispatcher.unpark(index, now);
            }
        }
    }

    /// Continues an HTTP/2 connection, or closes it if one side no longer uses it.
    pub(super) fn continue_streams(&mut self, index: u32, now: Nanos) {
        let Some(session) = self.connections[index].session_mut() else {
            return;
        };
        let may_have_room =
            session.http.take_new_settings() || self.dispatcher.occupancy(index).waiting > 0;
        if self.close_if_spent(index, now) {
            return;
        }
        self.connections.mark_dirty(index);
        if may_have_room {
            self.fill(index, now);
        }
        self.use_successor_if_going_away(index, now);
    }

    /// Handles a close of an HTTP/2 connection by the peer while requests were in flight. The
    /// requests are sent again or fail.
    pub(super) fn streams_lost(&mut self, index: u32, now: Nanos) {
        if self.connections[index].send == SendState::Failed {
            self.fail_streams(index, Outcome::Reset, Outcome::Reset, None, now);
            return;
        }
        let within =
            Reason::Text("the connection closed before the end of the response".to_owned());
        let (early, late) = (Outcome::ClosedEarly, Outcome::Truncated);
        self.fail_streams(index, early, late, Some(&within), now);
    }

    /// Handles the loss of an HTTP/2 connection. Requests whose response has not begun may be sent
    /// again. A request that is not sent again gets the outcome `late` if its response has begun,
    /// and `early` otherwise.
    pub(super) fn fail_streams(
        &mut self,
        index: u32,
        early: Outcome,
        late: Outcome,
        reason: Option<&Reason>,
        now: Nanos,
    ) {
        self.sink.closed_by_server(now);
        let session = self.connections[index].session();
        let end_reason = session.and_then(|session| session.http.end_reason());
        for slot in self.dispatcher.slots_of(index) {
            if !self.dispatcher.is_in_flight_on(slot, index) {
                continue;
            }
            let stream = self.dispatcher.slot(slot).stream();
            let session = self.connections[index].session();
            let received = session.map(|session| session.http.received(stream));
            let has_begun = received.is_some_and(|received| received.first_byte.is_some());
            if !has_begun && self.may_repeat(slot) {
                self.requeue_for_retry(slot, now);
                continue;
            }
            let (outcome, reason) = if has_begun {
                (late, reason)
            } else {
                (early, reason.filter(|_| early == late))
            };
            self.record_end(slot, outcome, end_reason.as_ref().or(reason), now);
            self.dispatcher.set_free(slot, now);
        }
        self.close(index, Close::Orderly);
        self.vacated(index, now);
    }

    /// Fails all requests on an HTTP/2 connection whose peer violated HTTP/2 or TLS.
    pub(super) fn streams_broken(
        &mut self,
        index: u32,
        outcome: Outcome,
        reason: Reason,
        now: Nanos,
    ) {
        let is_ready = self.connections[index].state.is_ready();
        if !is_ready || outcome == Outcome::Tls {
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
        // GOAWAY contains the reason, and the peer gets a short time to read it (RFC 9113 §5.4.1).
        self.drain(index, now);
        self.send_frames(index);
    }

    /// Closes an HTTP/2 connection that has no requests in flight and accepts no more. The
    /// connection is aborted, because otherwise its port would stay in TIME_WAIT.
    pub(super) fn close_if_spent(&mut self, index: u32, now: Nanos) -> bool {
        let entry = &self.connections[index];
        let (ConnectionState::Ready(session) | ConnectionState::Draining(session)) = &entry.state
        else {
            return false;
        };
        if !session.http.has_streams() {
            return false;
        }
        let takes_more = self.spec.transport.keepalive
            && !session.maybe_dead
            && entry.send != SendState::Failed
            && !session.http.is_going_away();
        let is_spent = self.dispatcher.occupancy(index).in_flight == 0 && !takes_more;
        if is_spent {
            if session.http.is_going_away() {
                self.sink.closed_by_server(now);
            }
            self.note_preconnect_close();
            self.close(index, Close::Abort);
            self.vacated(index, now);
        }
        is_spent
    }
}
