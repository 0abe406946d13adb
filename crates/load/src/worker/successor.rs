//! Handles the end of connections, and the successor connections that replace them. A successor is
//! used when a peer accepts no more requests on a connection that has some in flight (GOAWAY).

use prony_record::Nanos;

use super::Worker;
use super::ramp::ConnectRamp;
use crate::carrier::Transport;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Moves the idle slots of a connection whose peer accepts no more requests to the successor
    /// connection. If the successor is still closing, the slots wait.
    pub(super) fn use_successor_if_going_away(&mut self, index: u32, now: Nanos) {
        let entry = &self.connections[index];
        let successor = self.dispatcher.successor(index);
        let Some(successor) = successor.filter(|_| entry.is_going_away()) else {
            return;
        };
        if !self.dispatcher.occupancy(index).uses_successor {
            if !self.connections[successor].link.state.is_vacant() {
                return;
            }
            let target = entry.target;
            self.dispatcher.occupancy_mut(index).uses_successor = true;
            self.connections[successor].target = target;
        }
        let occupancy = self.dispatcher.occupancy(index);
        if occupancy.waiting + occupancy.parked > 0 {
            self.move_to_successor(index, successor, now);
        }
    }

    fn move_to_successor(&mut self, index: u32, successor: u32, now: Nanos) {
        self.dispatcher.move_to_successor(index, successor);
        if self.connections[successor].link.state.is_vacant() {
            self.vacated(successor, now);
        } else {
            self.fill(successor, now);
        }
    }

    /// Updates the dispatcher after the end of a connection. Slots that are waiting for the
    /// connection get another one, unless their requests are held.
    pub(super) fn vacated(&mut self, index: u32, now: Nanos) {
        let is_held = |ramp: &ConnectRamp| ramp.is_held(index);
        if self.ramp.as_ref().is_some_and(is_held) {
            return;
        }
        let occupancy = self.dispatcher.occupancy_mut(index);
        if std::mem::take(&mut occupancy.uses_successor)
            && let Some(successor) = self.dispatcher.successor(index)
        {
            self.move_to_successor(index, successor, now);
            // The successor may have waited for this connection to end.
            self.use_successor_if_going_away(successor, now);
            return;
        }
        if self.dispatcher.occupancy(index).waiting > 0 {
            self.connect(index, now);
        }
        self.dispatcher.unpark(index, now);
    }
}
