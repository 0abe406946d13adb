//! The connections of a worker: a slab whose entries are reused by successive connections.

use std::ops::{Index, IndexMut};

use prony_record::Nanos;

use crate::carrier::{ConnectionState, H3, HttpFactory, HttpSession, Progress, SharedBuffers};
use crate::expect::Expectations;
use crate::quic::QuicConnection;
use crate::socket::Key;

/// Maximum time in which a server is expected to reject a client's certificate after the handshake.
const REJECTION_TIME_MAX: Nanos = Nanos::from_millis(250);

/// State of the last send on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendState {
    /// No send is in flight, so another may begin.
    Idle,
    /// A send is in flight.
    InFlight,
    /// The send failed. A response, or the reason for the failure, may still arrive.
    Failed,
}

/// One entry of the connection slab, which holds one connection at a time.
pub(super) struct ConnectionEntry {
    pub(super) state: ConnectionState,
    pub(super) send: SendState,
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
    /// Output buffer, unless a send owns it. Its bytes are sent before all other output.
    pub(super) outbox: Vec<u8>,
}

impl ConnectionEntry {
    fn new() -> ConnectionEntry {
        ConnectionEntry {
            state: ConnectionState::Vacant,
            send: SendState::Idle,
            generation: 0,
            fresh_generation: 0,
            target: 0,
            number: 0,
            slot: 0,
            backoff: Nanos::ZERO,
            outbox: Vec::new(),
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

    /// Returns true if the system has sent all bytes of the connection's last send.
    pub(super) fn is_all_sent(&self) -> bool {
        self.send == SendState::Idle
    }

    #[inline]
    pub(super) fn session(&self) -> Option<&HttpSession> {
        self.state.session()
    }

    #[inline]
    pub(super) fn session_mut(&mut self) -> Option<&mut HttpSession> {
        self.state.session_mut()
    }

    /// Returns true if the connection carries several requests at the same time, each on a stream.
    #[inline]
    pub(super) fn has_streams(&self) -> bool {
        self.session()
            .is_some_and(|session| session.http.has_streams())
    }

    /// Returns true if the connection carries requests before the end of its handshake (early
    /// data).
    pub(super) fn is_early(&self) -> bool {
        let session = self.session();
        session.is_some_and(|session| session.http.is_early())
    }

    /// Returns true if the connection is open and the peer announced that it will close it.
    pub(super) fn is_going_away(&self) -> bool {
        match &self.state {
            ConnectionState::Ready(session) => session.http.is_going_away(),
            _ => false,
        }
    }
}

/// A worker's connections and the memory that they share.
pub(super) struct Connections {
    entries: Vec<ConnectionEntry>,
    pub(super) factory: HttpFactory,
    pub(super) buffers: SharedBuffers,
    /// HTTP/2 and HTTP/3 connections that have output to send.
    dirty: Vec<u32>,
    /// Sequence number of the next connection.
    next_number: u32,
}

impl Connections {
    pub(super) fn new(count: u32, factory: HttpFactory) -> Connections {
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
        entry.state = ConnectionState::Connecting { since };
        entry.send = SendState::Idle;
        entry.outbox.clear();
    }

    /// Makes an entry's connection ready for cleartext requests.
    pub(super) fn open_cleartext(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        entry.state.open_cleartext(&mut self.factory);
    }

    /// Makes an entry's connection ready for requests on QUIC streams.
    pub(super) fn open_quic(&mut self, index: u32, quic: &mut QuicConnection) {
        let entry = &mut self.entries[index as usize];
        entry.state.open_quic(&mut self.factory, quic);
    }

    /// Returns the HTTP/3 state of an entry's connection, if the connection uses HTTP/3.
    pub(super) fn h3_mut(&mut self, index: u32) -> Option<&mut H3> {
        let session = self.entries[index as usize].session_mut();
        session.and_then(|session| session.http.h3_mut())
    }

    /// Handles the events of a QUIC connection, and adds the resulting request events to the
    /// buffers.
    pub(super) fn receive_streams(
        &mut self,
        index: u32,
        quic: &mut QuicConnection,
        now: Nanos,
        expected: &Expectations,
    ) -> Progress {
        let state = &mut self.entries[index as usize].state;
        state.receive_streams(quic, now, expected, &mut self.buffers)
    }

    /// Processes bytes from the peer, and adds the completed events to the buffers.
    #[inline]
    pub(super) fn receive(
        &mut self,
        index: u32,
        bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
    ) -> Progress {
        let state = &mut self.entries[index as usize].state;
        state.receive(bytes, now, &mut self.factory, expected, &mut self.buffers)
    }

    /// Returns true if a TLS connection has been open for longer than a server takes to reject a
    /// client's certificate.
    #[cold]
    pub(super) fn has_secured(&self, now: Nanos) -> bool {
        let mut sessions = self.entries.iter().filter_map(ConnectionEntry::session);
        sessions
            .any(|session| session.is_tls() && now.since(session.last_heard) >= REJECTION_TIME_MAX)
    }

    /// Handles the peer's close of a connection. Events that the close completes are added to the
    /// buffers.
    pub(super) fn peer_closed(&mut self, index: u32, expected: &Expectations) -> Progress {
        let state = &mut self.entries[index as usize].state;
        state.peer_closed(expected, &mut self.buffers)
    }

    /// Takes the HTTP/2 output of a connection. `body_of` returns the request body for a stream
    /// number.
    pub(super) fn take_frames<'b>(
        &mut self,
        index: u32,
        body_of: impl FnMut(u32) -> &'b [u8],
    ) -> Vec<u8> {
        let entry = &mut self.entries[index as usize];
        let mut out = std::mem::take(&mut entry.outbox);
        if let Some(session) = entry.state.session_mut() {
            session.take_frames(&mut out, &mut self.buffers, body_of);
        }
        out
    }

    /// Empties an entry. Returns the key of the socket to be closed, or `None` if the entry was
    /// already empty.
    pub(super) fn close(&mut self, index: u32) -> Option<Key> {
        let entry = &mut self.entries[index as usize];
        match entry.state {
            ConnectionState::Vacant | ConnectionState::Backoff => None,
            _ => {
                let key = entry.key(index);
                entry.state.close(&mut self.factory);
                entry.generation = entry.generation.wrapping_add(1);
                Some(key)
            }
        }
    }

    /// Marks an HTTP/2 or HTTP/3 connection as having output to send.
    #[inline]
    pub(super) fn mark_dirty(&mut self, index: u32) {
        if let Some(session) = self.entries[index as usize].state.session_mut()
            && !std::mem::replace(&mut session.is_dirty, true)
        {
            self.dirty.push(index);
        }
    }

    /// Removes and returns a connection that has output to send.
    #[inline]
    pub(super) fn take_dirty(&mut self) -> Option<u32> {
        let index = self.dirty.pop()?;
        if let Some(session) = self.entries[index as usize].state.session_mut() {
            session.is_dirty = false;
        }
        Some(index)
    }

    #[inline]
    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
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
