//! The virtual users: who sends the next request, and what users learn from responses.

use prony_record::Nanos;

use super::Worker;
use super::dispatcher::ConnectionView;
use crate::carrier::{Carrier, Transport};
use crate::request::script::{ResponseView, UserStep};
use crate::socket::Sockets;

/// Maximum number of script calls before completions are handled.
const CALLS_MAX: u32 = 64;
/// Maximum number of users whose pauses begin before completions are handled again.
const PAUSES_MAX: u32 = 64;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Returns true if no user will send another request.
    pub(super) fn have_users_left(&self) -> bool {
        let left = self.script.as_ref().map(|script| script.left);
        left == Some(self.dispatcher.slots.len() as u32)
    }

    /// Frees the slots of users whose think time has ended.
    pub(super) fn end_think_times(&mut self, now: Nanos) {
        while let Some((slot, at)) = self.timers.end_think_time(now) {
            self.dispatcher.set_free(slot, at);
        }
    }

    /// Calls the script for free users until one of them sends a request. Returns the user's slot
    /// and the request's index in the load's list. If the slot has its own request, the index is
    /// unused. The script is not called for users whose connection can't take a request; their
    /// slots are parked.
    pub(super) fn ask_users(&mut self, now: Nanos) -> Option<(u32, u32)> {
        for _ in 0..CALLS_MAX {
            let view = ConnectionView {
                connections: &self.connections,
                ramp: self.ramp.as_ref(),
            };
            let limit = &mut self.sink.streams_limit;
            let slot = self.dispatcher.take_first_slot(None, view, limit)?;
            let script = self.script.as_mut()?;
            match script.script.next(script.first_user + slot, now) {
                UserStep::Listed => {
                    let request = self.dispatcher.next_listed(slot);
                    self.dispatcher.advance_list(slot);
                    return Some((slot, request));
                }
                UserStep::Request(request) => {
                    self.learn_target(request.target);
                    self.dispatcher.slot_mut(slot).own = Some(request);
                    return Some((slot, u32::MAX));
                }
                UserStep::Rest(time) => {
                    self.dispatcher.set_away(slot);
                    // Without a minimum pause, the loop would call the script forever.
                    self.timers.think(slot, now + time.max(Nanos(1)));
                }
                UserStep::Leave => {
                    self.dispatcher.set_away(slot);
                    script.left += 1;
                }
            }
            // Another user on the same connection may use the free capacity.
            let index = self.dispatcher.slot(slot).connection;
            self.dispatcher.unpark(index, now);
        }
        None
    }

    /// Loads the data of a target that was added during the load.
    pub(super) fn learn_target(&mut self, target: u32) {
        let connections = self.dispatcher.primary_count;
        self.targets.learn(target, self.spec, connections);
    }

    /// Passes the complete response to a slot's request to the script, if the script needs
    /// responses.
    pub(super) fn show_response(&mut self, slot: u32) {
        self.show_messages(slot);
        let taken = self.dispatcher.slot(slot);
        let session = self.connections[taken.connection].session();
        let (Some(script), Some(request), Some(session)) = (
            &mut self.script,
            taken.request(&self.spec.requests),
            session,
        ) else {
            return;
        };
        let captured = session.carrier.captured(taken.stream());
        if let Some(captured) = captured.filter(|_| script.is_shown_responses()) {
            let received = session.carrier.received(taken.stream());
            let view = ResponseView {
                request,
                status: received.status.unwrap_or(0),
                head: &[],
                body: captured.body(),
                length: session.carrier.body_length(taken.stream()),
            };
            script.show(slot, view, captured.head());
        }
    }

    /// Passes the earlier responses of a pipelined batch to the script, unless it has already
    /// received them.
    pub(super) fn show_messages(&mut self, slot: u32) {
        let taken = self.dispatcher.slot(slot);
        let session = self.connections[taken.connection].session_mut();
        let Some(session) = session else {
            return;
        };
        let responses = session.carrier.take_messages(taken.stream());
        let (Some(script), Some(request)) = (&mut self.script, taken.request(&self.spec.requests))
        else {
            return;
        };
        if !script.is_shown_responses() {
            return;
        }
        for response in &responses {
            let view = ResponseView {
                request,
                status: response.status,
                head: &[],
                body: &response.body,
                length: response.length,
            };
            script.show(slot, view, &response.head);
        }
    }

    /// Returns the slot of a user whose pause is over, and the index of the user's request in the
    /// list. Users that precede this user in the list of free slots begin their pauses.
    pub(super) fn take_rested(&mut self, now: Nanos) -> Option<(u32, u32)> {
        for _ in 0..PAUSES_MAX {
            let (slot, request) = self.take_listed()?;
            let pause = self.think_times.as_mut()?.next_pause(slot);
            let Some(until) = pause else {
                self.dispatcher.advance_list(slot);
                let due = self.free_since(slot, now).min(now);
                self.sink.recorder.started_after_pause(due, now);
                return Some((slot, request));
            };
            self.dispatcher.set_away(slot);
            self.timers.think(slot, until);
            // Another user on the same connection may use the free capacity.
            let index = self.dispatcher.slot(slot).connection;
            self.dispatcher.unpark(index, now);
        }
        None
    }

    /// Takes the best slot for the next request of the list, without advancing the list.
    #[inline]
    pub(super) fn take_listed(&mut self) -> Option<(u32, u32)> {
        let has_many_targets = self.targets.count() > 1;
        let view = ConnectionView {
            connections: &self.connections,
            ramp: self.ramp.as_ref(),
        };
        let limit = &mut self.sink.streams_limit;
        let slot = self
            .dispatcher
            .take_slot(self.spec, has_many_targets, view, limit)?;
        Some((slot, self.dispatcher.next_listed(slot)))
    }

    /// Stores the cookies that the complete response to a slot's request sets.
    pub(super) fn store_cookies(&mut self, slot: u32) {
        let now = self.transport.sockets().cached_now();
        let Some(cookies) = &mut self.cookies else {
            return;
        };
        let taken = self.dispatcher.slot(slot);
        let origin = taken
            .request(&self.spec.requests)
            .and_then(|request| request.origin.as_ref());
        let session = self.connections[taken.connection].session();
        let captured = session.and_then(|session| session.carrier.captured(taken.stream()));
        if let (Some(origin), Some(captured)) = (origin, captured) {
            cookies.store(slot, &origin.url, captured.head(), now);
        }
    }
}
