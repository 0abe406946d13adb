//! QUIC connections over datagrams, as a backend of the worker.
//!
//! The handshake of QUIC includes TLS, so a connection is `Connected` once it is secured. The
//! worker then reads and writes its streams. See [`StreamSockets`] for the contract.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use prony_record::{Nanos, QuicUse};

use super::datagram::{DatagramEvent, Datagrams};
use super::{
    Close, Completion, Key, Operation, Peer, Route, SocketCounts, Sockets, StreamSockets, WaitBatch,
};
use crate::quic::{DatagramBatch, EarlyData, QuicClient, QuicConnection};

/// Error code that ends a connection without an error (H3_NO_ERROR, RFC 9114 §8.1).
const NO_ERROR: u64 = 0x100;

/// Size of the memory for arriving datagrams, in bytes. Streams refer to it until their bytes are
/// read.
const ARENA_BYTES: usize = 256 * 1024;

/// QUIC over a backend for datagrams.
pub(crate) struct QuicSockets<D> {
    datagrams: D,
    client: QuicClient,
    links: Vec<Option<Box<QuicLink>>>,
    ready: VecDeque<Completion>,
    /// Memory for arriving datagrams. It is reused once no stream refers to it.
    arena: BytesMut,
    /// Connections that may have datagrams to send.
    touched: Vec<Key>,
    /// Total counts of the closed connections.
    closed: QuicUse,
    /// Times at which timers of connections expire. A connection may have several entries.
    timeouts: BinaryHeap<Reverse<(Instant, u32, u32)>>,
}

/// The state of a connection, as the worker knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkPhase {
    /// The handshake is in progress.
    Connecting,
    /// The handshake is in progress, and `Connected` was reported for early data.
    Early,
    /// The connection is established.
    Open,
    /// The connection has failed, and `Failed` was reported.
    Failed,
}

/// One connection and the state of its socket.
struct QuicLink {
    key: Key,
    connection: QuicConnection,
    phase: LinkPhase,
    /// True if the connection is in the list of connections that may have datagrams to send.
    is_touched: bool,
    /// The earliest entry of this connection in `timeouts`.
    armed: Option<Instant>,
    /// The batch that is waiting for space in the socket's buffer.
    blocked: Option<DatagramBatch>,
    /// Bytes of the blocked batch, or an empty buffer.
    out: Vec<u8>,
}

impl<D: Datagrams> QuicSockets<D> {
    /// Creates a backend for up to `capacity` connections.
    pub(crate) fn new(datagrams: D, client: QuicClient, capacity: usize) -> QuicSockets<D> {
        let mut links = Vec::new();
        links.resize_with(capacity, || None);
        QuicSockets {
            datagrams,
            client,
            links,
            ready: VecDeque::new(),
            arena: BytesMut::new(),
            touched: Vec::new(),
            closed: QuicUse::default(),
            timeouts: BinaryHeap::new(),
        }
    }

    /// Returns the backend for datagrams.
    pub(crate) fn datagrams_mut(&mut self) -> &mut D {
        &mut self.datagrams
    }

    fn open(&mut self, key: Key, route: &Route<'_>) -> io::Result<()> {
        let (Peer::Quic(peer), Some(name)) = (route.peer, route.server_name) else {
            // Unreachable, because all targets of a load over QUIC use QUIC.
            return Err(io::ErrorKind::Unsupported.into());
        };
        self.datagrams.open(key, *peer, route)?;
        let now = self.datagrams.instant();
        let connection =
            QuicConnection::connect(&self.client, *peer, name, now).map_err(io::Error::other)?;
        let is_early = connection.early_data() == EarlyData::Offered;
        self.links[key.index as usize] = Some(Box::new(QuicLink {
            key,
            connection,
            phase: LinkPhase::Connecting,
            is_touched: false,
            armed: None,
            blocked: None,
            out: Vec::new(),
        }));
        if is_early {
            self.begin_early(key);
        } else {
            self.touch(key);
        }
        Ok(())
    }

    /// Lets the worker send early data. The first packet of the handshake is sent together with
    /// that data.
    fn begin_early(&mut self, key: Key) {
        if let Some(link) = self.link(key) {
            link.phase = LinkPhase::Early;
            self.ready.push_back(Completion::Connected(key));
        }
    }

