//! HTTP/2: many requests on one connection, each with an ending of its own.

use prony_protocol::h2::StartError;
use prony_record::{Nanos, Outcome};

use super::reacting::FIRST_BACKOFF;
use super::{Alarm, Pace, Worker};
use crate::connection::{Ending, Progress, Reason};
use crate::slot::State;
use crate::socket::{Close, Sockets, WaitBatch};

/// With fewer requests under way no answer waits for others.
const FEWEST_FOR_A_LOT: u32 = 16;
/// An answer waits for others for this part of the time that answers usually take...
const SHARE_FOR_A_LOT: u64 = 20;
/// ...but not longer than this, and not at all where that is shorter than this.
const TIME_FOR_A_LOT: (Nanos, Nanos) = (Nanos::from_micros(8), Nanos::from_micros(50));
/// What a request that was written by hand can't do.
const ONLY_HTTP1: &str = "the request was written for HTTP/1, and the connection speaks HTTP/2";
/// Over how many answers the usual time is taken.
const ANSWERS_IN_MEAN: i64 = 64;

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// What a wait may gather.
    ///
    /// Servers send many answers on one connection each by itself, in several small segments. Who
    /// takes each of them at once is woken for each, and asks for one thing at a time, so that the
    /// server is woken for each, too: both work on little but wake-ups. In a closed loop with much
    /// under way answers are taken in lots instead, each at most 5% later than it came.
    pub(super) fn lot(&self) -> Option<WaitBatch> {
        let within = Nanos(self.usual.0 / SHARE_FOR_A_LOT).min(TIME_FOR_A_LOT.1);
        let pays = within >= TIME_FOR_A_LOT.0 && self.in_flight >= FEWEST_FOR_A_LOT;
        (pays && matches!(self.pace, Pace::Closed { .. })).then_some(WaitBatch {
            most: self.in_flight,
            within,
        })
    }

    /// An answer took so long.
    fn note_usual(&mut self, took: Nanos) {
        let (took, usual) = (took.0 as i64, self.usual.0 as i64);
        self.usual = Nanos((usual + (took - usual) / ANSWERS_IN_MEAN) as u64);
    }

    /// A seat's request begins on a stream of its own.
    pub(super) fn start_stream(&mut self, seat: u32, now: Nanos) {
        let place = &mut self.seats[seat as usize];
        let index = place.slot;
        let slot = &mut self.slots[index as usize];
        let tag = place.tag();
        let (Some(pending), Some(multiplexed)) =
            (&mut place.pending, slot.connection.multiplexed_mut())
        else {
            return;
        };
        let request = match &place.own {
            Some(own) => own,
            None => &self.spec.requests[pending.request as usize],
        };
        let Some(frames) = &request.frames else {
            let reason = Reason::Text(ONLY_HTTP1.to_owned());
            self.refuse(seat, reason, now);
            return;
        };
        match multiplexed.start(tag, frames, &self.spec.expect) {
            Ok(()) => {
                pending.sent.get_or_insert(now);
                pending.bytes_out += request.bytes_in_frames;
                pending.is_under_way = true;
                slot.waiting -= 1;
                slot.under_way += 1;
                self.list(index);
            }
            Err(error @ StartError::FieldsTooLong { .. }) => {
                self.refuse(seat, Reason::NotStarted(error), now);
            }
            // It goes on waiting.
            Err(_) => {}
        }
    }

    /// A request can't be made on this connection. The seat rests, as the next one would fail again at
    /// once, and so for ever.
    fn refuse(&mut self, seat: u32, reason: Reason, now: Nanos) {
        let index = self.seats[seat as usize].slot;
        self.record_failure(seat, Outcome::Protocol, Some(reason), now);
        self.park(seat);
        self.set_alarm(index, now + FIRST_BACKOFF, Alarm::RestOver);
    }

    /// A slot's HTTP/2 has something to say.
    pub(super) fn list(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !slot.is_listed {
            slot.is_listed = true;
            self.listed.push(index);
        }
    }

    /// Sends what the connections of listed slots have to say.
    #[inline]
    pub(super) fn send_listed(&mut self) {
        while let Some(index) = self.listed.pop() {
            self.slots[index as usize].is_listed = false;
            self.send_frames(index);
        }
    }

    /// Sends what a slot's HTTP/2 has to say, unless a send is under way; then it follows that one.
    pub(super) fn send_frames(&mut self, index: u32) {
        let first = self.seats_of(index).start;
        let slot = &mut self.slots[index as usize];
        if slot.sending || slot.send_failed || !slot.connection.is_multiplexed() {
            return;
        }
        let (seats, requests) = (&self.seats, &self.spec.requests);
        let body_of = |tag: u32| {
            let request = seats[(first + tag) as usize].request(requests);
            let frames = request.and_then(|request| request.frames.as_ref());
            frames.map_or(&[][..], |frames| frames.body())
        };
        let mut out = std::mem::take(&mut slot.spare);
        slot.connection
            .take_frames(&mut out, &mut self.buffers, body_of);
        self.send_owned(index, out);
    }

    /// A send is over: seats that were parked for it may try again.
    pub(super) fn unchoke(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if std::mem::take(&mut slot.is_choked) || slot.waiting > 0 {
            let now = self.sockets.cached_now();
            self.fill(index, now);
        }
    }

    /// Bytes came on an HTTP/2 connection, or their end.
    pub(super) fn on_streams(&mut self, index: u32, progress: Progress, now: Nanos) {
        if self.slots[index as usize].state == State::Draining {
            // It has failed already, and only its goodbye is still on the way.
            self.buffers.ended.clear();
            return;
        }
        self.heard(index, now);
        self.note_negotiated(index);
        self.end_streams(index, now);
        match progress {
            Progress::Streams => self.went_on(index, now),
            Progress::Idle => self.close_idle(index, Close::Orderly, now),
            Progress::Lost if self.slots[index as usize].send_failed => {
                self.lose_streams(index, Outcome::Reset, Outcome::Reset, None, now);
            }
            Progress::Lost => {
                let within = Reason::Text("the connection closed within the answer".to_owned());
                let (early, late) = (Outcome::ClosedEarly, Outcome::Truncated);
                self.lose_streams(index, early, late, Some(&within), now);
            }
            Progress::Broken(outcome, reason) => self.break_streams(index, outcome, &reason, now),
            // Not with HTTP/2.
            Progress::Waiting
            | Progress::Secured
            | Progress::Tunneled
            | Progress::Answered { .. }
            | Progress::Unasked => {}
        }
    }

    /// What was agreed on is known as soon as the peer speaks HTTP/2, even if no request succeeds.
    #[inline]
    pub(super) fn note_negotiated(&mut self, index: u32) {
        if self.negotiated.is_some() {
            return;
        }
        let connection = &self.slots[index as usize].connection;
        if connection
            .multiplexed()
            .is_some_and(|it| it.is_established())
        {
            self.negotiated = Some(connection.negotiated());
        }
    }

    fn heard(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        slot.heard = now;
        if std::mem::take(&mut slot.is_suspect) {
            self.unpark(index, now);
        }
    }

    /// Works off the streams that ended.
    fn end_streams(&mut self, index: u32, now: Nanos) {
        let first = self.seats_of(index).start;
        let mut ended = std::mem::take(&mut self.buffers.ended);
        for (tag, ending) in ended.drain(..) {
            self.stream_ended(first + tag, ending, now);
        }
        self.buffers.ended = ended;
    }

    fn stream_ended(&mut self, seat: u32, ending: Ending, now: Nanos) {
        let place = &self.seats[seat as usize];
        let index = place.slot;
        let retried = place.pending.as_ref().is_some_and(|it| it.retried);
        match ending {
            Ending::Answered(outcome) => {
                let slot = &mut self.slots[index as usize];
                slot.served = slot.served.saturating_add(1);
                let sent = place.pending.as_ref().and_then(|it| it.sent);
                self.note_usual(now.since(sent.unwrap_or(now)));
                if !self.answer_came(seat, outcome, now) {
                    return;
                }
            }
            // The peer did nothing with it: that is safe to repeat, whatever its method.
            Ending::Reset {
                unprocessed: true, ..
            } if !retried => {
                self.wait_again(seat, now);
                return;
            }
            Ending::Reset { code, unprocessed } => {
                let again = unprocessed;
                let reason = Reason::Reset { code, again };
                self.record_failure(seat, Outcome::Reset, Some(reason), now);
            }
            Ending::Broken(violation) => {
                let reason = Reason::Stream(violation);
                self.record_failure(seat, Outcome::Protocol, Some(reason), now);
            }
        }
        self.set_free(seat, now);
    }

    /// The connection goes on, or comes to its end because one side wants no more of it.
    fn went_on(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        let Some(multiplexed) = slot.connection.multiplexed_mut() else {
            return;
        };
        let may_have_room = multiplexed.take_new_settings() || slot.waiting > 0;
        if self.close_if_spent(index, now) {
            return;
        }
        self.list(index);
        if may_have_room {
            self.fill(index, now);
        }
        self.leave_if_going_away(index, now);
    }

    /// The connection was lost. Requests that nothing of their answers came for may be sent once
    /// more; the others end as `late` if something came, or as `early`.
    pub(super) fn lose_streams(
        &mut self,
        index: u32,
        early: Outcome,
        late: Outcome,
        reason: Option<&Reason>,
        now: Nanos,
    ) {
        let multiplexed = self.slots[index as usize].connection.multiplexed();
        let farewell = multiplexed.and_then(|it| it.farewell());
        let farewell = farewell.map(Reason::GoneAway);
        for seat in self.seats_of(index) {
            if !self.is_carried(seat, index) {
                continue;
            }
            let tag = self.seats[seat as usize].tag();
            let connection = &self.slots[index as usize].connection;
            let is_answered = connection.received(tag).first_byte.is_some();
            if !is_answered && self.may_repeat(seat) {
                self.wait_again(seat, now);
                continue;
            }
            let (outcome, reason) = match is_answered {
                true => (late, reason),
                false => (early, reason.filter(|_| early == late)),
            };
            let reason = farewell.as_ref().or(reason).cloned();
            self.record_failure(seat, outcome, reason, now);
            self.set_free(seat, now);
        }
        self.close(index, Close::Orderly);
        self.vacated(index, now);
    }

    /// The peer broke HTTP/2 or TLS: everything on the connection fails.
    fn break_streams(&mut self, index: u32, outcome: Outcome, reason: &Reason, now: Nanos) {
        if self.slots[index as usize].state != State::Open || outcome == Outcome::Tls {
            self.fail(index, outcome, Some(reason.clone()), now);
            return;
        }
        self.not_opened(outcome, Some(reason));
        // Nobody's request fails where none is under way, but it is told.
        self.unasked += u64::from(self.slots[index as usize].under_way == 0);
        for seat in self.seats_of(index) {
            if self.is_carried(seat, index) {
                self.record_failure(seat, outcome, Some(reason.clone()), now);
                self.park(seat);
            }
        }
        // The peer is told why, and given a moment to take that in (RFC 9113 §5.4.1).
        self.drain(index, now);
        self.send_frames(index);
    }

    /// A stream had no whole answer in time: it is cancelled, and the others go on. If nothing at
    /// all came since it began, the connection may be dead.
    pub(super) fn stream_timed_out(&mut self, seat: u32, now: Nanos) {
        let place = &self.seats[seat as usize];
        let index = place.slot;
        let sent = place.pending.as_ref().and_then(|it| it.sent);
        let slot = &mut self.slots[index as usize];
        if let Some(multiplexed) = slot.connection.multiplexed_mut() {
            multiplexed.cancel(place.tag());
        }
        slot.is_suspect |= sent.is_some_and(|sent| slot.heard <= sent);
        self.record_failure(seat, Outcome::Timeout, None, now);
        self.set_free(seat, now);
        if !self.close_if_spent(index, now) {
            self.list(index);
            if self.slots[index as usize].waiting > 0 {
                self.fill(index, now);
            }
        }
    }

    /// Closes an HTTP/2 connection that carries nothing and takes no more. Aborted, as otherwise its
    /// port stays in TIME_WAIT.
    pub(super) fn close_if_spent(&mut self, index: u32, now: Nanos) -> bool {
        let slot = &self.slots[index as usize];
        let Some(multiplexed) = slot.connection.multiplexed() else {
            return false;
        };
        let takes_more = self.spec.keepalive
            && !slot.is_suspect
            && !slot.send_failed
            && !multiplexed.is_going_away();
        let is_spent = slot.under_way == 0 && !takes_more;
        if is_spent {
            self.closed_before();
            self.close(index, Close::Abort);
            self.vacated(index, now);
        }
        is_spent
    }
}
