//! Requests to another target than their connection's, while others are on that, or to one whose name
//! is being looked up.
//!
//! A seat stays with its slot, and a slot has one connection at a time. So a request that goes
//! elsewhere waits until the others on the connection have ended, and nothing else begins there
//! meanwhile.

use prony_record::{Nanos, Outcome};

use super::Worker;
use crate::slot::{Early, State};
use crate::socket::{Close, Sockets};

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// A seat's request, which waits, goes to another target, and can't yet.
    pub(super) fn divert(&mut self, seat: u32) {
        let place = &mut self.seats[seat as usize];
        if let Some(pending) = &mut place.pending {
            pending.is_diverted = true;
            let slot = &mut self.slots[place.slot as usize];
            slot.waiting -= 1;
            slot.diverted += 1;
            self.diverted.push(seat);
        }
    }

    /// Sends those on their way that can go.
    pub(super) fn mind_diverted(&mut self, now: Nanos) {
        if let Some(following) = &mut self.following {
            following.looks_up = false;
        }
        let mut at = 0;
        while let Some(&seat) = self.diverted.get(at) {
            match self.go_elsewhere(seat, now) {
                true => drop(self.diverted.swap_remove(at)),
                false => at += 1,
            }
        }
    }

    /// Tells whether the seat's request is no longer diverted.
    fn go_elsewhere(&mut self, seat: u32, now: Nanos) -> bool {
        match self.poll_lookup(seat, now) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(following) = &mut self.following {
                    following.looks_up = true;
                }
                return false;
            }
            Err(reason) => {
                let index = self.seats[seat as usize].slot;
                self.record_failure(seat, Outcome::Redirect, Some(reason), now);
                self.set_free(seat, now);
                if self.slots[index as usize].diverted == 0 {
                    self.unpark(index, now);
                }
                return true;
            }
        }
        let place = &self.seats[seat as usize];
        let index = place.slot;
        let is_diverted = place.pending.as_ref().is_some_and(|it| it.is_diverted);
        let Some(request) = place.request(&self.spec.requests).filter(|_| is_diverted) else {
            // It has run out of time.
            if self.slots[index as usize].diverted == 0 {
                self.unpark(index, now);
            }
            return true;
        };
        let target = request.target;
        let slot = &mut self.slots[index as usize];
        let is_idle = slot.waiting + slot.under_way == 0 && slot.early == Early::No;
        let can_connect = is_idle && matches!(slot.state, State::Vacant | State::Open);
        let joins = slot.state == State::Connecting && slot.target == target;
        if !can_connect && !joins {
            return false;
        }
        slot.diverted -= 1;
        slot.waiting += 1;
        if let Some(pending) = &mut self.seats[seat as usize].pending {
            pending.is_diverted = false;
        }
        if can_connect {
            self.close(index, Close::Abort);
            self.slots[index as usize].target = target;
            self.connect(index, now);
        }
        true
    }
}
