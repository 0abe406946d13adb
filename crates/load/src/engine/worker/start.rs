//! Starts requests: assigns each a slot, and opens a connection for a slot that has none.

use prony_record::Nanos;

use super::Worker;
use super::pace::Pace;
use crate::carrier::{Carrier, ConnectionState, Transport};
use crate::socket::{Close, Sockets};

/// Number of starts in a closed loop for which one clock reading serves, because they take less than
/// about ten microseconds together. An earlier reading only makes times longer. A start on a
/// multiplexed connection only writes into the connection's buffer.
const STARTS_PER_CLOCK_READING: u32 = 8;
const STREAM_STARTS_PER_CLOCK_READING: u32 = 64;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Starts up to `max` requests that are due and for which a slot is free. The limit exists
    /// because a connect can take a millisecond when local ports are scarce, and thousands of
    /// requests may be due at the same time. Returns the number of requests started.
    #[inline]
    pub(super) fn start_due(&mut self, mut now: Nanos, max: u32) -> u32 {
        if now >= self.end {
            return 0;
        }
        if self.has_own_starts {
            return match self.replay {
                Some(_) => self.start_replayed(now, max),
                None => self.start_steps(now, max),
            };
        }
        // The lateness of an open loop's starts, and what a script does, need exact times.
        let is_exact = self.script.is_some() || matches!(self.dispatcher.pace, Pace::Open(_));
        let per_reading = match self.spec.transport.protocols.streams {
            1 => STARTS_PER_CLOCK_READING,
            _ => STREAM_STARTS_PER_CLOCK_READING,
        };
        let mut has_connected = false;
        for started in 0..max {
            if !self.dispatcher.has_free_slot() || self.is_ramp_full(now) {
                return started;
            }
            let is_clock_due = is_exact
                || std::mem::take(&mut has_connected)
                || started.is_multiple_of(per_reading);
            if started > 0 && is_clock_due {
                now = self.transport.sockets().now();
                if now >= self.end {
                    return started;
                }
            }
            let Some(due) = self.dispatcher.due(now) else {
                return started;
            };
            let Some((slot, request)) = self.take_next(now) else {
                return started;
            };
            let intended = due.unwrap_or_else(|| self.free_since(slot, now).min(now));
            self.dispatcher.advance_pace(intended, self.spec);
            has_connected = self.start(slot, request, intended, now);
        }
        max
    }

    /// Returns the slot for the next request, and the request's index in the list. A script may
    /// choose both.
    #[inline]
    fn take_next(&mut self, now: Nanos) -> Option<(u32, u32)> {
        if self.are_users_controlled {
            return match self.script {
                Some(_) => self.ask_users(now),
                None if self.fan_out.is_some() => self.take_broadcast(),
                None => self.take_rested(now),
            };
        }
        let (slot, request) = self.take_listed()?;
        self.dispatcher.advance_list(slot);
        Some((slot, request))
    }

    /// Takes the next message of a fan-out, with the slot that sends it.
    pub(super) fn take_broadcast(&mut self) -> Option<(u32, u32)> {
        let (slot, request) = self.take_listed()?;
        self.dispatcher.advance_list(slot);
        let slots = self.dispatcher.slots.iter().map(|slot| {
            let session = self.connections[slot.connection].session();
            session.is_some_and(|session| session.carrier.receives_deliveries(slot.stream()))
        });
        let open = Vec::from_iter(slots);
        let dispatcher = &self.dispatcher;
        if let Some(fan_out) = &mut self.fan_out {
            // A message may have ended with its connection.
            let lost = fan_out.end(|slot| dispatcher.slot(slot).pending().is_none());
            self.sink.websocket.deliveries_lost += u64::from(lost);
            fan_out.begin(slot, open);
        }
        Some((slot, request))
    }

    /// Returns the time since which a slot could have taken this request. A slot whose connection
    /// was never used counts as free from `now` on. The time that the worker needs to begin
    /// thousands of connections must not count as part of the response times.
    pub(super) fn free_since(&self, slot: u32, now: Nanos) -> Nanos {
        let slot = self.dispatcher.slot(slot);
        if self.connections[slot.connection].is_fresh() {
            now
        } else {
            slot.free_since.max(self.dispatcher.eligible_since)
        }
    }

    pub(super) fn is_ramp_full(&self, now: Nanos) -> bool {
        let ramp = self.ramp.as_ref();
        ramp.is_some_and(|ramp| ramp.is_full(now))
    }

    /// Returns true if a request could start immediately.
    pub(super) fn can_start(&self, now: Nanos) -> bool {
        if let Some(journeys) = &self.journeys {
            return self.can_start_step(journeys, now);
        }
        if self.replay.is_some() {
            return self.next_replayed(now) <= now;
        }
        self.dispatcher.has_free_slot()
            && !self.is_ramp_full(now)
            && self.dispatcher.due(now).is_some()
    }

    /// Starts a request. Returns true if this opened a connection, which may take long.
    pub(super) fn start(&mut self, slot: u32, request: u32, intended: Nanos, now: Nanos) -> bool {
        if self.journeys.is_some() {
            if self.dispatcher.slot(slot).own.is_none() {
                self.render_step(slot, request, now);
            }
        } else if let Some(renderer) = &mut self.renderer
            && self.dispatcher.slot(slot).own.is_none()
        {
            let cookies = self.cookies.as_ref();
            let jar = cookies.map(|cookies| cookies.of(slot, now));
            self.dispatcher.slot_mut(slot).own = renderer.render(request, slot, jar);
        }
        self.dispatcher.begin(slot, request, intended, now);
        self.sink
            .request_started(self.spec.entries.of_request(request), now);
        let taken = self.dispatcher.slot(slot);
        if self.dispatcher.pace.is_scheduled()
            && self.journeys.is_none()
            && !taken.pending().is_some_and(|pending| pending.is_settling)
        {
            let free_since = taken.free_since.max(self.dispatcher.eligible_since);
            self.sink
                .recorder
                .started_by_schedule(intended, free_since, now);
        }
        let index = taken.connection;
        let target = taken.request(&self.spec.requests).map_or(0, |it| it.target);
        if let Some(timeout) = self.spec.responses.timeout {
            self.timers.requests.set(slot, now + timeout);
        }
        if let Some(script) = &mut self.script {
            script.request_begins(slot);
        }
        let entry = &self.connections[index];
        let occupancy = self.dispatcher.occupancy(index);
        if entry.link.state.is_ready() && entry.target == target {
            self.send_request(slot, now);
            false
        } else if occupancy.waiting + occupancy.in_flight > 1 {
            self.dispatcher.defer_until_idle(slot);
            false
        } else {
            // A connection to another target is aborted, because otherwise its port would stay in
            // TIME_WAIT.
            if entry.link.state.is_ready() {
                self.sink.closed_for_other_target(now);
            }
            self.close(index, Close::Abort);
            let entry = &mut self.connections[index];
            entry.target = target;
            if entry.is_fresh()
                && let Some(ramp) = &mut self.ramp
            {
                ramp.begin(index);
            }
            self.connect(index, now);
            true
        }
    }

    /// Continues the ramp. Sends the held requests once the ramp is over or its time limit is
    /// reached.
    pub(super) fn end_ramp_if_due(&mut self, now: Nanos) {
        let Some(ramp) = &mut self.ramp else {
            return;
        };
        let released = ramp.end_if_due(now);
        let is_over = ramp.is_over(now);
        if released {
            self.release_all(now);
        }
        if is_over {
            self.ramp = None;
        }
    }

    /// Sends the requests that the ramp is holding, and ends the hold.
    pub(super) fn end_hold(&mut self, now: Nanos) {
        if self.ramp.as_mut().is_some_and(|ramp| ramp.end_hold()) {
            self.release_all(now);
        }
    }

    fn release_all(&mut self, now: Nanos) {
        for index in 0..self.connections.len() {
            self.release(index, now);
        }
    }

    /// Sends the request of a connection, if the ramp was holding it.
    fn release(&mut self, index: u32, now: Nanos) {
        if !self.ramp.as_mut().is_some_and(|ramp| ramp.release(index)) {
            return;
        }
        let slot = self.connections[index].slot;
        let held = self.dispatcher.slot_mut(slot);
        let free_since = held.free_since;
        if let Some(pending) = held.pending_mut() {
            pending.intended = pending.intended + now.since(free_since);
            if let Some(timeout) = self.spec.responses.timeout {
                self.timers.requests.set(slot, now + timeout);
            }
        }
        if let ConnectionState::Vacant = self.connections[index].link.state {
            // The server closed the connection before its request was sent.
            self.vacated(index, now);
        } else {
            self.fill(index, now);
        }
    }
}
