//! Invariants of a worker's request slots and connections, checked whenever it is about to sleep.

use prony_protocol::h2::StartError;

use super::super::Worker;
use crate::carrier::{Carrier, ConnectionState, SendState, Transport};
use crate::engine::worker::dispatcher::{RequestPhase, SlotState};
use crate::engine::worker::timers::Alarm;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Asserts that all counts are correct, and that no request is waiting that could proceed.
    pub(in crate::engine::worker) fn assert_sound(&self) {
        self.assert_slots_sound();
        for index in 0..self.connections.len() {
            self.assert_counts(index);
            self.assert_progress(index);
        }
        let primary_count = self.dispatcher.primary_count;
        for (primary, successor) in (0..primary_count).zip(primary_count..self.connections.len()) {
            self.assert_one_takes_requests(primary, successor);
        }
    }

    /// Asserts that a slot is in the list of free slots if and only if its state says so.
    fn assert_slots_sound(&self) {
        let slots = &self.dispatcher.slots;
        let mut listed = vec![0; slots.len()];
        for slot in self.dispatcher.free() {
            listed[*slot as usize] += 1;
        }
        for (number, (slot, listed)) in slots.iter().zip(listed).enumerate() {
            let is_free = matches!(slot.state, SlotState::Free);
            assert_eq!(
                listed,
                u32::from(is_free),
                "slot {number}: {:?}",
                slot.state
            );
            assert!(slot.own.is_none() || slot.pending().is_some());
        }
        let pending = slots.iter().filter(|slot| slot.pending().is_some());
        assert_eq!(pending.count() as u32, self.dispatcher.pending_count);
    }

    fn assert_counts(&self, index: u32) {
        let (mut waiting, mut in_flight, mut parked, mut deferred) = (0, 0, 0, 0);
        for slot in self.dispatcher.slots_of(index) {
            let slot = self.dispatcher.slot(slot);
            if slot.connection != index {
                continue;
            }
            match slot.phase() {
                Some(RequestPhase::InFlight) => in_flight += 1,
                Some(RequestPhase::Deferred) => deferred += 1,
                Some(RequestPhase::Waiting) => waiting += 1,
                None => parked += u32::from(matches!(slot.state, SlotState::Parked)),
            }
        }
        let occupancy = self.dispatcher.occupancy(index);
        assert_eq!(
            (
                occupancy.waiting,
                occupancy.in_flight,
                occupancy.parked,
                occupancy.deferred
            ),
            (waiting, in_flight, parked, deferred),
            "connection {index}"
        );
        if let ConnectionState::Ready(session) = &self.connections[index].link.state
            && let Some(active) = session.carrier.active_count()
        {
            assert_eq!(active, in_flight, "connection {index}");
        }
    }

    /// Asserts that no request waits although it could proceed, and that no request waits for an
    /// event that can't happen.
    fn assert_progress(&self, index: u32) {
        let entry = &self.connections[index];
        let occupancy = self.dispatcher.occupancy(index);
        if self.ramp.as_ref().is_some_and(|ramp| ramp.is_held(index)) {
            assert_eq!(
                occupancy.in_flight, 0,
                "a request is in flight on held connection {index}"
            );
            return;
        }
        let is_open = entry.link.state.is_vacant() || entry.link.state.is_ready();
        let is_looking_up = self.dispatcher.slots_of(index).any(|slot| {
            let redirects = self.redirects.as_ref();
            self.dispatcher.slot(slot).connection == index
                && redirects.is_some_and(|redirects| redirects.is_slot_looking_up(slot))
        });
        assert!(
            occupancy.deferred == 0
                || occupancy.waiting + occupancy.in_flight > 0
                || !is_open
                || is_looking_up,
            "deferred requests are stuck on connection {index}"
        );
        if entry.link.state.is_vacant() {
            let idle = (occupancy.waiting, occupancy.parked);
            assert_eq!(
                idle,
                (0, 0),
                "requests are waiting for vacant connection {index}"
            );
        }
        let ConnectionState::Ready(session) = &entry.link.state else {
            return;
        };
        let Some(h2) = session.carrier.http2() else {
            return;
        };
        let can_start = h2.can_start();
        let takes_more =
            !session.maybe_dead && entry.link.send != SendState::Failed && can_start.is_ok();
        if takes_more {
            assert_eq!(
                occupancy.waiting, 0,
                "requests are waiting for connection {index}, which has capacity"
            );
            // Slots beyond the peer's limit stay parked.
            let is_free = |slot: &&u32| self.dispatcher.slot(**slot).connection == index;
            let free = self.dispatcher.free().iter().filter(is_free).count() as u32;
            let is_limit_used = h2
                .peer_limit()
                .is_some_and(|limit| occupancy.in_flight + free >= limit);
            // Until SETTINGS arrive, a connection carries one request at a time.
            let may_be_first = occupancy.in_flight == 0 && free > 0;
            let has_alarm = self.timers.has_alarm(index, Alarm::Unpark);
            let is_meant = is_limit_used || may_be_first || has_alarm || occupancy.deferred > 0;
            assert!(
                occupancy.parked == 0 || is_meant,
                "slots of connection {index} are parked without a reason"
            );
        }
        // On an established connection, the next event must come from the peer. All other waits end
        // with a timeout.
        let is_limited = can_start == Err(StartError::PeerLimit);
        assert!(
            occupancy.in_flight > 0 || takes_more || is_limited,
            "connection {index} is stuck: {can_start:?}"
        );
    }

    /// Asserts that a connection and its successor are not both open, and that slots that need
    /// another connection have one.
    fn assert_one_takes_requests(&self, primary: u32, successor: u32) {
        let is_out = |index: u32| {
            let entry = &self.connections[index];
            entry.link.state.is_vacant() || entry.is_going_away() || entry.link.state.is_draining()
        };
        assert!(
            is_out(primary) || is_out(successor),
            "connection {primary} and its successor are both open"
        );
        for (index, other) in [(primary, successor), (successor, primary)] {
            let occupancy = self.dispatcher.occupancy(index);
            let is_wanted =
                self.connections[index].is_going_away() && occupancy.waiting + occupancy.parked > 0;
            let other = &self.connections[other].link.state;
            assert!(
                !is_wanted || !other.is_vacant(),
                "slots did not move away from connection {index}"
            );
        }
    }
}
