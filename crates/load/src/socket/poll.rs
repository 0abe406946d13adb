//! The readiness backend: each operation is performed once the poller reports that its socket is
//! ready.
//!
//! Events are level-triggered. After a short read, no second read is needed to prove that nothing
//! is left. If the end of the stream arrives with the last bytes, the next wait reports it. A
//! connection's interest changes from writing to reading when it is established, and around a send
//! that would block.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use prony_record::Nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::poller::{Interest, ReadyEvent, SocketPoller};
use super::{
    ByteSockets, Close, Completion, Key, Operation, Outgoing, Peer, Route, Sending, Sockets,
    WaitBatch, local, system,
};

/// Size of the receive buffer. It is large enough for a single read to return a body of 100 KiB.
const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;

/// The readiness backend. See [`Sockets`].
pub(crate) struct PollSockets<'run> {
    poller: SocketPoller,
    /// Completions that did not result from an event of the poller.
    ready: VecDeque<Completion>,
    /// The key of the open connection at each index. A connection has a key even if its socket
    /// could not be created.
    live: Vec<Option<Key>>,
    connections: Vec<Option<PollConnection<'run>>>,
    buffer: Box<[u8]>,
    received: usize,
    epoch: Instant,
}

struct PollConnection<'run> {
    socket: Socket,
    key: Key,
    stage: PollStage,
    /// The send in flight, and the number of its bytes that the system has accepted.
    sending: Option<(Outgoing<'run>, usize)>,
    /// Number of bytes in a failed send that the system had not accepted.
    unsent: usize,
    /// The interest that is registered with the poller.
    interest: Interest,
}

#[derive(Clone, Copy, PartialEq)]
enum PollStage {
    Connecting,
    Open,
    /// The peer has closed its side. Nothing more is received.
    HalfClosed,
    /// The connection has failed. No more completions follow.
    Failed,
}

/// Interest of a failed socket. Such a socket is not registered, because the poller would keep
/// reporting its errors.
const NO_INTEREST: Interest = Interest {
    reading: false,
    writing: false,
};

impl<'run> PollSockets<'run> {
    /// Creates a backend for up to `capacity` connections. Its clock starts now, unless
    /// [`PollSockets::start_clock`] sets another start.
    ///
    /// # Errors
    ///
    /// The system can't create a poller.
    pub(crate) fn new(capacity: usize) -> io::Result<PollSockets<'run>> {
        let mut connections = Vec::new();
        connections.resize_with(capacity, || None);
        Ok(PollSockets {
            poller: SocketPoller::new()?,
            ready: VecDeque::with_capacity(capacity + 16),
            live: vec![None; capacity],
            connections,
            buffer: vec![0; RECEIVE_BUFFER_BYTES].into_boxed_slice(),
            received: 0,
            epoch: Instant::now(),
        })
    }

    /// Starts the clock at `epoch`, which all workers of a load share.
    pub(crate) fn start_clock(&mut self, epoch: Instant) {
        self.epoch = epoch;
    }

    fn open(&mut self, key: Key, route: Route<'_>) -> io::Result<()> {
        let (domain, protocol, address) = match route.peer {
            Peer::Tcp(address) => (
                Domain::for_address(*address),
                Some(Protocol::TCP),
                SockAddr::from(*address),
            ),
            Peer::Unix(path) => (Domain::UNIX, None, SockAddr::unix(path)?),
            Peer::Quic(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), protocol)?;
        if route.nodelay && protocol.is_some() {
            socket.set_tcp_nodelay(true)?;
        }
        if let (Some(bytes), true) = (route.buffers, protocol.is_some()) {
            local::size_buffers(&socket, bytes)?;
        }
        if let Some(source) = route.source {
            local::bind_to_source(&socket, source)?;
        }
        let stage = match socket.connect(&address) {
            Ok(()) => PollStage::Open,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => PollStage::Connecting,
            Err(error) => return Err(error),
        };
        let connection = PollConnection {
            socket,
            key,
            stage,
            sending: None,
            unsent: 0,
            interest: NO_INTEREST,
        };
        if stage == PollStage::Open {
            self.ready.push_back(Completion::Connected(key));
        }
        self.connections[key.index as usize] = Some(connection);
        self.update_interest_at(key.index as usize);
        Ok(())
    }

    fn on_event(&mut self, event: ReadyEvent) -> Option<Completion> {
        let index = event.key.index as usize;
        let connection = self.connections.get_mut(index)?.as_mut()?;
        // The event may concern an earlier connection with the same index.
        if connection.key != event.key {
            return None;
        }
        let completion = match connection.stage {
            PollStage::Connecting if event.writable => Some(connection.connected()),
            PollStage::Connecting | PollStage::Failed => None,
            PollStage::Open | PollStage::HalfClosed => {
                let written = if event.writable {
                    connection.write()
                } else {
                    None
                };
                match written {
                    Some(completion) => Some(completion),
                    None if event.readable && connection.stage == PollStage::Open => {
                        let (completion, length) = connection.read(&mut self.buffer);
                        self.received = length;
                        completion
                    }
                    None => None,
                }
            }
        };
        self.update_interest_at(index);
        completion
    }

    /// Registers a connection's current interest with the poller.
    fn update_interest_at(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        if let Err(error) = connection.update_interest(&self.poller) {
            // The poller accepts no more sockets, so it would never report an event of this
            // connection.
            let operation = match connection.stage {
                PollStage::Connecting => Operation::Connect,
                _ => Operation::Receive,
            };
            let failed = connection.failed(operation, error);
            self.ready.push_back(failed);
        }
    }

    fn is_live(&self, key: Key) -> bool {
        self.live.get(key.index as usize) == Some(&Some(key))
    }
}

