//! Chooses the free slot that takes the next request.

use super::Dispatcher;
use crate::carrier::{Carrier, ConnectionState, RequestCapacity, SendState, Session, SessionLife};
use crate::engine::worker::connections::Connections;
use crate::engine::worker::ramp::ConnectRamp;
use crate::request::protocols::StreamsLimit;
use crate::spec::LoadSpec;

/// The dispatcher's view of the connections.
#[derive(Clone, Copy)]
pub(in crate::engine::worker) struct ConnectionView<'a> {
    pub(in crate::engine::worker) connections: &'a Connections,
    pub(in crate::engine::worker) ramp: Option<&'a ConnectRamp>,
}

/// Ability of a connection to carry another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Eligibility {
    /// The connection can carry a request now.
    Ready,
    /// A connection must be opened first.
    Vacant,
    /// The connection is idle, and leads to another target.
    OtherTarget,
    /// The connection can carry a request once the peer raises its limit on streams above zero.
    NoStreamsAllowed(StreamsLimit),
    /// The connection carries as many requests as the limit allows.
    Full(StreamsLimit),
    /// Too many bytes are waiting to be sent on the connection.
    Backpressured,
    /// The connection is being opened or closed.
    NotNow,
}

impl Dispatcher<'_> {
    /// Takes a free slot for the next request of the spec. With a single target, takes the first
    /// usable slot and parks unusable ones. With several targets, prefers a slot whose connection
    /// already leads to the target, unless each user has its own next request.
    #[inline]
    pub(in crate::engine::worker) fn take_slot(
        &mut self,
        spec: &LoadSpec,
        has_many_targets: bool,
        view: ConnectionView<'_>,
        limit: &mut Option<StreamsLimit>,
    ) -> Option<u32> {
        if has_many_targets {
            self.take_best_slot(spec, view, limit)
        } else {
            let target = spec.target_of(self.sequence.peek());
            self.take_first_slot(Some(target), view, limit)
        }
    }

    /// Takes the first free slot that can carry a request to this target. If `target` is `None`,
    /// connections to any target qualify.
    #[inline]
    pub(in crate::engine::worker) fn take_first_slot(
        &mut self,
        target: Option<u32>,
        view: ConnectionView<'_>,
        limit: &mut Option<StreamsLimit>,
    ) -> Option<u32> {
        while let Some(slot) = self.free.pop_front() {
            let connection = self.next_connection(slot);
            self.slot_mut(slot).connection = connection;
            match self.eligibility(connection, target, view) {
                Eligibility::Ready | Eligibility::Vacant => return Some(slot),
                Eligibility::NoStreamsAllowed(none) => {
                    note_limit(limit, none);
                    return Some(slot);
                }
                Eligibility::Full(lower) => {
                    note_limit(limit, lower);
                    self.park(slot);
                }
                Eligibility::Backpressured => {
                    self.occupancy_mut(connection).write_backpressured = true;
                    self.park(slot);
                }
                Eligibility::OtherTarget | Eligibility::NotNow => self.park(slot),
            }
        }
        None
    }

    fn take_best_slot(
        &mut self,
        spec: &LoadSpec,
        view: ConnectionView<'_>,
        limit: &mut Option<StreamsLimit>,
    ) -> Option<u32> {
        let is_per_user = self.sequence.is_per_user();
        let mut backpressured = Vec::new();
        let cost = |slot: u32| {
            let connection = self.next_connection(slot);
            let target = spec.target_of(self.next_listed(slot));
            match self.eligibility(connection, Some(target), view) {
                // A user whose next request has another target must not wait for all others.
                Eligibility::Vacant | Eligibility::OtherTarget if is_per_user => Some(0),
                Eligibility::Ready => Some(0),
                Eligibility::Vacant => Some(1),
                Eligibility::OtherTarget => Some(2),
                Eligibility::NoStreamsAllowed(none) => {
                    note_limit(limit, none);
                    Some(3)
                }
                Eligibility::Full(lower) => {
                    note_limit(limit, lower);
                    None
                }
                Eligibility::Backpressured => {
                    backpressured.push(connection);
                    None
                }
                Eligibility::NotNow => None,
            }
        };
        let costs = self.free.iter().copied().map(cost).enumerate();
        let best = costs
            .filter_map(|(position, cost)| Some((cost?, position)))
            .min();
        if let Some((_, position)) = best {
            let slot = self.free.remove(position)?;
            self.slot_mut(slot).connection = self.next_connection(slot);
            return Some(slot);
        }
        for connection in backpressured {
            self.occupancy_mut(connection).write_backpressured = true;
        }
        self.has_no_eligible_slot = true;
        None
    }

    #[inline]
    fn eligibility(
        &self,
        connection: u32,
        target: Option<u32>,
        view: ConnectionView<'_>,
    ) -> Eligibility {
        let occupancy = self.occupancy(connection);
        if occupancy.deferred > 0 || view.is_held(connection) {
            return Eligibility::NotNow;
        }
        let entry = &view.connections[connection];
        let session = match &entry.link.state {
            ConnectionState::Vacant => return Eligibility::Vacant,
            ConnectionState::Ready(session) => session,
            _ => return Eligibility::NotNow,
        };
        if target.is_some_and(|target| target != entry.target) {
            return match occupancy.waiting + occupancy.in_flight {
                0 => Eligibility::OtherTarget,
                _ => Eligibility::NotNow,
            };
        }
        if occupancy.waiting > 0 || !takes_more(session, entry.link.send) {
            return Eligibility::NotNow;
        }
        match session.carrier.capacity(occupancy.in_flight) {
            RequestCapacity::Available => Eligibility::Ready,
            RequestCapacity::NoStreamsAllowed(limit) => Eligibility::NoStreamsAllowed(limit),
            RequestCapacity::Full(limit) => Eligibility::Full(limit),
            RequestCapacity::Backpressured => Eligibility::Backpressured,
            RequestCapacity::NotNow => Eligibility::NotNow,
        }
    }

    /// Returns true if a request that waits for this connection can be sent on it now.
    pub(in crate::engine::worker) fn has_room(
        &self,
        connection: u32,
        view: ConnectionView<'_>,
    ) -> bool {
        let entry = &view.connections[connection];
        let ConnectionState::Ready(session) = &entry.link.state else {
            return false;
        };
        let in_flight = self.occupancy(connection).in_flight;
        !view.is_held(connection)
            && takes_more(session, entry.link.send)
            && session.carrier.capacity(in_flight) == RequestCapacity::Available
    }
}

impl ConnectionView<'_> {
    /// Returns true if requests on a connection are held until the ramp is over.
    #[inline]
    fn is_held(&self, connection: u32) -> bool {
        self.ramp.is_some_and(|ramp| ramp.is_held(connection))
    }
}

/// Returns true if a connection may carry more requests, as far as the load is concerned.
#[inline]
fn takes_more(session: &Session, send: SendState) -> bool {
    !session.maybe_dead && session.life != SessionLife::Retired && send != SendState::Failed
}

/// Updates `limit` to the lower of the two limits.
fn note_limit(limit: &mut Option<StreamsLimit>, other: StreamsLimit) {
    *limit = Some(limit.map_or(other, |limit| limit.min(other)));
}
