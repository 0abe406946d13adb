//! What has to hold for a worker's seats and slots whenever it is about to sleep.

use prony_protocol::h2::StartError;

use super::super::{Alarm, Worker};
use crate::slot::{Early, State};
use crate::socket::Sockets;

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Everything is counted right, and nothing that could go on stands still.
    pub(in crate::worker) fn assert_sound(&self) {
        self.assert_seats_sound();
        for index in 0..self.slots.len() as u32 {
            self.assert_slot_counted(index);
            self.assert_slot_goes_on(index);
        }
        for (home, twin) in (0..self.homes).zip(self.homes..self.slots.len() as u32) {
            self.assert_one_takes_requests(home, twin);
        }
    }

    /// Each seat is in one state.
    fn assert_seats_sound(&self) {
        let mut listed = vec![0; self.seats.len()];
        for seat in &self.free {
            listed[*seat as usize] += 1;
        }
        for (number, (seat, listed)) in self.seats.iter().zip(listed).enumerate() {
            let others = [seat.pending.is_some(), seat.is_parked, seat.is_away];
            let states = listed + others.into_iter().map(u32::from).sum::<u32>();
            assert_eq!(states, 1, "seat {number} is free, pending, parked or away");
            assert!(seat.own.is_none() || seat.pending.is_some());
        }
        let pending = self.seats.iter().filter(|seat| seat.pending.is_some());
        assert_eq!(pending.count() as u32, self.in_flight);
    }

    fn assert_slot_counted(&self, index: u32) {
        let slot = &self.slots[index as usize];
        let (mut waiting, mut under_way, mut parked, mut diverted) = (0, 0, 0, 0);
        for seat in self.seats_of(index) {
            if !self.is_on(seat, index) {
                continue;
            }
            let seat = &self.seats[seat as usize];
            match &seat.pending {
                Some(pending) if pending.is_under_way => under_way += 1,
                Some(pending) if pending.is_diverted => diverted += 1,
                Some(_) => waiting += 1,
                None => parked += u32::from(seat.is_parked),
            }
        }
        let counted = (slot.waiting, slot.under_way, slot.parked, slot.diverted);
        assert_eq!(
            counted,
            (waiting, under_way, parked, diverted),
            "slot {index}"
        );
        if slot.state == State::Open
            && let Some(multiplexed) = slot.connection.multiplexed()
        {
            assert_eq!(multiplexed.active(), under_way, "slot {index}");
        }
    }

    /// Nothing waits that could go on, or for something that won't come.
    fn assert_slot_goes_on(&self, index: u32) {
        let slot = &self.slots[index as usize];
        if slot.early == Early::Held {
            assert_eq!(slot.under_way, 0, "slot {index} holds its request");
            return;
        }
        let is_open = matches!(slot.state, State::Vacant | State::Open);
        let looks_up = self
            .seats_of(index)
            .any(|seat| self.is_on(seat, index) && self.seats[seat as usize].lookup.is_some());
        assert!(
            slot.diverted == 0 || slot.waiting + slot.under_way > 0 || !is_open || looks_up,
            "nobody sends what goes elsewhere from slot {index}"
        );
        match slot.state {
            State::Vacant => {
                let idle = (slot.waiting, slot.parked);
                assert_eq!(idle, (0, 0), "nobody connects slot {index}");
                return;
            }
            State::BackingOff
            | State::Connecting
            | State::Tunneling
            | State::Securing
            | State::Draining => return,
            State::Open => {}
        }
        let Some(multiplexed) = slot.connection.multiplexed() else {
            return;
        };
        let can_start = multiplexed.can_start();
        let takes_more = !slot.is_suspect && !slot.send_failed && can_start.is_ok();
        if takes_more {
            assert_eq!(slot.waiting, 0, "requests wait on slot {index} for nothing");
            // Those beyond the peer's limit are parked for good, as long as it is.
            let is_free = |seat: &&u32| self.seats[**seat as usize].slot == index;
            let free = self.free.iter().filter(is_free).count() as u32;
            let is_limit_used = multiplexed
                .peer_limit()
                .is_some_and(|limit| slot.under_way + free >= limit);
            // Until SETTINGS come there is one at a time.
            let may_be_first = slot.under_way == 0 && free > 0;
            let others = is_limit_used || may_be_first || self.rests(index);
            let is_meant = others || slot.diverted > 0;
            assert!(
                slot.parked == 0 || is_meant,
                "seats of slot {index} are parked for nothing"
            );
        }
        // The peer must say something before it goes on: all else ends by a timeout.
        let is_held_off = can_start == Err(StartError::PeerLimit);
        assert!(
            slot.under_way > 0 || takes_more || is_held_off,
            "slot {index} is left for dead: {can_start:?}"
        );
    }

    /// Of a slot and its twin one goes away, or both; and if there are seats that want another
    /// connection, then there is one.
    fn assert_one_takes_requests(&self, home: u32, twin: u32) {
        let goes_away = |index: u32| {
            let slot = &self.slots[index as usize];
            let multiplexed = slot.connection.multiplexed();
            slot.state == State::Open && multiplexed.is_some_and(|it| it.is_going_away())
        };
        let state = |index: u32| self.slots[index as usize].state;
        let is_gone = |index: u32| state(index) == State::Vacant;
        let is_out =
            |index: u32| is_gone(index) || goes_away(index) || state(index) == State::Draining;
        assert!(
            is_out(home) || is_out(twin),
            "slot {home} has two connections: {:?} {:?}",
            state(home),
            state(twin)
        );
        for (index, other) in [(home, twin), (twin, home)] {
            let slot = &self.slots[index as usize];
            let is_wanted = goes_away(index) && slot.waiting + slot.parked > 0;
            assert!(!is_wanted || !is_gone(other), "slot {index} is not left");
        }
    }

    fn rests(&self, index: u32) -> bool {
        let mut alarms = self.alarms.iter();
        alarms.any(|alarm| alarm.0.1 == index && alarm.0.3 == Alarm::RestOver)
    }
}
