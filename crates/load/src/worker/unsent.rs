//! Bytes of requests that were counted as sent and were not, because their exchange ended before.

use prony_protocol::h2;

use super::Worker;
use crate::socket::Sockets;

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Corrects the count of bytes sent for a seat's request, which is about to leave its connection.
    #[inline]
    pub(super) fn take_back_unsent(&mut self, seat: u32) {
        let slot = &self.slots[self.seats[seat as usize].slot as usize];
        if slot.connection.is_multiplexed() {
            self.take_back_frames(seat);
        } else if slot.sending || slot.send_failed {
            self.take_back_bytes(seat);
        }
    }

    #[cold]
    fn take_back_bytes(&mut self, seat: u32) {
        let place = &self.seats[seat as usize];
        let slot = &self.slots[place.slot as usize];
        let Some(request) = place.request(&self.spec.requests) else {
            return;
        };
        let length = request.bytes.len();
        let unencrypted = slot.connection.unencrypted(length) as u64;
        let unsent = unencrypted + self.sockets.unsent(slot.key(place.slot));
        self.take_back(seat, unsent.min(length as u64));
    }

    fn take_back_frames(&mut self, seat: u32) {
        let place = &self.seats[seat as usize];
        let slot = &self.slots[place.slot as usize];
        let (Some(request), Some(multiplexed)) = (
            place.request(&self.spec.requests),
            slot.connection.multiplexed(),
        ) else {
            return;
        };
        let has_body = request
            .frames
            .as_ref()
            .is_some_and(|it| !it.body().is_empty());
        if !has_body {
            return;
        }
        let body = multiplexed.unsent_body_bytes(place.tag());
        let counted = request.bytes_in_frames;
        // Of several streams it is not known whose bytes wait in the socket.
        let in_socket = match (slot.sending || slot.send_failed) && body > 0 && slot.under_way == 1
        {
            true => self.sockets.unsent(slot.key(place.slot)),
            false => 0,
        };
        let unsent = h2::data_wire_bytes(body) + in_socket;
        self.take_back(seat, unsent.min(counted));
    }

    fn take_back(&mut self, seat: u32, unsent: u64) {
        if let Some(pending) = &mut self.seats[seat as usize].pending
            && pending.is_under_way
        {
            pending.bytes_out = pending.bytes_out.saturating_sub(unsent);
        }
    }
}
