//! The request slots of a worker, and the times at which requests are due.
//!
//! Each connection of the load has a fixed number of slots: one for each exchange that it may carry
//! at the same time. When a peer announces that it will close a connection (GOAWAY), the connection's
//! idle slots move to a *successor connection*, while the requests in flight finish on the old one.

mod eligibility;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use prony_record::Nanos;

pub(super) use self::eligibility::ConnectionView;
pub(super) use self::slot::{Pending, RequestPhase, RequestSlot, SlotState};
use super::pace::Pace;
use crate::engine::sequence::Sequence;
use crate::request::Request;
use crate::spec::LoadSpec;
use crate::values::shard::Shard;

/// Counts of the request slots on a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Occupancy {
    /// Number of requests that wait for the connection.
    pub(super) waiting: u32,
    /// Number of requests in flight on the connection.
    pub(super) in_flight: u32,
    /// Number of requests to other targets, which are waiting until the connection is idle.
    pub(super) deferred: u32,
    /// Number of slots that can't take a request now.
    pub(super) parked: u32,
    /// True if the peer accepts no more requests on the connection, so new requests use its
    /// successor.
    pub(super) uses_successor: bool,
    /// True if a slot was parked because too many bytes wait to be sent.
    pub(super) write_backpressured: bool,
}

/// Request slots and start times of a worker.
pub(super) struct Dispatcher<'run> {
    pub(super) slots: Vec<RequestSlot>,
    /// Counts of slots, by connection.
    occupancy: Vec<Occupancy>,
    /// Free slots, in the order in which they became free.
    free: VecDeque<u32>,
    /// True if no free slot can take the next request.
    has_no_eligible_slot: bool,
    /// Time at which an eligible slot last became free. In a closed loop, the initial value is the
    /// time of the worker's start.
    pub(super) eligible_since: Nanos,
    /// Slots whose request is deferred.
    deferred: Vec<u32>,
    pub(super) pace: Pace<'run>,
    /// True if the load is in the settling part of a slice.
    pub(super) is_settling: bool,
    sequence: Sequence,
    /// Number of slots with a request.
    pub(super) pending_count: u32,
    /// Number of slots per connection.
    streams: u32,
    /// Number of primary connections, which each have their own slots. All others are successors.
    pub(super) primary_count: u32,
}

