//! A closed loop with many connections makes them all before it asks anything on one of them.
//!
//! A server takes connections in beside serving those that it has. nginx takes in one each time that
//! it has gone round all connections with a request: under the load of the first thousands the last
//! hundreds of ten thousand wait in its backlog for seconds. That says nothing of how it serves, and
//! the more of it is seen the quicker the generator is. So a request on one of the first connections
//! is held until all have been made or have failed, or [`LONGEST_HOLD`] has gone by. Its clock stands
//! still meanwhile: its response time is that of its connect and of its answer.

use prony_record::Nanos;

use super::{Pace, Worker};
use crate::slot::{Early, State};
use crate::socket::Sockets;
use crate::spec::LoadSpec;

/// With fewer connections a worker begins at once.
const FROM: u32 = 256;
/// So many connections the whole load begins at a time, and one such lot each millisecond. A kernel
/// accepts for its server, so a connect that is made says nothing of how many wait there: nginx's
/// backlog of 511 is full within 10 ms if the server doesn't run meanwhile, this way within 30 ms.
const LOT: u32 = 16;
/// Connects under way at a time, so that a server is not overrun...
const MOST_UNDER_WAY: u32 = 256;
/// ...and how often so many may begin all the same, should the server leave them without an answer.
const AGAIN_AFTER: Nanos = Nanos::from_millis(100);
/// After so long those that have their connection don't wait for the others: a SYN that a full backlog
/// has dropped comes again after a second (RFC 6298 §2).
const LONGEST_HOLD: Nanos = Nanos::from_millis(1_500);

/// The moment that a server is given to take in what its kernel has accepted for it.
const TAKING_IN: Nanos = Nanos::from_millis(20);

/// The time until all connections are made.
pub(super) struct Opening {
    /// Connections to begin.
    left: u32,
    /// From one lot to the next.
    pause: Nanos,
    begun: u32,
    /// Those begun, and neither made nor failed.
    under_way: u32,
    /// When a connection was last made, or failed.
    settled: Nanos,
    /// Requests go out as soon as they have a connection.
    is_released: bool,
}

impl Opening {
    /// The opening of so many slots, where there is one.
    pub(super) fn new(pace: &Pace, slots: u32, spec: &LoadSpec) -> Option<Opening> {
        let Pace::Closed { left } = pace else {
            return None;
        };
        let left = u32::try_from(*left).unwrap_or(u32::MAX).min(slots);
        // Where requests are counted after a warm-up, none may move from before its end to after it.
        let counted_late = spec.limit.is_some() && spec.warmup > Nanos::ZERO;
        (spec.keepalive && left > FROM && !counted_late).then_some(Opening {
            left,
            pause: Nanos::from_millis(u64::from(spec.part.of)),
            begun: 0,
            under_way: 0,
            settled: Nanos::ZERO,
            is_released: false,
        })
    }

    /// The opening of so many connections before the load begins: there are no requests to be held.
    pub(super) fn before(connections: u32, spec: &LoadSpec) -> Opening {
        Opening {
            left: connections,
            pause: Nanos::from_millis(u64::from(spec.part.of)),
            begun: 0,
            under_way: 0,
            settled: Nanos::ZERO,
            is_released: true,
        }
    }

    /// Another connection has to wait.
    pub(super) fn is_full(&self, now: Nanos) -> bool {
        let all_the_same = now.0 / AGAIN_AFTER.0 * u64::from(MOST_UNDER_WAY);
        let is_crowded = self.under_way >= MOST_UNDER_WAY && u64::from(self.begun) >= all_the_same;
        self.left > 0 && (is_crowded || now < self.next_lot())
    }

    /// When the next connection may begin, if there aren't too many under way.
    fn next_lot(&self) -> Nanos {
        Nanos(self.pause.0 * u64::from(self.begun / LOT))
    }

    /// When it has to be minded next.
    pub(super) fn wake_at(&self, now: Nanos) -> Nanos {
        self.next_begin(now).min(self.held_until())
    }

    /// When more connections may begin, where that is a matter of time.
    pub(super) fn next_begin(&self, now: Nanos) -> Nanos {
        match self.next_lot() {
            next if self.left > 0 && next > now => next,
            _ => Nanos::MAX,
        }
    }

    /// Until when requests are held, as far as it is known.
    fn held_until(&self) -> Nanos {
        match (self.left, self.under_way) {
            (0, 0) => self.settled + TAKING_IN,
            _ if self.is_released => Nanos::MAX,
            _ => LONGEST_HOLD,
        }
    }
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// A slot's first connection begins.
    pub(super) fn open_early(&mut self, index: u32) {
        if let Some(opening) = &mut self.opening
            && opening.left > 0
        {
            opening.left -= 1;
            opening.begun += 1;
            opening.under_way += 1;
            self.slots[index as usize].early = Early::Connecting;
        }
    }

    /// A slot's first connection is made. Gives whether its request is held.
    pub(super) fn hold(&mut self, index: u32, now: Nanos) -> bool {
        self.settle(index);
        if self.opening.as_ref().is_none_or(|o| o.is_released) {
            return false;
        }
        let slot = &mut self.slots[index as usize];
        slot.early = Early::Held;
        self.seats[slot.seat as usize].free_since = now;
        self.request_deadlines.clear(slot.seat);
        true
    }

    /// A slot's first connection is no longer under way, however that came.
    pub(super) fn settle(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.early == Early::Connecting {
            slot.early = Early::No;
            let now = self.sockets.cached_now();
            if let Some(opening) = &mut self.opening {
                opening.under_way -= 1;
                opening.settled = now;
            }
        }
    }

    /// Goes on with the opening; sends what was held once it is over or has lasted long enough.
    pub(super) fn mind_opening(&mut self, now: Nanos) {
        let Some(opening) = &mut self.opening else {
            return;
        };
        if now < opening.held_until() {
            return;
        }
        let was_released = std::mem::replace(&mut opening.is_released, true);
        if opening.left == 0 && opening.under_way == 0 {
            self.opening = None;
        }
        if !was_released {
            self.release(now);
        }
    }

    fn release(&mut self, now: Nanos) {
        for index in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[index as usize];
            if slot.early != Early::Held {
                continue;
            }
            slot.early = Early::No;
            let seat = slot.seat;
            let place = &mut self.seats[seat as usize];
            if let Some(pending) = &mut place.pending {
                pending.intended = pending.intended + now.since(place.free_since);
                if let Some(timeout) = self.spec.timeout {
                    self.request_deadlines.set(seat, now + timeout);
                }
            }
            match self.slots[index as usize].state {
                // The server did not wait for it.
                State::Vacant => self.vacated(index, now),
                _ => self.fill(index, now),
            }
        }
    }
}
