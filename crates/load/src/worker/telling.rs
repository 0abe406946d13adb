//! What goes before a connection's first bytes: the header of the PROXY protocol, which says for whom
//! the connection was made. It shares a send with them, so that a server finds both at once.

use super::Worker;
use crate::proxy::Begun;
use crate::socket::{Outgoing, Sending, Sockets};
use crate::source::Turn;

/// Of a request in clear so much at most shares a send with the header; the rest is sent from where
/// it lies.
const ALONG: usize = 16 * 1024;

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Whose turn it is on a slot's present connection.
    pub(super) fn turn(&self, index: u32) -> Turn {
        let number = self.slots[index as usize].number;
        let workers = u64::from(self.spec.threads);
        // A worker has each number that leaves the same remainder, of connections as of users.
        let home = u64::from(index % self.homes);
        Turn {
            connection: number,
            user: home * workers + number % workers,
            seed: self.spec.seed,
        }
    }

    /// The slot's buffer: empty, or with the header where that is still to be sent.
    pub(super) fn take_buffer(&mut self, index: u32) -> Vec<u8> {
        let slot = &mut self.slots[index as usize];
        let mut out = std::mem::take(&mut slot.spare);
        out.clear();
        if std::mem::take(&mut slot.is_untold)
            && let Some(proxy) = self.spec.sources.proxy()
        {
            let target = &self.spec.targets[slot.target as usize];
            let local = match proxy.tells_others() {
                true => None,
                false => self.sockets.local_address(slot.key(index)),
            };
            let begun = Begun::to(target, local);
            let order = self.spec.sources.order();
            proxy.write(begun, self.turn(index), order, &mut out);
        }
        out
    }

    /// Sends the header, and with it a request in clear, or its beginning.
    pub(super) fn send_told(&mut self, index: u32, request: &[u8]) {
        let mut out = self.take_buffer(index);
        out.extend_from_slice(&request[..request.len().min(ALONG)]);
        self.send_owned(index, out);
    }

    /// In clear only the header is sent from a buffer, and with it the beginning of a request: sends
    /// what that left, if anything.
    pub(super) fn send_rest(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let pending = self.seats[slot.seat as usize].pending.as_ref();
        let Some(pending) = pending.filter(|pending| pending.is_under_way) else {
            return;
        };
        let request = &self.spec.requests[pending.request as usize].bytes;
        let rest = request.get(ALONG..).unwrap_or_default();
        if !rest.is_empty() && !slot.send_failed {
            let key = slot.key(index);
            let sending = self.sockets.send(key, Outgoing::Shared(rest));
            slot.sending = sending == Sending::UnderWay;
        }
    }
}
