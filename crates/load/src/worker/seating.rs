//! Which seat takes a request, and which ones have to wait for their connection.

use std::ops::Range;

use prony_protocol::h2::StartError;
use prony_record::Nanos;

use super::Worker;
use crate::protocols::StreamsLimit;
use crate::seat::Pending;
use crate::slot::{Early, Slot, State};
use crate::socket::Sockets;

/// What a slot has for another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// Room on its connection.
    Ready,
    /// A connection is to be made first.
    Vacant,
    /// An idle connection to another target.
    Elsewhere,
    /// Room on its connection, once the peer allows any request at all.
    Shut,
    /// The peer allows no more requests on its connection than are under way.
    Full(StreamsLimit),
    /// Much was said on it that isn't sent yet.
    Choked,
    /// Nothing at the moment: its connection is being made or taken down.
    Unready,
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// The seats that a slot shares with its twin, in the order of their tags.
    pub(super) fn seats_of(&self, index: u32) -> Range<u32> {
        let streams = self.spec.protocols.streams;
        let home = index % self.homes;
        home * streams..(home + 1) * streams
    }

    /// Whether a seat is on this slot, and not on its twin.
    #[inline]
    pub(super) fn is_on(&self, seat: u32, index: u32) -> bool {
        self.seats[seat as usize].slot == index
    }

    /// Whether a seat is on this slot with a request that its connection carries.
    pub(super) fn is_carried(&self, seat: u32, index: u32) -> bool {
        let seat = &self.seats[seat as usize];
        seat.slot == index && seat.pending.as_ref().is_some_and(|it| it.is_under_way)
    }

    /// Whether a seat is on this slot with a request that waits for its connection.
    pub(super) fn is_waiting(&self, seat: u32, index: u32) -> bool {
        let seat = &self.seats[seat as usize];
        let waits = |it: &Pending| !it.is_under_way && !it.is_diverted;
        seat.slot == index && seat.pending.as_ref().is_some_and(waits)
    }

    /// The slot that takes over when the peer wants no further requests on a connection.
    fn twin(&self, index: u32) -> Option<u32> {
        let has_twins = self.slots.len() > self.homes as usize;
        has_twins.then(|| match index < self.homes {
            true => index + self.homes,
            false => index - self.homes,
        })
    }

    /// The slot on which a free seat would have its next request.
    #[inline]
    fn next_slot(&self, seat: u32) -> u32 {
        let index = self.seats[seat as usize].slot;
        match self.slots[index as usize].is_leaving {
            true => self.twin(index).unwrap_or(index),
            false => index,
        }
    }

    /// If the peer takes no further requests on a connection that still carries some, the others go to
    /// its twin, which has a connection of its own. Where the twin is itself still leaving, they wait.
    pub(super) fn leave_if_going_away(&mut self, index: u32, now: Nanos) {
        let slot = &self.slots[index as usize];
        let multiplexed = slot.connection.multiplexed();
        let goes_away =
            slot.state == State::Open && multiplexed.is_some_and(|it| it.is_going_away());
        let Some(twin) = self.twin(index).filter(|_| goes_away) else {
            return;
        };
        if !self.slots[index as usize].is_leaving {
            if self.slots[twin as usize].state != State::Vacant {
                return;
            }
            self.slots[index as usize].is_leaving = true;
            self.slots[twin as usize].target = self.slots[index as usize].target;
        }
        let slot = &self.slots[index as usize];
        if slot.waiting + slot.parked > 0 {
            self.move_to_twin(index, twin, now);
        }
    }

    /// Moves to its twin all seats of a slot but those with a request that it carries.
    fn move_to_twin(&mut self, index: u32, twin: u32, now: Nanos) {
        for seat in self.seats_of(index) {
            if !self.is_on(seat, index) || self.is_carried(seat, index) {
                continue;
            }
            let waits = self.is_waiting(seat, index);
            let place = &mut self.seats[seat as usize];
            place.slot = twin;
            let (waiting, parked) = (u32::from(waits), u32::from(place.is_parked));
            let diverted = place.pending.as_ref().is_some_and(|it| it.is_diverted);
            let diverted = u32::from(diverted);
            self.slots[index as usize].waiting -= waiting;
            self.slots[index as usize].parked -= parked;
            self.slots[index as usize].diverted -= diverted;
            self.slots[twin as usize].waiting += waiting;
            self.slots[twin as usize].parked += parked;
            self.slots[twin as usize].diverted += diverted;
        }
        match self.slots[twin as usize].state {
            State::Vacant => self.vacated(twin, now),
            _ => self.fill(twin, now),
        }
    }

    /// A seat may be free for the next request.
    pub(super) fn is_any_free(&self) -> bool {
        !self.free.is_empty() && !self.is_stuck
    }

    pub(super) fn set_free(&mut self, seat: u32, now: Nanos) {
        self.seats[seat as usize].free_since = now;
        self.free.push_back(seat);
        self.unstick(now);
    }

    /// A seat may suit the next request, if none did.
    fn unstick(&mut self, now: Nanos) {
        if std::mem::take(&mut self.is_stuck) {
            self.unstuck = now;
        }
    }

    /// Takes the free seat that suits a request best. Where there is one target, seats that can't
    /// have a request are parked; of several targets each keeps its connections.
    pub(super) fn take_seat(&mut self, request: u32) -> Option<u32> {
        let target = self.spec.requests[request as usize].target;
        if self.targets.len() > 1 {
            return self.take_best_seat(target);
        }
        self.take_first_seat(Some(target))
    }

    /// The first free seat that can have a request to the target of its own connection, or to any
    /// where it has none.
    pub(super) fn take_seat_as_it_is(&mut self) -> Option<u32> {
        self.take_first_seat(None)
    }

    #[inline]
    fn take_first_seat(&mut self, target: Option<u32>) -> Option<u32> {
        while let Some(seat) = self.free.pop_front() {
            let index = self.next_slot(seat);
            self.seats[seat as usize].slot = index;
            let slot = &self.slots[index as usize];
            match room(slot, target.unwrap_or(slot.target)) {
                Room::Ready | Room::Vacant => return Some(seat),
                Room::Shut => {
                    self.note_limit(StreamsLimit::Settings(0));
                    return Some(seat);
                }
                Room::Full(limit) => {
                    self.note_limit(limit);
                    self.park(seat);
                }
                Room::Choked => {
                    self.slots[index as usize].is_choked = true;
                    self.park(seat);
                }
                Room::Elsewhere | Room::Unready => self.park(seat),
            }
        }
        None
    }

    fn take_best_seat(&mut self, target: u32) -> Option<u32> {
        let (mut limit, mut choked) = (None, None);
        let cost = |seat: u32| {
            let index = self.next_slot(seat);
            match room(&self.slots[index as usize], target) {
                Room::Ready => Some(0),
                Room::Vacant => Some(1),
                Room::Elsewhere => Some(2),
                Room::Shut => {
                    limit = Some(StreamsLimit::Settings(0));
                    Some(3)
                }
                Room::Full(most) => {
                    limit = Some(most);
                    None
                }
                Room::Choked => {
                    choked = Some(index);
                    None
                }
                Room::Unready => None,
            }
        };
        let costs = self.free.iter().copied().map(cost).enumerate();
        let best = costs.filter_map(|(place, cost)| Some((cost?, place))).min();
        if let Some(limit) = limit {
            self.note_limit(limit);
        }
        match best {
            Some((_, place)) => {
                let seat = self.free.remove(place)?;
                self.seats[seat as usize].slot = self.next_slot(seat);
                Some(seat)
            }
            None => {
                if let Some(index) = choked {
                    self.slots[index as usize].is_choked = true;
                }
                self.is_stuck = true;
                None
            }
        }
    }

    fn note_limit(&mut self, limit: StreamsLimit) {
        let before = self.streams_limit.unwrap_or(limit);
        self.streams_limit = Some(before.min(limit));
    }

    /// A seat that is neither free nor pending waits until something happens to its connection.
    pub(super) fn park(&mut self, seat: u32) {
        let place = &mut self.seats[seat as usize];
        place.is_parked = true;
        self.slots[place.slot as usize].parked += 1;
    }

    /// Something has happened to a slot's connection: its parked seats may try again.
    pub(super) fn unpark(&mut self, index: u32, now: Nanos) {
        self.unstick(now);
        if self.slots[index as usize].parked == 0 {
            return;
        }
        self.slots[index as usize].parked = 0;
        for seat in self.seats_of(index) {
            if self.is_on(seat, index) && std::mem::take(&mut self.seats[seat as usize].is_parked) {
                self.set_free(seat, now);
            }
        }
    }

    /// A slot's connection is gone: whoever waits for one gets another, unless it is held.
    pub(super) fn vacated(&mut self, index: u32, now: Nanos) {
        if self.slots[index as usize].early == Early::Held {
            return;
        }
        if std::mem::take(&mut self.slots[index as usize].is_leaving)
            && let Some(twin) = self.twin(index)
        {
            self.move_to_twin(index, twin, now);
            // It may have waited for that.
            self.leave_if_going_away(twin, now);
            return;
        }
        if self.slots[index as usize].waiting > 0 {
            self.connect(index, now);
        }
        self.unpark(index, now);
    }

    /// There may be room on a connection: it is for those that wait, and then for parked seats.
    pub(super) fn fill(&mut self, index: u32, now: Nanos) {
        self.send_waiting(index, now);
        if self.slots[index as usize].waiting == 0 {
            self.unpark(index, now);
        }
    }

    /// Sends requests that wait for their connection, as far as it has room for them.
    pub(super) fn send_waiting(&mut self, index: u32, now: Nanos) {
        for seat in self.seats_of(index) {
            let slot = &self.slots[index as usize];
            if slot.waiting == 0 || !has_room(slot) {
                return;
            }
            if self.is_waiting(seat, index) {
                self.send_request(seat, now);
            }
        }
    }

    /// The first of the seats that wait for the slot's connection.
    pub(super) fn first_waiting(&self, index: u32) -> Option<u32> {
        let mut seats = self.seats_of(index);
        seats.find(|&seat| self.is_waiting(seat, index))
    }
}

