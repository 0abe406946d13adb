//! Timers, and how requests, connections and the load come to their ends.

use std::cmp::Reverse;

use prony_record::{Exchange, Nanos, Outcome};

use super::following::Hops;
use super::scripted::Ended;
use super::{Alarm, Pace, Worker, WorkerResult};
use crate::connection::{Reason, Received};
use crate::slot::State;
use crate::socket::{Close, Sockets};

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    pub(super) fn set_alarm(&mut self, index: u32, at: Nanos, alarm: Alarm) {
        let generation = self.slots[index as usize].generation;
        self.alarms.push(Reverse((at, index, generation, alarm)));
    }

    /// Does what has fallen due.
    #[inline]
    pub(super) fn run_timers(&mut self, now: Nanos) {
        while let Some(&Reverse((at, index, generation, alarm))) = self.alarms.peek()
            && at <= now
        {
            self.alarms.pop();
            let slot = &mut self.slots[index as usize];
            if slot.generation != generation {
                continue;
            }
            match (alarm, slot.state) {
                (Alarm::BackoffOver, State::BackingOff) => {
                    slot.state = State::Vacant;
                    self.vacated(index, now);
                }
                (Alarm::RestOver, _) => self.unpark(index, now),
                (Alarm::ConnectAgain, State::Connecting) => self.connect_again(index),
                _ => {}
            }
        }
        while let Some(index) = self.drain_deadlines.expired(now) {
            // An abort, as the one that closes first in order keeps the port in TIME_WAIT.
            self.drained(index, Close::Abort, now);
        }
        while let Some(index) = self.connect_deadlines.expired(now) {
            self.rule_out_refusal();
            self.connect_given_up(index, Outcome::ConnectTimeout, None, now);
        }
        while let Some(seat) = self.request_deadlines.expired(now) {
            self.timed_out(seat, now);
        }
    }

    /// A request has had no whole answer in time.
    fn timed_out(&mut self, seat: u32, now: Nanos) {
        self.rule_out_refusal();
        let place = &self.seats[seat as usize];
        let index = place.slot;
        let slot = &self.slots[index as usize];
        let is_under_way = place.pending.as_ref().is_some_and(|it| it.is_under_way);
        let is_diverted = place.pending.as_ref().is_some_and(|it| it.is_diverted);
        let is_unmade = matches!(
            slot.state,
            State::Connecting | State::Tunneling | State::Securing
        );
        if is_under_way && slot.connection.is_multiplexed() {
            self.stream_timed_out(seat, now);
        } else if is_under_way || (is_unmade && slot.waiting == 1 && !is_diverted) {
            self.fail(index, Outcome::Timeout, None, now);
        } else {
            // Others still want the connection, or it is made and only the room on it is missing.
            self.record_failure(seat, Outcome::Timeout, None, now);
            self.set_free(seat, now);
            if self.slots[index as usize].waiting == 0 {
                self.unpark(index, now);
            }
        }
    }

    /// A connection that had served its last request is gone.
    pub(super) fn drained(&mut self, index: u32, how: Close, now: Nanos) {
        self.close(index, how);
        self.vacated(index, now);
    }

    /// Takes the slot's connection down, if it has one.
    pub(super) fn close(&mut self, index: u32, how: Close) {
        self.connect_deadlines.clear(index);
        self.drain_deadlines.clear(index);
        self.settle(index);
        let slot = &mut self.slots[index as usize];
        slot.connection.abandon();
        if !matches!(slot.state, State::Vacant | State::BackingOff) {
            self.sockets.close(slot.key(index), how);
            slot.generation = slot.generation.wrapping_add(1);
            slot.state = State::Vacant;
        }
    }

    /// Writes down how the seat's request ended, without a reason.
    #[inline]
    pub(super) fn record(&mut self, seat: u32, outcome: Outcome, now: Nanos) {
        self.write_down(seat, outcome, None, now);
    }

    /// Writes down how the seat's request ended; tells whether it is one of those measured.
    #[inline]
    fn write_down(
        &mut self,
        seat: u32,
        outcome: Outcome,
        reason: Option<&Reason>,
        now: Nanos,
    ) -> bool {
        if self.script.is_some() {
            self.show_whole(seat);
        }
        self.take_back_unsent(seat);
        let place = &mut self.seats[seat as usize];
        let Some(pending) = place.pending.take() else {
            return false;
        };
        let slot = &mut self.slots[place.slot as usize];
        self.in_flight -= 1;
        self.request_deadlines.clear(seat);
        let received = match pending.is_under_way {
            true => {
                slot.under_way -= 1;
                slot.connection.received(place.tag())
            }
            false => {
                match pending.is_diverted {
                    true => slot.diverted -= 1,
                    false => slot.waiting -= 1,
                }
                Received::default()
            }
        };
        let before = match &mut self.following {
            Some(following) => following.take(seat),
            None => Hops::default(),
        };
        let sent = pending.sent.unwrap_or(pending.begun.max(pending.intended));
        // A request that fails in the turn in which it was sent ends by that turn's clock, which was
        // read before the send.
        let (sent, ended) = match outcome {
            Outcome::Unfinished => (sent.min(now), now),
            _ => (sent, now.max(sent)),
        };
        let exchange = Exchange {
            intended: pending.intended,
            sent,
            first_byte: pending.first_byte.or(received.first_byte),
            ended,
            status: received.status.filter(|_| is_whole(outcome)),
            bytes_in: before.bytes_in + received.bytes,
            body_bytes_in: before.body_bytes_in + received.body_bytes,
            bytes_out: pending.bytes_out,
        };
        debug_assert!(exchange.is_in_order(), "{exchange:?}");
        let index = place.slot;
        let own = place.own.take();
        place.lookup = None;
        let is_measured = self.recorder.ended(&exchange, outcome);
        if is_measured {
            self.count_request(index, outcome);
        }
        if let Some(scripted) = &mut self.script {
            let listed = || &self.spec.requests[pending.request as usize];
            let ended = Ended {
                request: own.as_deref().unwrap_or_else(listed),
                exchange: &exchange,
                outcome,
                reason,
                is_measured,
            };
            scripted.ended(seat, &ended);
        }
        is_measured
    }

    /// Writes down a failure, and its reason where the failure counts.
    pub(super) fn record_failure(
        &mut self,
        seat: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        if self.write_down(seat, outcome, reason.as_ref(), now) {
            self.reasons.add(outcome, reason);
        }
    }

    /// The load is over at `ended`: what runs is unfinished, what is due and not begun unstarted.
    pub(super) fn finish(mut self, ended: Nanos) -> WorkerResult {
        self.recorder.stop_at(ended);
        for seat in 0..self.seats.len() as u32 {
            self.record(seat, Outcome::Unfinished, ended);
        }
        for index in 0..self.slots.len() as u32 {
            // Aborted, or the ports of a large load would stay in TIME_WAIT for the next one.
            self.close(index, Close::Abort);
        }
        if let Pace::Open(schedule) = &mut self.pace {
            for due in schedule.by_ref().take_while(|due| *due < ended) {
                let exchange = Exchange {
                    intended: due,
                    sent: due,
                    first_byte: None,
                    ended,
                    status: None,
                    bytes_in: 0,
                    body_bytes_in: 0,
                    bytes_out: 0,
                };
                self.recorder.ended(&exchange, Outcome::Unstarted);
            }
        }
        self.recorder.finish(ended);
        if let Some(scripted) = self.script.take() {
            scripted.finish();
        }
        WorkerResult {
            utilization: self.meter.utilization(ended),
            recorder: self.recorder,
            reasons: self.reasons,
            negotiated: self.negotiated,
            ended,
            first_start: self.first_start,
            unasked: self.unasked,
            sources: self.sources,
            streams_limit: self.streams_limit,
            prepared: self.prepared,
            refusals: self.refusals,
            connects: self.connects,
        }
    }
}

/// Whether a whole answer came, expected or not.
fn is_whole(outcome: Outcome) -> bool {
    use Outcome::{Ok, UnexpectedBody, UnexpectedSize, UnexpectedStatus};
    matches!(
        outcome,
        Ok | UnexpectedBody | UnexpectedSize | UnexpectedStatus
    )
}