    fn link(&mut self, key: Key) -> Option<&mut QuicLink> {
        let link = self.links.get_mut(key.index as usize)?.as_deref_mut()?;
        (link.key == key).then_some(link)
    }

    /// Marks a connection as having something to send.
    fn touch(&mut self, key: Key) {
        if let Some(link) = self.link(key)
            && !std::mem::replace(&mut link.is_touched, true)
        {
            self.touched.push(key);
        }
    }

    /// Sends the pending datagrams of all connections in `touched`.
    fn transmit_all(&mut self) {
        while let Some(key) = self.touched.pop() {
            if let Some(link) = self.link(key) {
                link.is_touched = false;
            }
            self.transmit(key);
        }
    }

    /// Sends the pending datagrams of a connection.
    fn transmit(&mut self, key: Key) {
        let now = self.datagrams.instant();
        let segments_max = self.datagrams.segments_max(key);
        let Some(link) = self
            .links
            .get_mut(key.index as usize)
            .and_then(Option::as_deref_mut)
            .filter(|link| link.key == key)
        else {
            return;
        };
        let mut error = None;
        loop {
            let batch = match link.blocked.take() {
                Some(batch) => batch,
                None => {
                    link.out.clear();
                    match link.connection.transmit(now, segments_max, &mut link.out) {
                        Some(batch) => batch,
                        None => break,
                    }
                }
            };
            match self.datagrams.send(key, &link.out, batch) {
                Ok(true) => {}
                Ok(false) => {
                    link.blocked = Some(batch);
                    break;
                }
                // The unsent datagrams count as lost, so QUIC sends their content again.
                Err(refused) => error = error.or(Some(refused)),
            }
        }
        if let Some(at) = link.connection.timeout()
            && link.armed.is_none_or(|armed| at < armed)
        {
            link.armed = Some(at);
            self.timeouts.push(Reverse((at, key.index, key.generation)));
        }
        if let Some(error) = error {
            self.failed(key, error);
        }
    }

    /// Handles an error that the system reports for a socket. During the handshake, the error means
    /// that the server can't be reached. Later, QUIC decides when a connection is lost.
    fn failed(&mut self, key: Key, error: io::Error) {
        let Some(link) = self.link(key) else {
            return;
        };
        if !link.connection.is_established() && link.phase != LinkPhase::Failed {
            link.phase = LinkPhase::Failed;
            let failed = Completion::Failed(key, Operation::Connect, error);
            self.ready.push_back(failed);
        }
    }

    /// Returns the time left until `until` or the next timer, whichever comes first.
    fn time_until(&self, until: Nanos) -> Duration {
        let time = until.since(self.datagrams.now()).into();
        match self.timeouts.peek() {
            None => time,
            Some(Reverse((at, ..))) => at
                .saturating_duration_since(self.datagrams.instant())
                .min(time),
        }
    }

    /// Handles expired timers. Most of the listed times are obsolete, because the timer was
    /// postponed.
    fn expire(&mut self, now: Instant) {
        while let Some(&Reverse((at, index, generation))) = self.timeouts.peek()
            && at <= now
        {
            self.timeouts.pop();
            let key = Key { index, generation };
            let Some(link) = self.link(key) else {
                continue;
            };
            if link.armed == Some(at) {
                link.armed = None;
            }
            link.connection.expire(now);
            self.touch(key);
            let report = self.report(key);
            self.ready.extend(report);
        }
    }

    /// Returns a completion if the connection has events.
    fn report(&mut self, key: Key) -> Option<Completion> {
        let link = self.link(key)?;
        let before = link.phase;
        match before {
            LinkPhase::Failed => return None,
            LinkPhase::Open => {}
            LinkPhase::Connecting | LinkPhase::Early => {
                if let Err(end) = link.connection.handshake_result()? {
                    link.phase = LinkPhase::Failed;
                    let error = io::Error::other(end);
                    return Some(Completion::Failed(key, Operation::Connect, error));
                }
                link.phase = LinkPhase::Open;
            }
        }
        let has_event = link.connection.has_event();
        match before {
            LinkPhase::Connecting => {
                let received = has_event.then_some(Completion::Received(key));
                self.ready.extend(received);
                Some(Completion::Connected(key))
            }
            LinkPhase::Early => Some(Completion::Received(key)),
            _ => has_event.then_some(Completion::Received(key)),
        }
    }
}