/// What a slot has for a request that is not yet made.
#[inline]
fn room(slot: &Slot, target: u32) -> Room {
    match slot.state {
        _ if slot.early == Early::Held => Room::Unready,
        _ if slot.diverted > 0 => Room::Unready,
        State::Vacant => Room::Vacant,
        State::Open if slot.target != target => match slot.waiting + slot.under_way {
            0 => Room::Elsewhere,
            _ => Room::Unready,
        },
        State::Open if slot.waiting > 0 || slot.is_suspect || slot.send_failed => Room::Unready,
        State::Open => match slot.connection.multiplexed() {
            None if slot.under_way == 0 => Room::Ready,
            None => Room::Full(StreamsLimit::Http1),
            Some(multiplexed) => match multiplexed.can_start() {
                Ok(()) => Room::Ready,
                // One waits for that, and may time out: else a load might wait for ever.
                Err(StartError::PeerLimit) if slot.under_way == 0 => Room::Shut,
                Err(StartError::PeerLimit) => {
                    let limit = multiplexed.peer_limit().unwrap_or(u32::MAX);
                    Room::Full(StreamsLimit::Settings(limit))
                }
                Err(StartError::Unsent) => Room::Choked,
                Err(_) => Room::Unready,
            },
        },
        _ => Room::Unready,
    }
}

/// Whether a request that waits for this connection could go out on it now.
fn has_room(slot: &Slot) -> bool {
    slot.state == State::Open
        && slot.early != Early::Held
        && !slot.is_suspect
        && !slot.send_failed
        && match slot.connection.multiplexed() {
            None => slot.under_way == 0,
            Some(multiplexed) => multiplexed.can_start().is_ok(),
        }
}
