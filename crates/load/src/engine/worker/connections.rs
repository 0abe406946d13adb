//! The connections of a worker: a slab whose entries are reused by successive connections.

use std::ops::{Index, IndexMut};

use prony_record::Nanos;

use crate::carrier::{
    Carrier, CarrierFactory, ConnectionState, Link, SendState, Session, SharedBuffers,
};
use crate::socket::Key;

/// Maximum time in which a server is expected to reject a client's certificate after the handshake.
const REJECTION_TIME_MAX: Nanos = Nanos::from_millis(250);

/// One entry of the connection slab, which holds one connection at a time.
pub(super) struct ConnectionEntry {
    pub(super) link: Link,
    pub(super) generation: u32,
    /// Generation of the last connection that was opened in this entry before the load began.
    fresh_generation: u32,
    /// The target that the connection leads to.
    pub(super) target: u32,
    /// Sequence number of the connection within its worker, starting at 0. Wraps after 2^32.
    pub(super) number: u32,
    /// The request slot that opened the connection. With HTTP/1, the slot whose request is in
    /// flight.
    pub(super) slot: u32,
    /// Last backoff after a failed connection attempt.
    pub(super) backoff: Nanos,
}

impl ConnectionEntry {
    fn new() -> ConnectionEntry {
        ConnectionEntry {
            link: Link::new(),
            generation: 0,
            fresh_generation: 0,
            target: 0,
            number: 0,
            slot: 0,
            backoff: Nanos::ZERO,
        }
    }

    /// Returns true if the load itself has not opened a connection in this entry yet.
    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.generation == self.fresh_generation
    }

    /// Marks all existing connections as opened before the load began.
    pub(super) fn set_fresh(&mut self) {
        self.fresh_generation = self.generation;
    }

    pub(super) fn key(&self, index: u32) -> Key {
        Key {
            index,
            generation: self.generation,
        }
    }

    #[inline]
    pub(super) fn session(&self) -> Option<&Session> {
        self.link.state.session()
    }

    #[inline]
    pub(super) fn session_mut(&mut self) -> Option<&mut Session> {
        self.link.state.session_mut()
    }

    /// Returns true if the connection carries several exchanges at the same time.
    #[inline]
    pub(super) fn is_multiplexed(&self) -> bool {
        self.session()
            .is_some_and(|session| session.carrier.is_multiplexed())
    }

    /// Returns true if the connection is open, but one side will close it.
    pub(super) fn is_going_away(&self) -> bool {
        match &self.link.state {
            ConnectionState::Ready(session) => {
                session.is_retired || session.carrier.is_going_away()
            }
            _ => false,
        }
    }
}

/// A worker's connections and the memory that they share.
pub(super) struct Connections {
    entries: Vec<ConnectionEntry>,
    pub(super) factory: CarrierFactory,
    pub(super) buffers: SharedBuffers,
    /// Connections whose output is sent together.
    dirty: Vec<u32>,
    /// Sequence number of the next connection.
    next_number: u32,
}

impl Connections {
    pub(super) fn new(count: u32, factory: CarrierFactory) -> Connections {
        Connections {
            entries: (0..count).map(|_| ConnectionEntry::new()).collect(),
            factory,
            buffers: SharedBuffers::default(),
            dirty: Vec::new(),
            next_number: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns true if a key belongs to the current connection of its entry.
    #[inline]
    pub(super) fn is_current(&self, key: Key) -> bool {
        self.entries
            .get(key.index as usize)
            .is_some_and(|entry| entry.generation == key.generation)
    }

    /// Returns the sequence number for a new connection.
    pub(super) fn take_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        number
    }

    /// Starts a connection attempt in an entry, or retries it.
    pub(super) fn begin_connect(&mut self, index: u32, since: Nanos) {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.link.state = ConnectionState::Connecting { since };
        entry.link.send = SendState::Idle;
        entry.link.outbox.clear();
    }

    /// Returns true if a TLS connection has been open for longer than a server takes to reject a
    /// client's certificate.
    #[cold]
    pub(super) fn has_secured(&self, now: Nanos) -> bool {
        let mut sessions = self.entries.iter().filter_map(ConnectionEntry::session);
        sessions.any(|session| {
            let is_old = now.since(session.last_heard) >= REJECTION_TIME_MAX;
            session.is_tls() && (session.served > 0 || is_old)
        })
    }

    /// An entry, and what all connections share.
    #[inline]
    pub(super) fn parts(
        &mut self,
        index: u32,
    ) -> (
        &mut ConnectionEntry,
        &mut CarrierFactory,
        &mut SharedBuffers,
    ) {
        let entry = &mut self.entries[index as usize];
        (entry, &mut self.factory, &mut self.buffers)
    }

    /// Empties an entry. Returns the key of the socket to be closed, or `None` if the entry was
    /// already empty.
    pub(super) fn close(&mut self, index: u32) -> Option<Key> {
        let entry = &mut self.entries[index as usize];
        match entry.link.state {
            ConnectionState::Vacant | ConnectionState::Backoff => None,
            _ => {
                let key = entry.key(index);
                entry.link.state.close(&mut self.factory);
                entry.generation = entry.generation.wrapping_add(1);
                Some(key)
            }
        }
    }

    /// Marks a connection as having output to send.
    #[inline]
    pub(super) fn mark_dirty(&mut self, index: u32) {
        if let Some(session) = self.entries[index as usize].session_mut()
            && !std::mem::replace(&mut session.is_dirty, true)
        {
            self.dirty.push(index);
        }
    }

    /// Removes and returns a connection that has output to send.
    #[inline]
    pub(super) fn take_dirty(&mut self) -> Option<u32> {
        let index = self.dirty.pop()?;
        if let Some(session) = self.entries[index as usize].session_mut() {
            session.is_dirty = false;
        }
        Some(index)
    }
}

impl Index<u32> for Connections {
    type Output = ConnectionEntry;

    #[inline]
    fn index(&self, index: u32) -> &ConnectionEntry {
        &self.entries[index as usize]
    }
}

impl IndexMut<u32> for Connections {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut ConnectionEntry {
        &mut self.entries[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load with 18,000 connections has 18,000 entries. Lower this bound when an entry gets
    /// smaller.
    #[test]
    fn an_entry_takes_few_bytes() {
        let bytes = size_of::<ConnectionEntry>();
        assert!(bytes <= 320, "{bytes} bytes");
    }
}
