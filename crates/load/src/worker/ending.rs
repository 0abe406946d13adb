//! Timers, and how requests, connections and the load come to their ends.

use std::cmp::Reverse;

use prony_record::{Exchange, Nanos, Outcome};

use super::{Alarm, Pace, Worked, Worker};
use crate::connection::Reason;
use crate::slot::State;
use crate::socket::{Close, Sockets};

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    pub(super) fn set_alarm(&mut self, index: u32, at: Nanos, alarm: Alarm) {
        let generation = self.slots[index as usize].generation;
        self.alarms.push(Reverse((at, index, generation, alarm)));
    }

    /// Does what has fallen due.
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
                    self.set_free(index, now);
                }
                (Alarm::ConnectAgain, State::Connecting) => self.connect_again(index),
                _ => {}
            }
        }
        while let Some(index) = self.drain_deadlines.expired(now) {
            // An abort, as the one that closes first in order keeps the port in TIME_WAIT.
            self.drained(index, Close::Abort, now);
        }
        while let Some(index) = self.connect_deadlines.expired(now) {
            self.connect_given_up(index, Outcome::ConnectTimeout, None, now);
        }
        while let Some(index) = self.request_deadlines.expired(now) {
            self.fail(index, Outcome::Timeout, None, now);
        }
    }

    pub(super) fn set_free(&mut self, index: u32, now: Nanos) {
        self.slots[index as usize].free_since = now;
        self.free.push_back(index);
    }

    /// A connection that had served its last request is gone.
    pub(super) fn drained(&mut self, index: u32, how: Close, now: Nanos) {
        self.close(index, how);
        self.set_free(index, now);
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

    /// Writes down how the slot's request ended; tells whether it is one of those measured.
    pub(super) fn record(&mut self, index: u32, outcome: Outcome, now: Nanos) -> bool {
        let slot = &mut self.slots[index as usize];
        let Some(pending) = slot.pending.take() else {
            return false;
        };
        self.in_flight -= 1;
        self.request_deadlines.clear(index);
        let (bytes_in, body_bytes_in) = match pending.sent {
            Some(_) => slot.connection.received_bytes(),
            None => (0, 0),
        };
        let exchange = Exchange {
            intended: pending.intended,
            sent: pending.sent.unwrap_or(pending.begun),
            first_byte: pending.first_byte,
            ended: now,
            status: slot.connection.status().filter(|_| is_whole(outcome)),
            bytes_in,
            body_bytes_in,
            bytes_out: pending.bytes_out,
        };
        self.recorder.ended(&exchange, outcome)
    }

    /// Writes down a failure, and its reason where the failure counts.
    pub(super) fn record_failure(
        &mut self,
        index: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        if self.record(index, outcome, now) {
            self.reasons.add(outcome, reason);
        }
    }

    /// The load is over at `ended`: what runs is unfinished, what is due and not begun unstarted.
    pub(super) fn finish(mut self, ended: Nanos) -> Worked {
        for index in 0..self.slots.len() as u32 {
            self.record(index, Outcome::Unfinished, ended);
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
        Worked {
            effort: self.meter.effort(ended),
            recorder: self.recorder,
            reasons: self.reasons,
            negotiated: self.negotiated,
            ended,
            unasked: self.unasked,
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