impl<'run> PollConnection<'run> {
    fn connected(&mut self) -> Completion {
        match self.socket.take_error() {
            Ok(None) => {
                self.stage = PollStage::Open;
                Completion::Connected(self.key)
            }
            Ok(Some(error)) | Err(error) => self.failed(Operation::Connect, error),
        }
    }

    /// Begins a send. Also returns a completion if the send fails immediately, or if a send of
    /// owned bytes is already complete.
    fn send(&mut self, bytes: Outgoing<'run>) -> (Sending, Option<Completion>) {
        self.sending = Some((bytes, 0));
        match self.write() {
            Some(Completion::Sent(_, None)) => (Sending::Done, None),
            completion => (Sending::InFlight, completion),
        }
    }

    /// Reads once. Returns the number of bytes in the buffer that belong to the completion.
    fn read(&mut self, buffer: &mut [u8]) -> (Option<Completion>, usize) {
        match self.socket.read(buffer) {
            Ok(0) => {
                self.stage = PollStage::HalfClosed;
                (Some(Completion::Closed(self.key)), 0)
            }
            Ok(length) => (Some(Completion::Received(self.key)), length),
            Err(error) if is_transient(&error) => (None, 0),
            Err(error) => (Some(self.failed(Operation::Receive, error)), 0),
        }
    }

    /// Writes the remaining bytes. Returns a completion when all are written or writing has failed.
    fn write(&mut self) -> Option<Completion> {
        let (outgoing, sent) = self.sending.as_mut()?;
        loop {
            let rest = &outgoing.bytes()[*sent..];
            if rest.is_empty() {
                break;
            }
            let error = match self.socket.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(length) => {
                    *sent += length;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => error,
            };
            self.lose_sending();
            return Some(Completion::Failed(self.key, Operation::Send, error));
        }
        let (outgoing, _) = self.sending.take()?;
        let returned = match outgoing {
            Outgoing::Owned(buffer) => Some(buffer),
            Outgoing::Shared(_) => None,
        };
        Some(Completion::Sent(self.key, returned))
    }

    fn failed(&mut self, operation: Operation, error: io::Error) -> Completion {
        self.stage = PollStage::Failed;
        self.lose_sending();
        Completion::Failed(self.key, operation, error)
    }

    /// Ends the send in flight, and counts the rest of its bytes as unsent.
    fn lose_sending(&mut self) {
        self.unsent = self.unsent();
        self.sending = None;
    }

    fn unsent(&self) -> usize {
        match &self.sending {
            Some((outgoing, sent)) => outgoing.bytes().len() - sent,
            None => self.unsent,
        }
    }

