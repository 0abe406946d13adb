//! Requests whose target differs from their connection's target, and requests whose host is being
//! looked up.
//!
//! A slot keeps its connection, and a connection has one target at a time. A request to another
//! target is therefore deferred until all other requests on the connection have finished. In the
//! meantime, no request begins on the connection.

use prony_record::{Nanos, Outcome};

use super::Worker;
use super::dispatcher::RequestPhase;
use crate::carrier::{ConnectionState, Transport};
use crate::socket::Close;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Resumes the deferred requests that can proceed.
    pub(super) fn resume_deferred(&mut self, now: Nanos) {
        if let Some(redirects) = &mut self.redirects {
            redirects.is_looking_up = false;
        }
        let mut position = 0;
        while let Some(slot) = self.dispatcher.deferred_at(position) {
            if self.resume(slot, now) {
                self.dispatcher.remove_deferred(position);
            } else {
                position += 1;
            }
        }
    }

    /// Resumes a slot's deferred request if it can proceed. Returns true if it is no longer
    /// deferred.
    fn resume(&mut self, slot: u32, now: Nanos) -> bool {
        match self.poll_lookup(slot, now) {
            Ok(false) => {}
            Ok(true) => {
                if let Some(redirects) = &mut self.redirects {
                    redirects.is_looking_up = true;
                }
                return false;
            }
            Err(reason) => {
                self.record_end(slot, Outcome::Redirect, Some(&reason), now);
                self.dispatcher.set_free(slot, now);
                self.unpark_after_deferral(slot, now);
                return true;
            }
        }
        let taken = self.dispatcher.slot(slot);
        let index = taken.connection;
        let is_deferred = taken.phase() == Some(RequestPhase::Deferred);
        let request = taken.request(&self.spec.requests);
        let Some(request) = request.filter(|_| is_deferred) else {
            // The request had already timed out while it was deferred.
            self.unpark_after_deferral(slot, now);
            return true;
        };
        let target = request.target;
        if self.is_idle(index) {
            self.dispatcher.end_deferral(slot);
            self.switch_target(index, target, now);
            return true;
        }
        let entry = &self.connections[index];
        let joins = matches!(entry.link.state, ConnectionState::Connecting { .. });
        if joins && entry.target == target {
            self.dispatcher.end_deferral(slot);
            return true;
        }
        false
    }

    /// Returns true if an entry could connect to another target now.
    fn is_idle(&self, index: u32) -> bool {
        let occupancy = self.dispatcher.occupancy(index);
        let state = &self.connections[index].link.state;
        let ramp = self.ramp.as_ref();
        occupancy.waiting + occupancy.in_flight == 0
            && (state.is_vacant() || state.is_ready())
            && !ramp.is_some_and(|ramp| ramp.is_held(index))
    }

    /// Replaces an idle connection with one to another target.
    fn switch_target(&mut self, index: u32, target: u32, now: Nanos) {
        if self.connections[index].link.state.is_ready() {
            self.sink.closed_for_other_target(now);
        }
        self.close(index, Close::Abort);
        self.connections[index].target = target;
        self.connect(index, now);
    }

    /// Makes a connection available for requests again if its last deferred request has finished.
    fn unpark_after_deferral(&mut self, slot: u32, now: Nanos) {
        let index = self.dispatcher.slot(slot).connection;
        if self.dispatcher.occupancy(index).deferred == 0 {
            self.dispatcher.unpark(index, now);
        }
    }
}