impl<D: Datagrams> Sockets for QuicSockets<D> {
    fn now(&self) -> Nanos {
        self.datagrams.now()
    }

    fn cached_now(&self) -> Nanos {
        self.datagrams.now()
    }

    fn connect(&mut self, key: Key, route: Route<'_>) {
        if let Err(error) = self.open(key, &route) {
            self.datagrams.close(key);
            self.ready
                .push_back(Completion::Failed(key, Operation::Connect, error));
        }
    }

    fn local_address(&self, key: Key) -> Option<SocketAddr> {
        self.datagrams.local_address(key)
    }

    fn close(&mut self, key: Key, _how: Close) {
        // The last message of the handshake is sent before the close. Otherwise, a server that has
        // responded to early data would count the handshake as failed.
        if self
            .link(key)
            .is_some_and(|link| link.connection.owes_handshake())
        {
            self.transmit(key);
        }
        if let Some(link) = self.link(key) {
            link.connection.close(NO_ERROR);
            self.transmit(key);
        }
        let entry = self.links.get_mut(key.index as usize);
        if let Some(link) = entry.and_then(|entry| entry.take_if(|link| link.key == key)) {
            self.closed.merge(&link.connection.counts());
        }
        self.closed.datagrams_dropped += self.datagrams.close(key);
    }

    fn wait_coalesced(&mut self, until: Nanos, batch: WaitBatch) -> io::Result<()> {
        self.transmit_all();
        if self.ready.is_empty() {
            let time = self.time_until(until).min(batch.max_wait.into());
            self.datagrams.gather(time);
        }
        self.wait(until)
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        self.transmit_all();
        if !self.ready.is_empty() {
            return Ok(());
        }
        let time = self.time_until(until);
        self.datagrams.wait(time)?;
        let now = self.datagrams.instant();
        self.expire(now);
        Ok(())
    }

    fn next(&mut self) -> Option<Completion> {
        loop {
            if let Some(completion) = self.ready.pop_front() {
                if self.link(completion.key()).is_some()
                    || matches!(completion, Completion::Failed(..))
                {
                    return Some(completion);
                }
                continue;
            }
            match self.datagrams.next()? {
                DatagramEvent::Received(key) => {
                    let now = self.datagrams.instant();
                    let link = self.links.get_mut(key.index as usize);
                    let link = link.and_then(Option::as_deref_mut);
                    let Some(link) = link.filter(|link| link.key == key) else {
                        continue;
                    };
                    loop {
                        let received = self.datagrams.received();
                        let (segment_bytes, ecn) = (received.segment_bytes, received.ecn);
                        if self.arena.capacity() < received.bytes.len() {
                            self.arena.reserve(ARENA_BYTES);
                        }
                        self.arena.extend_from_slice(received.bytes);
                        let bytes = self.arena.split();
                        link.connection.receive(bytes, segment_bytes, ecn, now);
                        if !self.datagrams.next_received() {
                            break;
                        }
                    }
                    self.touch(key);
                    if let Some(completion) = self.report(key) {
                        return Some(completion);
                    }
                }
                DatagramEvent::Writable(key) => self.touch(key),
                DatagramEvent::Failed(key, error) => self.failed(key, error),
            }
        }
    }

    fn counts(&self) -> SocketCounts {
        let (send_calls, receive_calls) = self.datagrams.calls();
        SocketCounts {
            quic: Some(QuicUse {
                send_calls,
                receive_calls,
                ..self.closed.clone()
            }),
            ..SocketCounts::default()
        }
    }
}

impl<D: Datagrams> StreamSockets for QuicSockets<D> {
    fn streams(&mut self, key: Key) -> Option<&mut QuicConnection> {
        self.touch(key);
        self.link(key).map(|link| &mut link.connection)
    }

    fn flush(&mut self) {
        self.transmit_all();
    }
}
