//! Requests begin: a slot for each, a connection where it has none, and the bytes on their way.

use prony_record::Nanos;

use super::{Pace, Worker};
use crate::seat::Pending;
use crate::slot::{Early, State};
use crate::socket::{Close, Outgoing, Route, Sending, Sockets};

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Starts requests that are due and find a free slot, `most` of them at a time: a connect can
    /// take the system a millisecond where local ports grow scarce, and thousands of them may be
    /// due at once. Tells how many it started.
    #[inline]
    pub(super) fn start_due(&mut self, mut now: Nanos, most: u32) -> u32 {
        for started in 0..most {
            if !self.is_any_free() || self.is_opening_full(now) {
                return started;
            }
            if started > 0 {
                now = self.sockets.now();
                if now >= self.end {
                    return started;
                }
            }
            let due = match &self.pace {
                Pace::Closed { left: 0 } => return started,
                Pace::Closed { .. } => None,
                Pace::Open(schedule) => match schedule.peek() {
                    Some(due) if due <= now => Some(due),
                    _ => return started,
                },
            };
            let Some((seat, request)) = self.take_next(now) else {
                return started;
            };
            let intended = due.unwrap_or(self.free_since(seat, now).min(now));
            match &mut self.pace {
                Pace::Open(schedule) => schedule.advance(),
                // The requests of the warm-up are not among those asked for.
                Pace::Closed { left }
                    if self.spec.limit.is_some() && intended >= self.spec.warmup =>
                {
                    *left -= 1;
                }
                Pace::Closed { .. } => {}
            }
            self.start(seat, request, intended, now);
        }
        most
    }

    /// The next request of the load's list, and the seat that takes it; or what a script says.
    #[inline]
    fn take_next(&mut self, now: Nanos) -> Option<(u32, u32)> {
        if self.script.is_some() {
            return self.ask_users(now);
        }
        let request = self.sequence.peek();
        let seat = self.take_seat(request)?;
        self.sequence.advance();
        Some((seat, request))
    }

    /// Since when a seat has been free, and not only for requests to other targets. One whose slot
    /// was never used is taken up as it comes: that the worker can't begin thousands of connections at
    /// once is not the server's doing.
    fn free_since(&self, seat: u32, now: Nanos) -> Nanos {
        let seat = &self.seats[seat as usize];
        match self.slots[seat.slot as usize].is_fresh() {
            true => now,
            false => seat.free_since.max(self.unstuck),
        }
    }

    fn is_opening_full(&self, now: Nanos) -> bool {
        let opening = self.opening.as_ref();
        opening.is_some_and(|opening| opening.is_full(now))
    }

    /// Whether a request could start at once.
    pub(super) fn is_any_due(&self, now: Nanos) -> bool {
        self.is_any_free()
            && !self.is_opening_full(now)
            && match &self.pace {
                Pace::Closed { left } => *left > 0,
                Pace::Open(schedule) => schedule.peek().is_some_and(|due| due <= now),
            }
    }

    fn start(&mut self, seat: u32, request: u32, intended: Nanos, now: Nanos) {
        let place = &mut self.seats[seat as usize];
        let index = place.slot;
        place.pending = Some(Pending {
            request,
            intended,
            begun: now,
            sent: None,
            first_byte: None,
            retried: false,
            is_under_way: false,
            is_diverted: false,
            bytes_out: 0,
        });
        self.in_flight += 1;
        self.first_start.get_or_insert(now);
        self.recorder.started();
        if let Pace::Open(_) = self.pace {
            let free_since = place.free_since.max(self.unstuck);
            self.recorder.started_by_schedule(intended, free_since, now);
        }
        if let Some(timeout) = self.spec.timeout {
            self.request_deadlines.set(seat, now + timeout);
        }
        if let Some(scripted) = &mut self.script {
            scripted.begins(seat);
        }
        let place = &self.seats[seat as usize];
        let target = place.request(&self.spec.requests).map_or(0, |it| it.target);
        let slot = &mut self.slots[index as usize];
        slot.waiting += 1;
        slot.early = Early::No;
        if slot.state == State::Open && slot.target == target {
            self.send_request(seat, now);
        } else if slot.waiting + slot.under_way > 1 {
            self.divert(seat);
        } else {
            // A connection to another target: aborted, as otherwise its port stays in TIME_WAIT.
            self.close(index, Close::Abort);
            self.slots[index as usize].target = target;
            if self.slots[index as usize].is_fresh() {
                self.open_early(index);
            }
            self.connect(index, now);
        }
    }

    /// Begins a connection for the requests that wait for it; its timeout runs from here.
    pub(super) fn connect(&mut self, index: u32, now: Nanos) {
        if let Some(seat) = self.first_waiting(index) {
            self.slots[index as usize].seat = seat;
        }
        let slot = &mut self.slots[index as usize];
        slot.connect_began = now;
        slot.number = self.next_connection;
        self.next_connection = self.next_connection.wrapping_add(1);
        self.connect_deadlines
            .set(index, now + self.spec.connect_timeout);
        self.connect_again(index);
    }

    pub(super) fn connect_again(&mut self, index: u32) {
        let turn = self.turn(index);
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Connecting;
        slot.served = 0;
        slot.sending = false;
        slot.send_failed = false;
        slot.is_choked = false;
        slot.is_suspect = false;
        slot.heard = Nanos::ZERO;
        slot.spare.clear();
        let target = &self.targets[slot.target as usize];
        let is_told = self.spec.sources.proxy().is_some();
        let has_own = self.script.is_some() || self.following.is_some();
        let route = Route {
            peer: &target.peer,
            source: self.spec.sources.source(&target.peer, turn),
            buffers: self.spec.buffers,
            nodelay: target.nodelay || is_told || has_own,
            keepalive: self.spec.keepalive,
        };
        self.sockets.connect(slot.key(index), route);
    }

    /// Sends a seat's request on its connection, which has room for it.
    pub(super) fn send_request(&mut self, seat: u32, now: Nanos) {
        let index = self.seats[seat as usize].slot;
        let slot = &mut self.slots[index as usize];
        if slot.connection.is_multiplexed() {
            self.start_stream(seat, now);
            return;
        }
        self.begin_request(seat, now);
        let slot = &mut self.slots[index as usize];
        if slot.connection.is_tls() {
            self.send_ciphertext(index);
            return;
        }
        let place = &self.seats[seat as usize];
        let listed = match (&place.own, &place.pending) {
            (Some(own), _) => {
                let mut out = std::mem::take(&mut slot.spare);
                out.extend_from_slice(&own.bytes);
                self.send_owned(index, out);
                return;
            }
            (None, Some(pending)) => &self.spec.requests[pending.request as usize].bytes,
            (None, None) => return,
        };
        if !slot.spare.is_empty() {
            self.send_told(index, listed);
        } else {
            let key = slot.key(index);
            let sending = self.sockets.send(key, Outgoing::Shared(listed));
            slot.sending = sending == Sending::InFlight;
        }
    }

    /// Notes that the seat's request goes out now, by HTTP/1.
    pub(super) fn begin_request(&mut self, seat: u32, now: Nanos) {
        let place = &mut self.seats[seat as usize];
        let Some(pending) = place.pending.as_mut() else {
            return;
        };
        let request = match &place.own {
            Some(own) => own,
            None => &self.spec.requests[pending.request as usize],
        };
        pending.sent.get_or_insert(now);
        pending.bytes_out += request.bytes.len() as u64;
        pending.is_under_way = true;
        let slot = &mut self.slots[place.slot as usize];
        slot.waiting -= 1;
        slot.under_way += 1;
        slot.seat = seat;
        slot.connection.begin(request, &self.spec.expect);
    }

    /// Sends what TLS has to say, and then the next piece of the request.
    pub(super) fn send_ciphertext(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.sending || slot.send_failed || !slot.connection.is_tls() {
            return;
        }
        let request = self.seats[slot.seat as usize].request(&self.spec.requests);
        let request = request.map_or(&[][..], |request| &request.bytes);
        let mut out = std::mem::take(&mut slot.spare);
        slot.connection.take_out(request, &mut out);
        self.send_owned(index, out);
    }

    /// Sends these bytes, if there are any, and keeps the buffer otherwise.
    pub(super) fn send_owned(&mut self, index: u32, out: Vec<u8>) {
        let slot = &mut self.slots[index as usize];
        if out.is_empty() {
            slot.spare = out;
        } else {
            slot.sending = true;
            let key = slot.key(index);
            self.sockets.send(key, Outgoing::Owned(out));
        }
    }
}