impl<'run> Dispatcher<'run> {
    pub(super) fn new(spec: &LoadSpec, shard: Shard, pace: Pace<'run>) -> Dispatcher<'run> {
        let primary_count = spec.connections_of(shard);
        let connections = spec.connections_max(shard);
        let streams = spec.transport.protocols.streams;
        // The first slots of all connections come before the second slots, so that all connections
        // are opened.
        let in_turn = (0..streams).flat_map(|stream| {
            (0..primary_count).map(move |connection| connection * streams + stream)
        });
        Dispatcher {
            slots: (0..primary_count * streams)
                .map(|slot| RequestSlot::new(slot / streams, slot % streams))
                .collect(),
            occupancy: vec![Occupancy::default(); connections as usize],
            free: in_turn.collect(),
            has_no_eligible_slot: false,
            eligible_since: Nanos::ZERO,
            deferred: Vec::new(),
            pace,
            is_settling: false,
            sequence: Sequence::new(spec, shard, (primary_count * streams) as usize),
            pending_count: 0,
            streams,
            primary_count,
        }
    }

    /// The slots of a connection and its successor, in the order of their stream numbers.
    #[inline]
    pub(super) fn slots_of(&self, connection: u32) -> Range<u32> {
        let first = connection % self.primary_count * self.streams;
        first..first + self.streams
    }

    #[inline]
    pub(super) fn occupancy(&self, connection: u32) -> &Occupancy {
        &self.occupancy[connection as usize]
    }

    #[inline]
    pub(super) fn occupancy_mut(&mut self, connection: u32) -> &mut Occupancy {
        &mut self.occupancy[connection as usize]
    }

    #[inline]
    pub(super) fn slot(&self, slot: u32) -> &RequestSlot {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut RequestSlot {
        &mut self.slots[slot as usize]
    }

    /// Returns true if a slot belongs to this connection and its request is in this phase.
    #[inline]
    pub(super) fn is_on_in(&self, slot: u32, connection: u32, phase: RequestPhase) -> bool {
        let slot = self.slot(slot);
        slot.connection == connection && slot.phase() == Some(phase)
    }

    /// Returns true if a slot's request waits for this connection.
    #[inline]
    pub(super) fn is_waiting_on(&self, slot: u32, connection: u32) -> bool {
        self.is_on_in(slot, connection, RequestPhase::Waiting)
    }

    /// Returns true if a slot's request is in flight on this connection.
    #[inline]
    pub(super) fn is_in_flight_on(&self, slot: u32, connection: u32) -> bool {
        self.is_on_in(slot, connection, RequestPhase::InFlight)
    }

    /// The first slot whose request waits for this connection.
    pub(super) fn first_waiting(&self, connection: u32) -> Option<u32> {
        let mut slots = self.slots_of(connection);
        slots.find(|&slot| self.is_waiting_on(slot, connection))
    }

    /// The connection that takes over when the peer accepts no more requests on this one. A
    /// connection and its successor are each other's successors.
    pub(super) fn successor(&self, connection: u32) -> Option<u32> {
        let has_successors = self.occupancy.len() > self.primary_count as usize;
        has_successors.then(|| {
            if connection < self.primary_count {
                connection + self.primary_count
            } else {
                connection - self.primary_count
            }
        })
    }

    /// The connection that carries the next request of a free slot.
    #[inline]
    pub(super) fn next_connection(&self, slot: u32) -> u32 {
        let connection = self.slot(slot).connection;
        if self.occupancy(connection).uses_successor {
            self.successor(connection).unwrap_or(connection)
        } else {
            connection
        }
    }

    /// Moves all slots of a connection to its successor, except those with a request in flight.
    pub(super) fn move_to_successor(&mut self, connection: u32, successor: u32) {
        for number in self.slots_of(connection) {
            let slot = &mut self.slots[number as usize];
            if slot.connection != connection {
                continue;
            }
            let (mut waiting, mut deferred, mut parked) = (0, 0, 0);
            match slot.phase() {
                Some(RequestPhase::InFlight) => continue,
                Some(RequestPhase::Waiting) => waiting = 1,
                Some(RequestPhase::Deferred) => deferred = 1,
                None => parked = u32::from(matches!(slot.state, SlotState::Parked)),
            }
            slot.connection = successor;
            let old = self.occupancy_mut(connection);
            old.waiting -= waiting;
            old.deferred -= deferred;
            old.parked -= parked;
            let new = self.occupancy_mut(successor);
            new.waiting += waiting;
            new.deferred += deferred;
            new.parked += parked;
        }
    }

    /// Puts a slot into the list of free slots.
    #[inline]
    pub(super) fn set_free(&mut self, number: u32, now: Nanos) {
        let slot = self.slot_mut(number);
        slot.state = SlotState::Free;
        slot.free_since = now;
        self.free.push_back(number);
        self.note_change(now);
    }

    /// Puts a slot that was away into the list of free slots. It has been free all along.
    pub(super) fn set_free_again(&mut self, number: u32) {
        self.slot_mut(number).state = SlotState::Free;
        self.free.push_back(number);
    }

    /// Records that a slot may now be able to take the next request, if none could before.
    #[inline]
    fn note_change(&mut self, now: Nanos) {
        if std::mem::take(&mut self.has_no_eligible_slot) {
            self.eligible_since = now;
        }
    }

    /// Parks a slot, which has no request, until the state of its connection changes.
    pub(super) fn park(&mut self, number: u32) {
        let slot = self.slot_mut(number);
        slot.state = SlotState::Parked;
        let connection = slot.connection;
        self.occupancy_mut(connection).parked += 1;
    }

    /// Frees the parked slots of a connection whose state has changed.
    pub(super) fn unpark(&mut self, connection: u32, now: Nanos) {
        self.note_change(now);
        if self.occupancy(connection).parked == 0 {
            return;
        }
        self.occupancy_mut(connection).parked = 0;
        for number in self.slots_of(connection) {
            let slot = self.slot(number);
            if slot.connection == connection && matches!(slot.state, SlotState::Parked) {
                self.set_free(number, now);
            }
        }
    }

    /// Removes a slot from use while its virtual user thinks, or because the user has left.
    pub(super) fn set_away(&mut self, slot: u32) {
        self.slot_mut(slot).state = SlotState::Away;
    }

    /// Returns true if there is a free slot that may be able to take the next request.
    #[inline]
    pub(super) fn has_free_slot(&self) -> bool {
        !self.free.is_empty() && !self.has_no_eligible_slot
    }

    /// Returns the time at which the next request is due. The outer option is `None` if no request
    /// is due by `now`. The inner option is `None` if a request is due as soon as a slot is free.
    #[inline]
    pub(super) fn due(&self, now: Nanos) -> Option<Option<Nanos>> {
        match &self.pace {
            Pace::Closed { left: 0 } => None,
            Pace::Closed { .. } => Some(None),
            Pace::Open(schedule) => schedule.peek().filter(|due| *due <= now).map(Some),
            Pace::OneAtATime { left } => {
                (*left > 0 && self.pending_count == 0).then(|| Some(self.all_free_since()))
            }
            Pace::Recorded(feed) => {
                let next = feed.peek()?;
                if feed.is_scheduled() {
                    (next.due <= now).then_some(Some(next.due))
                } else {
                    Some(None)
                }
            }
        }
    }

    /// Time at which the last of the free slots became free.
    fn all_free_since(&self) -> Nanos {
        let last = self.free.back().map(|slot| self.slot(*slot).free_since);
        last.unwrap_or_default().max(self.eligible_since)
    }

    /// Time of the next scheduled request, if a slot is free; otherwise [`Nanos::MAX`].
    #[inline]
    pub(super) fn next_due(&self) -> Nanos {
        match &self.pace {
            Pace::Open(schedule) if self.has_free_slot() => schedule.peek().unwrap_or(Nanos::MAX),
            _ => Nanos::MAX,
        }
    }

    /// Time of the next scheduled request; [`Nanos::MAX`] if there is none.
    pub(super) fn next_scheduled(&self) -> Nanos {
        match &self.pace {
            Pace::Open(schedule) => schedule.peek().unwrap_or(Nanos::MAX),
            Pace::Closed { .. } | Pace::OneAtATime { .. } | Pace::Recorded(_) => Nanos::MAX,
        }
    }

    /// Skips the scheduled requests before this time.
    pub(super) fn skip_schedule_until(&mut self, begin: Nanos) {
        if let Pace::Open(schedule) = &mut self.pace {
            while schedule.peek().is_some_and(|due| due < begin) {
                schedule.advance();
            }
        }
    }

    /// Advances the pace past a request with this intended start. Requests of the warm-up don't
    /// count towards the maximum number of requests.
    #[inline]
    pub(super) fn advance_pace(&mut self, intended: Nanos, spec: &LoadSpec) {
        match &mut self.pace {
            Pace::Open(schedule) => schedule.advance(),
            Pace::Closed { left } | Pace::OneAtATime { left }
                if spec.span.requests.is_some() && intended >= spec.span.warmup =>
            {
                *left -= 1
            }
            Pace::Closed { .. } | Pace::OneAtATime { .. } | Pace::Recorded(_) => {}
        }
    }

    /// Index of the next request in the spec's list, for the user with this slot.
    #[inline]
    pub(super) fn next_listed(&self, slot: u32) -> u32 {
        self.sequence.peek_for(slot)
    }

    /// Advances the list of requests past the one that the user with this slot took.
    #[inline]
    pub(super) fn advance_list(&mut self, slot: u32) {
        self.sequence.advance_for(slot);
    }

    /// Removes the next scheduled request that is due before this time and counts as unstarted.
    /// Returns its due time and its index in the list.
    pub(super) fn take_unstarted(&mut self, before: Nanos) -> Option<(Nanos, u32)> {
        if let Pace::Recorded(feed) = &mut self.pace {
            feed.refill();
            let next = *feed
                .peek()
                .filter(|it| feed.is_scheduled() && it.due < before)?;
            feed.advance();
            return Some((next.due, next.form));
        }
        let Pace::Open(schedule) = &mut self.pace else {
            return None;
        };
        let due = schedule.peek().filter(|due| *due < before)?;
        schedule.advance();
        let request = self.sequence.peek();
        self.sequence.advance();
        Some((due, request))
    }

    /// Begins a request in a slot. The request waits for the slot's connection.
    #[inline]
    pub(super) fn begin(&mut self, number: u32, request: u32, intended: Nanos, now: Nanos) {
        let is_settling = self.is_settling;
        let slot = self.slot_mut(number);
        slot.state = SlotState::Busy(Pending {
            request,
            phase: RequestPhase::Waiting,
            retried: false,
            intended,
            begun: now,
            sent: None,
            bytes_out: 0,
            is_settling,
        });
        let connection = slot.connection;
        self.pending_count += 1;
        self.occupancy_mut(connection).waiting += 1;
    }

    /// Marks a slot's request as in flight on its connection, with `bytes` bytes to send.
    #[inline]
    pub(super) fn set_in_flight(&mut self, number: u32, bytes: u64, now: Nanos) {
        let slot = &mut self.slots[number as usize];
        let connection = slot.connection;
        if let Some(pending) = slot.pending_mut() {
            pending.sent.get_or_insert(now);
            pending.bytes_out += bytes;
            pending.phase = RequestPhase::InFlight;
            let occupancy = self.occupancy_mut(connection);
            occupancy.waiting -= 1;
            occupancy.in_flight += 1;
        }
    }

    /// Makes a request in flight wait for its connection again. `retried` is true for a retry and
    /// false for a redirect.
    pub(super) fn requeue(&mut self, number: u32, retried: bool) {
        let slot = &mut self.slots[number as usize];
        let connection = slot.connection;
        if let Some(pending) = slot.pending_mut() {
            pending.phase = RequestPhase::Waiting;
            pending.retried = retried;
            let occupancy = self.occupancy_mut(connection);
            occupancy.in_flight -= 1;
            occupancy.waiting += 1;
        }
    }

    /// Defers a waiting request to another target until the slot's connection is idle.
    pub(super) fn defer_until_idle(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        let connection = slot.connection;
        if let Some(pending) = slot.pending_mut() {
            pending.phase = RequestPhase::Deferred;
            let occupancy = self.occupancy_mut(connection);
            occupancy.waiting -= 1;
            occupancy.deferred += 1;
            self.deferred.push(number);
        }
    }

    /// Ends the deferral of a request. The request then waits for its slot's connection.
    pub(super) fn end_deferral(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        let connection = slot.connection;
        if let Some(pending) = slot.pending_mut() {
            pending.phase = RequestPhase::Waiting;
            let occupancy = self.occupancy_mut(connection);
            occupancy.deferred -= 1;
            occupancy.waiting += 1;
        }
    }

    /// Returns the slot at this position in the list of deferred slots.
    pub(super) fn deferred_at(&self, position: usize) -> Option<u32> {
        self.deferred.get(position).copied()
    }

    /// Removes the slot at this position in the list of deferred slots. The last slot of the list
    /// moves to this position.
    pub(super) fn remove_deferred(&mut self, position: usize) {
        self.deferred.swap_remove(position);
    }

    /// Returns true if any request is deferred.
    #[inline]
    pub(super) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Ends a slot's request. Returns the request's data, and the request itself if the slot owns
    /// it. The slot is then neither free nor parked, so the caller must free or park it.
    ///
    /// Always inlined, because a result that is returned through memory costs a stall.
    #[inline(always)]
    pub(super) fn end(&mut self, number: u32) -> Option<(Pending, Option<Arc<Request>>)> {
        let slot = &mut self.slots[number as usize];
        let connection = slot.connection;
        let pending = *slot.pending()?;
        slot.state = SlotState::Away;
        let own = slot.own.take();
        self.pending_count -= 1;
        let occupancy = self.occupancy_mut(connection);
        match pending.phase {
            RequestPhase::InFlight => occupancy.in_flight -= 1,
            RequestPhase::Waiting => occupancy.waiting -= 1,
            RequestPhase::Deferred => occupancy.deferred -= 1,
        }
        Some((pending, own))
    }

    /// Returns true if no more requests will start.
    #[inline]
    pub(super) fn is_exhausted(&self, spec: &LoadSpec) -> bool {
        match &self.pace {
            Pace::Closed { left } | Pace::OneAtATime { left } => *left == 0,
            Pace::Open(schedule) => schedule.peek().is_none() && spec.span.requests.is_some(),
            Pace::Recorded(feed) => feed.is_exhausted(),
        }
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> &VecDeque<u32> {
        &self.free
    }
}
