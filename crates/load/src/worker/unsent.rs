//! Corrects counts of sent bytes for requests that finished before all of their bytes were sent.

use prony_protocol::h2;

use super::Worker;
use super::connections::SendState;
use super::dispatcher::RequestPhase;
use crate::carrier::HttpMachine;
use crate::socket::Sockets;

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Subtracts the bytes that were counted as sent for a slot's request but have not been sent.
    /// Must be called before the request is detached from its connection.
    #[inline]
    pub(super) fn take_back_unsent(&mut self, slot: u32) {
        let taken = self.dispatcher.slot(slot);
        if taken.phase() != Some(RequestPhase::InFlight) {
            return;
        }
        let entry = &self.connections[taken.connection];
        if entry.send != SendState::Idle || entry.has_streams() {
            let unsent = self.unsent(slot);
            if let Some(pending) = self.dispatcher.slot_mut(slot).pending_mut() {
                pending.bytes_out = pending.bytes_out.saturating_sub(unsent);
            }
        }
    }

    /// Returns the number of unsent bytes of a slot's request in flight.
    fn unsent(&self, slot: u32) -> u64 {
        let taken = self.dispatcher.slot(slot);
        let index = taken.connection;
        let entry = &self.connections[index];
        let (Some(request), Some(session)) = (taken.request(&self.spec.requests), entry.session())
        else {
            return 0;
        };
        let has_unsent = entry.send != SendState::Idle;
        let h2 = match &session.http {
            HttpMachine::One(_) if !has_unsent => return 0,
            HttpMachine::One(_) => {
                let length = request.bytes.len();
                let unencrypted = session.unencrypted(length) as u64;
                let in_socket = self.sockets.unsent(entry.key(index));
                return (unencrypted + in_socket).min(length as u64);
            }
            HttpMachine::Two(h2) => h2,
            HttpMachine::Three(h3) => return h3.unsent_bytes(taken.stream()),
        };
        let frames = request.frames.as_ref();
        if frames.is_none_or(|frames| frames.body().is_empty()) {
            return 0;
        }
        let body = h2.unsent_body_bytes(taken.stream());
        // With several streams, the bytes in the socket can't be assigned to a stream.
        let is_alone = self.dispatcher.occupancy(index).in_flight == 1;
        let in_socket = if has_unsent && body > 0 && is_alone {
            self.sockets.unsent(entry.key(index))
        } else {
            0
        };
        (h2::data_wire_bytes(body) + in_socket).min(request.bytes_in_frames)
    }
}
