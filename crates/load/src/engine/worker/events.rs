//! Handles the events of exchanges, and continues or closes their connections.

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::dispatcher::RequestPhase;
use crate::carrier::{CallExplanation, Carrier, EventKind, Reason, Reuse, Transport};
use crate::exchange::{EventCounts, StreamFailure};
use crate::socket::Close;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Handles the events that the last bytes completed. Returns true if an exchange ended.
    #[inline]
    pub(super) fn handle_events(&mut self, index: u32, now: Nanos) -> bool {
        if self.connections.buffers.events.is_empty() {
            return false;
        }
        let first = self.dispatcher.slots_of(index).start;
        let (mut next, mut has_ended) = (0, false);
        // Handling one event never adds another.
        while let Some(&event) = self.connections.buffers.events.get(next) {
            next += 1;
            has_ended |= event.kind.ends_exchange();
            self.handle_event(index, first + event.stream, event.kind, now);
        }
        self.connections.buffers.events.clear();
        has_ended
    }

    #[inline]
    fn handle_event(&mut self, index: u32, slot: u32, kind: EventKind, now: Nanos) {
        match kind {
            EventKind::Message(counts) => {
                if self.script.is_some() {
                    self.show_messages(slot);
                }
                self.events_arrived(slot, counts, now);
                return;
            }
            EventKind::Unawaited => {
                self.message_arrived(index, slot, now);
                return;
            }
            EventKind::SocketEnded(fault) => {
                self.sink.closed_by_server(now);
                self.record_end(slot, fault.outcome(), Some(&fault.into()), now);
            }
            EventKind::StreamFailed { failure, reuse } => {
                let reason = match failure {
                    StreamFailure::NoEndMarker => None,
                    failure => Some(Reason::IncompleteStream(failure)),
                };
                self.on_response(index, slot, (failure.outcome(), reason), reuse, now);
                return;
            }
            EventKind::Response { outcome, reuse } => {
                self.on_response(index, slot, (outcome, None), reuse, now);
                return;
            }
            EventKind::CallFailed { failure, message } => {
                let session = self.connections[index].session();
                let message = session
                    .zip(message)
                    .map(|(session, id)| CallExplanation::decode(session.carrier.call_message(id)));
                let reason = Reason::Call(failure, message);
                let failed = (Outcome::Call(failure), Some(reason));
                self.on_response(index, slot, failed, Reuse::Allowed, now);
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

    /// Records events of a slot's stream. The next event must then arrive within the gap timeout.
    pub(super) fn events_arrived(&mut self, slot: u32, counts: EventCounts, now: Nanos) {
        let Some(times) = &mut self.event_times else {
            return;
        };
        let taken = self.dispatcher.slot(slot);
        let (Some(RequestPhase::InFlight), Some(pending)) = (taken.phase(), taken.pending()) else {
            return;
        };
        let is_settling = pending.is_settling;
        let arrived = times.arrived(slot, counts, now);
        self.sink.recorder.events_arrived(now, is_settling, arrived);
        if arrived.events > 0 {
            self.timers.requests.clear(slot);
            if let Some(timeout) = self.spec.responses.gap_timeout {
                self.timers.gaps.set(slot, now + timeout);
            }
        }
    }

    /// Handles a message on this slot that no exchange awaits, unless a fan-out does.
    pub(super) fn message_arrived(&mut self, index: u32, slot: u32, now: Nanos) {
        let stream = self.dispatcher.slot(slot).stream();
        let session = self.connections[index].session_mut();
        let message = session.and_then(|session| session.carrier.take_delivery(stream));
        let found = match (&mut self.fan_out, message) {
            (Some(fan_out), Some(message)) => {
                let (dispatcher, requests) = (&self.dispatcher, &self.spec.requests);
                fan_out.deliver(slot, &message, |slot| {
                    let taken = dispatcher.slot(slot);
                    let is_sent = taken.phase() == Some(RequestPhase::InFlight);
                    let request = taken.request(requests).filter(|_| is_sent)?;
                    Some(request.http1().to_vec())
                })
            }
            _ => None,
        };
        let Some((sender, is_complete)) = found else {
            self.sink.message_unawaited(now);
            return;
        };
        let pending = self.dispatcher.slot(sender).pending();
        let is_settling = pending.is_some_and(|pending| pending.is_settling);
        let is_measured = !is_settling && self.sink.recorder.is_measured_at(now);
        self.sink.websocket.deliveries += u64::from(is_measured);
        if let Some(times) = &mut self.event_times {
            let counts = EventCounts {
                events: 1,
                ..EventCounts::default()
            };
            let arrived = times.arrived(sender, counts, now);
            self.sink.recorder.events_arrived(now, is_settling, arrived);
        }
        if is_complete {
            self.end_broadcast(sender, Outcome::Ok, now);
        }
    }

    /// Ends a message of a fan-out. Its connection stays open.
    pub(super) fn end_broadcast(&mut self, slot: u32, outcome: Outcome, now: Nanos) {
        if let Some(fan_out) = &mut self.fan_out {
            let lost = fan_out.end(|it| it == slot);
            let is_measured = self.sink.recorder.is_measured_at(now);
            self.sink.websocket.deliveries_lost += u64::from(lost) * u64::from(is_measured);
        }
        let taken = self.dispatcher.slot(slot);
        let (index, stream) = (taken.connection, taken.stream());
        if let Some(session) = self.connections[index].session_mut() {
            session.has_served = true;
            session.carrier.end_fan_out(stream);
        }
        self.record_end(slot, outcome, None, now);
        self.dispatcher.set_free(slot, now);
    }

    /// Handles a complete response: the exchange ends or follows a redirect, and the connection is
    /// reused, drained or closed.
    fn on_response(
        &mut self,
        index: u32,
        slot: u32,
        (outcome, reason): (Outcome, Option<Reason>),
        reuse: Reuse,
        now: Nanos,
    ) {
        let entry = &mut self.connections[index];
        let may_send_more = entry.session().is_some_and(|session| {
            session.carrier.is_multiplexed() || session.carrier.may_receive_anytime()
        });
        let is_all_sent = may_send_more || entry.link.is_all_sent();
        let keepalive = entry.is_multiplexed() || self.spec.transport.keepalive;
        if let Some(session) = entry.session_mut() {
            session.has_served = true;
        }
        self.note_negotiated(index);
        self.note_latency(slot, now);
        if self.is_too_early(index, slot) {
            self.requeue_for_retry(slot, now);
            // The handshake is over, so the request is not early data again on this connection.
            self.send_request(slot, now);
            return;
        }
        let is_over = self.end_or_redirect(slot, outcome, reason.as_ref(), now);
        match reuse {
            Reuse::Allowed if is_all_sent && keepalive => {
                if is_over {
                    self.dispatcher.set_free(slot, now);
                }
                if self.dispatcher.occupancy(index).waiting > 0 {
                    self.send_waiting(index, now);
                }
            }
            Reuse::PeerCloses { requested } if is_all_sent => {
                if keepalive && !requested {
                    self.sink.closed_by_server(now);
                }
                if is_over {
                    self.dispatcher.park(slot);
                }
                self.drain(index, now);
            }
            // There are two possible reasons: the response arrived before the request was sent, so
            // the server does not read the rest; or the connection must not be reused, whether the
            // server announced its close or not (RFC 9112 §9.6).
            _ => {
                self.close(index, Close::Abort);
                if is_over {
                    self.dispatcher.set_free(slot, now);
                }
                self.vacated(index, now);
            }
        }
    }

    /// Returns true if the server refused a request because it was early data, for the first time.
    #[inline]
    fn is_too_early(&self, index: u32, slot: u32) -> bool {
        let session = self.connections[index].session();
        let stream = self.dispatcher.slot(slot).stream();
        session.is_some_and(|session| session.carrier.was_too_early(stream))
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
        let is_reused = session.is_some_and(|session| session.has_served);
        let request = taken.request(&self.spec.requests);
        is_reused && request.is_some_and(|request| request.idempotent)
    }

    /// Makes a lost request in flight wait for a connection again, as a retry.
    pub(super) fn requeue_for_retry(&mut self, slot: u32, now: Nanos) {
        self.take_back_unsent(slot);
        if self.dispatcher.slot(slot).pending().is_some() {
            if let Some(times) = &mut self.event_times
                && times.take(slot).span.is_some()
            {
                self.timers.gaps.clear(slot);
                if let Some(timeout) = self.spec.responses.timeout {
                    self.timers.requests.set(slot, now + timeout);
                }
            }
            self.dispatcher.requeue(slot, true);
            self.sink.recorder.retried(now);
        }
    }

    /// Records that bytes arrived on a connection, which proves that it is alive.
    #[inline]
    pub(super) fn note_heard(&mut self, index: u32, now: Nanos) {
        if let Some(session) = self.connections[index].session_mut() {
            session.last_heard = now;
            if std::mem::take(&mut session.maybe_dead) {
                self.dispatcher.unpark(index, now);
            }
        }
    }

    /// Continues an open connection, or closes it if one side no longer uses it. `has_ended` is
    /// true if an exchange ended.
    #[inline]
    pub(super) fn continue_connection(&mut self, index: u32, has_ended: bool, now: Nanos) {
        let Some(session) = self.connections[index].session_mut() else {
            return;
        };
        if !session.carrier.is_multiplexed() {
            // After the end of an exchange, the output was sent together with the next one.
            let has_opened = session.carrier.take_new_settings();
            if !has_ended || session.carrier.may_receive_anytime() {
                self.send_output(index);
            }
            if has_opened {
                self.fill(index, now);
            }
            return;
        }
        let may_have_capacity =
            session.carrier.take_new_settings() || self.dispatcher.occupancy(index).waiting > 0;
        if self.close_if_spent(index, now) {
            return;
        }
        self.connections.mark_dirty(index);
        if may_have_capacity {
            self.fill(index, now);
        }
        self.use_successor_if_going_away(index, now);
    }
}
