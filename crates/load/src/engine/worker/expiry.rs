//! Expiry of timers.

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::dispatcher::RequestPhase;
use super::timers::{Alarm, Expired};
use crate::carrier::{Carrier, ConnectionState, Transport};
use crate::socket::Close;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Handles all timers that have expired.
    #[inline]
    pub(super) fn run_timers(&mut self, now: Nanos) {
        while let Some(expired) = self.timers.expired(now) {
            self.on_expired(expired, now);
        }
    }

    /// Expires all timers at the end of a pause, during which the worker's clock was stopped. In
    /// real time, a pause is usually longer than any timer. No request is in flight.
    pub(super) fn expire_timers(&mut self, now: Nanos) {
        while let Some(expired) = self.timers.expired(Nanos::MAX) {
            self.on_expired(expired, now);
        }
    }

    fn on_expired(&mut self, expired: Expired, now: Nanos) {
        match expired {
            Expired::Alarm {
                connection,
                generation,
                alarm,
            } => {
                if self.connections[connection].generation == generation {
                    self.on_alarm(connection, alarm, now);
                }
            }
            // The connection is aborted, because in an orderly close the side that closes first
            // keeps the port in TIME_WAIT.
            Expired::Drain(index) => self.drained(index, Close::Abort, now),
            Expired::Lifetime(index) => self.on_lifetime_end(index, now),
            Expired::Connect(index) => {
                self.sink.refusals.rule_out();
                self.connect_failed(index, Outcome::ConnectTimeout, None, now);
            }
            Expired::Request(slot) => self.on_request_timeout(slot, Outcome::Timeout, now),
            Expired::Gap(slot) => self.on_request_timeout(slot, Outcome::Stalled, now),
        }
    }

    fn on_alarm(&mut self, index: u32, alarm: Alarm, now: Nanos) {
        match alarm {
            Alarm::EndBackoff => {
                let entry = &mut self.connections[index];
                if let ConnectionState::Backoff = entry.link.state {
                    entry.link.state = ConnectionState::Vacant;
                    self.vacated(index, now);
                }
            }
            Alarm::Unpark => self.dispatcher.unpark(index, now),
            Alarm::RetryConnect => self.retry_connect(index),
        }
    }

    /// Handles a request whose complete response, or the next event of whose stream, did not arrive
    /// in time.
    fn on_request_timeout(&mut self, slot: u32, outcome: Outcome, now: Nanos) {
        self.sink.refusals.rule_out();
        let taken = self.dispatcher.slot(slot);
        let (index, phase) = (taken.connection, taken.phase());
        let entry = &self.connections[index];
        let is_in_flight = phase == Some(RequestPhase::InFlight);
        let waits_alone = phase == Some(RequestPhase::Waiting)
            && entry.link.state.is_being_made()
            && self.dispatcher.occupancy(index).waiting == 1;
        // The connection of a message that was sent completely can carry the next one.
        if is_in_flight && self.fan_out.is_some() && entry.link.is_all_sent() {
            self.end_broadcast(slot, outcome, now);
        } else if is_in_flight && entry.is_multiplexed() {
            self.on_stream_timeout(slot, outcome, now);
        } else if is_in_flight || waits_alone {
            self.fail(index, outcome, None, now);
        } else {
            // Other requests are waiting for the connection, or it is established but has no
            // capacity.
            let session = entry.session();
            let is_opening = session.is_some_and(|session| {
                session.carrier.may_receive_anytime() && !session.carrier.is_established()
            });
            self.record_end(slot, outcome, None, now);
            self.dispatcher.set_free(slot, now);
            if is_opening {
                self.close_idle(index, Close::Abort, now);
            } else if self.dispatcher.occupancy(index).waiting == 0 {
                self.dispatcher.unpark(index, now);
            }
        }
    }

    /// Cancels a stream that timed out; the connection's other streams continue. If no byte arrived
    /// since the request began, the connection may be dead.
    fn on_stream_timeout(&mut self, slot: u32, outcome: Outcome, now: Nanos) {
        let taken = self.dispatcher.slot(slot);
        let (index, stream) = (taken.connection, taken.stream());
        let sent = taken.pending().and_then(|pending| pending.sent);
        if let Some(session) = self.connections[index].session_mut() {
            session.carrier.cancel(stream);
            session.maybe_dead |= sent.is_some_and(|sent| session.last_heard <= sent);
        }
        self.record_end(slot, outcome, None, now);
        self.dispatcher.set_free(slot, now);
        if !self.close_if_spent(index, now) {
            self.connections.mark_dirty(index);
            if self.dispatcher.occupancy(index).waiting > 0 {
                self.fill(index, now);
            }
        }
    }
}
