//! What sockets report, and what follows from it.

use std::io;

use prony_protocol::h2::ErrorCode;
use prony_record::{Handshake, Nanos, Outcome};

use super::{Alarm, Worker};
use crate::connection::{Progress, Reason};
use crate::slot::{Early, State};
use crate::socket::{Close, Completion, Key, Operation, Sockets, system};

/// The rest after a connect that failed; it doubles with each further one.
pub(super) const FIRST_BACKOFF: Nanos = Nanos::from_millis(10);
/// The longest rest.
const LAST_BACKOFF: Nanos = Nanos::from_millis(500);
/// How long the peer is given to close first.
const DRAIN: Nanos = Nanos::from_millis(10);
/// The pause between tries to connect to a UNIX socket whose backlog is full, at first and at most:
/// a quarter of the time waited so far lies between. A thousand slots that each tried again every
/// millisecond would take a whole core, and perhaps the server's.
const CONNECT_AGAIN: (Nanos, Nanos) = (Nanos::from_millis(1), Nanos::from_millis(20));

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    fn is_current(&self, key: Key) -> bool {
        self.slots
            .get(key.index as usize)
            .is_some_and(|slot| slot.generation == key.generation)
    }

    /// A send is over; an owned buffer comes back.
    #[inline]
    pub(super) fn sent(&mut self, key: Key, buffer: Option<Vec<u8>>) {
        if !self.is_current(key) {
            return;
        }
        let slot = &mut self.slots[key.index as usize];
        slot.sending = false;
        let Some(buffer) = buffer else {
            return;
        };
        slot.spare = buffer;
        slot.spare.clear();
        if slot.connection.is_multiplexed() {
            self.send_frames(key.index);
            self.unchoke(key.index);
        } else if slot.connection.is_tls() {
            self.send_ciphertext(key.index);
        } else {
            self.send_rest(key.index);
        }
    }

    /// Inlined into each of its two callers, as it was when it had one: a call costs 1% of a request.
    #[inline(always)]
    pub(super) fn on_completion(&mut self, completion: Completion, now: Nanos) {
        let key = completion.key();
        if !self.is_current(key) {
            return;
        }
        let index = key.index;
        let slot = &mut self.slots[index as usize];
        match completion {
            Completion::Connected(_) => self.connected(index, now),
            Completion::Sent(_, buffer) => self.sent(key, buffer),
            Completion::Received(_) => {
                let bytes = self.sockets.received();
                let progress =
                    slot.connection
                        .receive(bytes, now, &self.spec.expect, &mut self.buffers);
                self.on_progress(index, progress, now);
            }
            Completion::Closed(_) if slot.state == State::Draining => {
                self.drained(index, Close::Orderly, now);
            }
            Completion::Closed(_) if slot.send_failed => {
                // The failed send has taken the error of a reset, whose end looks orderly now.
                let reset = io::Error::from_raw_os_error(libc::ECONNRESET);
                self.receive_failed(index, &reset, now);
            }
            Completion::Closed(_) => {
                let progress = slot.connection.closed(&self.spec.expect);
                self.on_progress(index, progress, now);
                if self.slots[index as usize].state == State::Draining {
                    self.drained(index, Close::Orderly, now);
                }
            }
            Completion::Failed(_, Operation::Connect, error) => {
                self.connect_failed(index, &error, now);
            }
            Completion::Failed(_, Operation::Send, _) => {
                // What the peer said before it stopped listening is still to be received.
                slot.sending = false;
                slot.send_failed = true;
                self.close_if_spent(index, now);
            }
            Completion::Failed(_, Operation::Receive, error) => {
                self.receive_failed(index, &error, now);
            }
        }
    }

    fn connected(&mut self, index: u32, now: Nanos) {
        self.rule_out_refusal();
        self.tell(index);
        if self.ask_for_tunnel(index) {
            return;
        }
        self.connect_deadlines.clear(index);
        let slot = &mut self.slots[index as usize];
        let target = &self.targets[slot.target as usize];
        slot.backoff = Nanos::ZERO;
        if target.tls.is_none() {
            slot.connection.open(self.spec.protocols);
            slot.state = State::Open;
            let connect = now.since(slot.connect_began);
            if self.recorder.connection_opened(now, connect, None) {
                self.count_connection(index);
                self.count_connect(index, connect);
            }
            let slot = &mut self.slots[index as usize];
            if let Some(scripted) = &mut self.script {
                scripted.opened(slot.seat, Some(connect), None);
            }
            self.opened(index, now);
            return;
        }
        self.secure(index, now);
    }

    /// The TLS of a connection begins.
    pub(super) fn secure(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        let target = &self.targets[slot.target as usize];
        let (Some(name), Some(client)) = (&target.tls, &self.tls) else {
            // There is one as soon as there is a target with TLS.
            self.fail(index, Outcome::Tls, None, now);
            return;
        };
        slot.tls_began = now;
        slot.state = State::Securing;
        if let Some(scripted) = &mut self.script {
            scripted.opened(slot.seat, Some(now.since(slot.connect_began)), None);
        }
        match slot.connection.open_tls(client, name, self.spec.protocols) {
            Ok(()) => self.send_ciphertext(index),
            Err(reason) => self.fail(index, Outcome::Tls, Some(reason), now),
        }
    }

    fn secured(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        slot.state = State::Open;
        let connect = slot.tls_began.since(slot.connect_began);
        let tls = Handshake {
            took: now.since(slot.tls_began),
            resumed: slot.connection.is_resumed(),
        };
        if let Some(scripted) = &mut self.script {
            scripted.opened(slot.seat, None, Some(tls));
        }
        if self.recorder.connection_opened(now, connect, Some(tls)) {
            self.count_connection(index);
            self.count_connect(index, connect);
        }
        self.opened(index, now);
    }

    /// A connection can be used.
    fn opened(&mut self, index: u32, now: Nanos) {
        self.note_negotiated(index);
        if let Some(multiplexed) = self.slots[index as usize].connection.multiplexed() {
            if multiplexed.is_going_away() {
                // It was said with the end of the handshake: another one would hear it, too.
                let code = multiplexed.farewell().unwrap_or(ErrorCode::NO_ERROR);
                self.connect_given_up(index, Outcome::Reset, Some(Reason::GoneAway(code)), now);
                return;
            }
            self.list(index);
        }
        if self.slots[index as usize].early == Early::No || !self.hold(index, now) {
            self.send_waiting(index, now);
            self.unpark(index, now);
        }
        // TLS may have the end of its handshake to say.
        self.send_ciphertext(index);
    }

    fn on_progress(&mut self, index: u32, progress: Progress, now: Nanos) {
        if progress == Progress::Secured {
            self.secured(index, now);
            return;
        }
        let slot = &self.slots[index as usize];
        if slot.connection.is_multiplexed() {
            self.on_streams(index, progress, now);
            return;
        }
        if slot.state == State::Tunneling {
            self.on_tunnel(index, progress, now);
            return;
        }
        let answered = matches!(progress, Progress::Answered { .. });
        if let Some(pending) = &mut self.seats[slot.seat as usize].pending
            && pending.first_byte.is_none()
            && (answered || slot.connection.answering())
        {
            pending.first_byte = Some(now);
        }
        match progress {
            Progress::Waiting => self.send_ciphertext(index),
            Progress::Answered { outcome, reusable } => {
                self.answered(index, outcome, reusable, now);
            }
            Progress::Lost => self.lost(index, now),
            Progress::Broken(outcome, reason) => self.fail(index, outcome, Some(reason), now),
            Progress::Unasked => {
                self.unasked += 1;
                self.close_idle(index, Close::Abort, now);
            }
            Progress::Idle => self.close_idle(index, Close::Orderly, now),
            // Not here: those of HTTP/2, and what comes before a request.
            Progress::Streams | Progress::Secured | Progress::Tunneled => {}
        }
    }

    /// Ends a connection between requests; one that drains is on its way to a close already.
    pub(super) fn close_idle(&mut self, index: u32, how: Close, now: Nanos) {
        if self.slots[index as usize].state == State::Open {
            self.closed_before();
            self.close(index, how);
            self.vacated(index, now);
        }
    }

    fn answered(&mut self, index: u32, outcome: Outcome, reusable: bool, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        if self.negotiated.is_none() {
            self.negotiated = Some(slot.connection.negotiated());
        }
        slot.served = slot.served.saturating_add(1);
        let sent_all = !slot.sending && !slot.send_failed;
        let seat = slot.seat;
        let is_over = self.answer_came(seat, outcome, now);
        if reusable && sent_all && self.spec.keepalive {
            if is_over {
                self.set_free(seat, now);
            }
            if self.slots[index as usize].waiting > 0 {
                self.send_waiting(index, now);
            }
        } else if !reusable && sent_all {
            if is_over {
                self.park(seat);
            }
            self.drain(index, now);
        } else {
            // Either the answer came before the request was out, which leaves a request behind that
            // nobody reads; or the server means to keep a connection that the load doesn't.
            self.close(index, Close::Abort);
            if is_over {
                self.set_free(seat, now);
            }
            self.vacated(index, now);
        }
    }

    /// Gives the peer a moment to close a connection that has served its last request.
    pub(super) fn drain(&mut self, index: u32, now: Nanos) {
        self.slots[index as usize].state = State::Draining;
        self.drain_deadlines.set(index, now + DRAIN);
    }

    /// The connection closed, or failed, before any byte of the answer.
    fn lost(&mut self, index: u32, now: Nanos) {
        let outcome = match self.slots[index as usize].send_failed {
            true => Outcome::Reset,
            false => Outcome::ClosedEarly,
        };
        if !self.retry(index, now) {
            self.fail(index, outcome, None, now);
        }
    }

    /// Sends a request once more if a *reused* connection lost it and it is safe to repeat.
    fn retry(&mut self, index: u32, now: Nanos) -> bool {
        let seat = self.slots[index as usize].seat;
        if !self.may_repeat(seat) {
            return false;
        }
        self.wait_again(seat, now);
        self.close(index, Close::Orderly);
        self.connect(index, now);
        true
    }

    /// Whether a request that is under way may be sent once more, on the ground that a connection
    /// that had served others lost it.
    pub(super) fn may_repeat(&self, seat: u32) -> bool {
        let place = &self.seats[seat as usize];
        let Some(pending) = place.pending.as_ref().filter(|it| it.is_under_way) else {
            return false;
        };
        let reused = self.slots[place.slot as usize].served > 0;
        let request = place.request(&self.spec.requests);
        reused && !pending.retried && request.is_some_and(|it| it.idempotent)
    }

    /// A request that was under way waits for a connection once more.
    pub(super) fn wait_again(&mut self, seat: u32, now: Nanos) {
        self.take_back_unsent(seat);
        let place = &mut self.seats[seat as usize];
        if let Some(pending) = &mut place.pending {
            pending.retried = true;
            pending.is_under_way = false;
            let slot = &mut self.slots[place.slot as usize];
            slot.under_way -= 1;
            slot.waiting += 1;
            self.recorder.retried(now);
        }
    }

    fn receive_failed(&mut self, index: u32, error: &io::Error, now: Nanos) {
        let outcome = match error.raw_os_error() {
            Some(libc::ETIMEDOUT) => Outcome::Timeout,
            _ => Outcome::Reset,
        };
        let reason = Reason::Text(error.to_string());
        let slot = &self.slots[index as usize];
        let answering = slot.connection.answering();
        if slot.state == State::Draining {
            self.drained(index, Close::Orderly, now);
        } else if slot.state == State::Tunneling {
            self.connect_given_up(index, Outcome::ConnectFailed, Some(reason), now);
        } else if slot.waiting + slot.under_way == 0 {
            self.not_opened(outcome, Some(&reason));
            self.close(index, Close::Orderly);
            self.vacated(index, now);
        } else if slot.connection.is_multiplexed() {
            self.lose_streams(index, outcome, outcome, Some(&reason), now);
        } else if answering || !self.retry(index, now) {
            self.fail(index, outcome, Some(reason), now);
        }
    }

    fn connect_failed(&mut self, index: u32, error: &io::Error, now: Nanos) {
        self.note_connect_error(error, now);
        if system::connect_would_block(error) {
            let waited = now.since(self.slots[index as usize].connect_began);
            let rest = Nanos(waited.0 / 4).clamp(CONNECT_AGAIN.0, CONNECT_AGAIN.1);
            self.set_alarm(index, now + rest, Alarm::ConnectAgain);
            return;
        }
        let outcome = system::connect_outcome(error);
        self.connect_given_up(index, outcome, Some(Reason::Text(error.to_string())), now);
    }

    /// No connection came about: the requests that waited for it have failed, and the slot rests
    /// before its next.
    pub(super) fn connect_given_up(
        &mut self,
        index: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        self.not_opened(outcome, reason.as_ref());
        for seat in self.seats_of(index) {
            if self.is_waiting(seat, index) {
                self.record_failure(seat, outcome, reason.clone(), now);
                self.park(seat);
            }
        }
        self.close(index, Close::Abort);
        let slot = &mut self.slots[index as usize];
        let rest = Nanos(slot.backoff.0 * 2).clamp(FIRST_BACKOFF, LAST_BACKOFF);
        slot.backoff = rest;
        slot.state = State::BackingOff;
        self.set_alarm(index, now + rest, Alarm::BackoffOver);
    }

    /// The requests on a connection, or where it is not made yet those that wait for it, have come to
    /// a bad end with it.
    pub(super) fn fail(
        &mut self,
        index: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        let state = self.slots[index as usize].state;
        if state == State::Draining {
            self.drained(index, Close::Abort, now);
            return;
        }
        self.not_opened(outcome, reason.as_ref());
        for seat in self.seats_of(index) {
            let waits = state != State::Open && self.is_waiting(seat, index);
            if waits || self.is_carried(seat, index) {
                self.record_failure(seat, outcome, reason.clone(), now);
                self.set_free(seat, now);
            }
        }
        self.close(index, Close::Abort);
        self.vacated(index, now);
    }
}
