//! What goes before a connection's first bytes: the header of the PROXY protocol, which says for whom
//! the connection was made, and shares a send with them; and who is counted as the connection's source.

use prony_record::Outcome;

use super::Worker;
use crate::proxy::Begun;
use crate::socket::{Outgoing, Sending, Sockets};
use crate::source::Turn;

/// Of a request in clear so much at most shares a send with the header; the rest is sent from where
/// it lies.
const ALONG: usize = 16 * 1024;

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Whose turn it is on a slot's present connection: workers take turns, with connections as with
    /// virtual users.
    pub(super) fn turn(&self, index: u32) -> Turn {
        let among_all = |number: u32| u64::from(number) * self.share.of + self.share.worker;
        Turn {
            connection: among_all(self.slots[index as usize].number),
            user: among_all(index % self.homes),
            seed: self.spec.seed,
        }
    }

    /// The place among the sources counted of that which a slot's connection has.
    fn place(&self, index: u32) -> Option<u64> {
        let target = self.slots[index as usize].target;
        let peer = &self.targets[target as usize].peer;
        self.spec.sources.place(peer, self.turn(index))
    }

    /// A connection was opened in the measured part.
    pub(super) fn count_connection(&mut self, index: u32) {
        if self.sources.is_counting()
            && let Some(place) = self.place(index)
        {
            self.sources.connected(place);
        }
    }

    /// A request that belongs to the measured part ended on a slot's connection.
    #[inline]
    pub(super) fn count_request(&mut self, index: u32, outcome: Outcome) {
        if self.sources.is_counting()
            && let Some(place) = self.place(index)
        {
            self.sources.ended(place, outcome);
        }
    }

    /// Puts the header of a connection that stands where it goes before all else.
    pub(super) fn tell(&mut self, index: u32) {
        let Some(proxy) = self.spec.sources.proxy() else {
            return;
        };
        let turn = self.turn(index);
        let slot = &mut self.slots[index as usize];
        let target = &self.targets[slot.target as usize];
        let local = match proxy.tells_others() {
            true => None,
            false => self.sockets.local_address(slot.key(index)),
        };
        let begun = Begun::to(target, local);
        proxy.write(begun, turn, self.spec.sources.order(), &mut slot.spare);
    }

    /// Sends the header, and with it a request in clear, or its beginning.
    pub(super) fn send_told(&mut self, index: u32, request: &[u8]) {
        let mut out = std::mem::take(&mut self.slots[index as usize].spare);
        out.extend_from_slice(&request[..request.len().min(ALONG)]);
        self.send_owned(index, out);
    }

    /// In clear only the header is sent from a buffer, and with it the beginning of a request: sends
    /// what that left, if anything.
    pub(super) fn send_rest(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let place = &self.seats[slot.seat as usize];
        // One of a script's own was sent whole.
        let pending = place.pending.as_ref().filter(|_| place.own.is_none());
        let Some(pending) = pending.filter(|pending| pending.is_under_way) else {
            return;
        };
        let request = &self.spec.requests[pending.request as usize].bytes;
        let rest = request.get(ALONG..).unwrap_or_default();
        if !rest.is_empty() && !slot.send_failed {
            let key = slot.key(index);
            let sending = self.sockets.send(key, Outgoing::Shared(rest));
            slot.sending = sending == Sending::InFlight;
        }
    }
}