    /// Registers this connection's interest with the poller if it has changed.
    fn update_interest(&mut self, poller: &SocketPoller) -> io::Result<()> {
        let wanted = Interest {
            reading: self.stage == PollStage::Open,
            writing: match self.stage {
                PollStage::Connecting => true,
                PollStage::Open | PollStage::HalfClosed => self.sending.is_some(),
                PollStage::Failed => false,
            },
        };
        if self.interest == wanted {
            return Ok(());
        }
        if self.interest == NO_INTEREST {
            poller.add(&self.socket, self.key, wanted)?;
        } else if wanted == NO_INTEREST {
            poller.remove(&self.socket);
        } else {
            poller.modify(&self.socket, self.key, wanted)?;
        }
        self.interest = wanted;
        Ok(())
    }

    /// Removes the socket from the poller. Call it before the socket is closed.
    fn forget(&self, poller: &SocketPoller) {
        if self.interest != NO_INTEREST {
            poller.remove(&self.socket);
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl Sockets for PollSockets<'_> {
    fn now(&self) -> Nanos {
        Nanos::from(self.epoch.elapsed())
    }

    /// Reads the clock, because that is cheap compared with the system call that every completion
    /// requires.
    fn cached_now(&self) -> Nanos {
        self.now()
    }

    fn connect(&mut self, key: Key, route: Route<'_>) {
        self.live[key.index as usize] = Some(key);
        if let Err(error) = self.open(key, route) {
            self.ready
                .push_back(Completion::Failed(key, Operation::Connect, error));
        }
    }

    fn local_address(&self, key: Key) -> Option<SocketAddr> {
        let connection = self.connections.get(key.index as usize)?.as_ref()?;
        let is_this = connection.key == key;
        let address = is_this.then(|| connection.socket.local_addr())?.ok()?;
        address.as_socket()
    }

    fn close(&mut self, key: Key, how: Close) {
        if !self.is_live(key) {
            return;
        }
        let index = key.index as usize;
        self.live[index] = None;
        let Some(connection) = self.connections[index].take() else {
            return;
        };
        if how == Close::Abort {
            let _ = connection.socket.set_linger(Some(Duration::ZERO));
        }
        connection.forget(&self.poller);
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        if !self.ready.is_empty() {
            return Ok(());
        }
        self.poller.wait(until.since(self.now()).into())
    }

    /// First sleeps without watching the sockets. Bytes that arrive during this sleep cause no
    /// wake-up, which saves work on both sides.
    fn wait_coalesced(&mut self, until: Nanos, batch: WaitBatch) -> io::Result<()> {
        if self.ready.is_empty() && !self.poller.has_events() {
            let time = until.since(self.now()).min(batch.max_wait);
            system::sleep_precisely(time.into());
        }
        self.wait(until)
    }

    fn next(&mut self) -> Option<Completion> {
        self.received = 0;
        while let Some(completion) = self.ready.pop_front() {
            if self.is_live(completion.key()) {
                return Some(completion);
            }
        }
        while let Some(event) = self.poller.next() {
            if let Some(completion) = self.on_event(event) {
                return Some(completion);
            }
        }
        None
    }
}

impl<'run> ByteSockets<'run> for PollSockets<'run> {
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending {
        let index = key.index as usize;
        let entry = self.connections.get_mut(index).and_then(|c| c.as_mut());
        let Some(connection) = entry.filter(|connection| connection.key == key) else {
            return Sending::Done;
        };
        let (sending, completion) = connection.send(bytes);
        self.ready.extend(completion);
        self.update_interest_at(index);
        sending
    }

    fn unsent(&self, key: Key) -> u64 {
        let connection = self.connections.get(key.index as usize);
        let connection = connection.and_then(Option::as_ref);
        connection
            .filter(|connection| connection.key == key)
            .map_or(0, |connection| {
                connection.unsent() as u64 + system::unsent_in_kernel(&connection.socket)
            })
    }

    fn acknowledge(&mut self, key: Key) -> bool {
        let connection = self.connections.get(key.index as usize);
        let connection = connection.and_then(Option::as_ref);
        connection.is_some_and(|it| it.key == key && system::acknowledge(&it.socket))
    }

    fn received(&self) -> &[u8] {
        &self.buffer[..self.received]
    }
}

impl Drop for PollSockets<'_> {
    fn drop(&mut self) {
        for connection in self.connections.iter().flatten() {
            connection.forget(&self.poller);
        }
    }
}
