//! The readiness backend: epoll on Linux, kqueue on FreeBSD, through the `polling` crate.
//!
//! Level-triggered: a short read needs no second one to be sure that nothing was left behind, and an
//! end of stream that came together with the last bytes is reported by the next wait. The interest
//! changes twice in a connection's life, from writing to reading when it is made, and around a send
//! that would block.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use polling::{Event, Events, PollMode, Poller};
use prony_record::Nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Close, Completion, Key, Operation, Outgoing, Peer, Sockets};

/// Large enough that a body of 100 KiB comes in one read where the kernel has it.
const RECEIVE_BUFFER: usize = 256 * 1024;

/// See the module and [`Sockets`].
pub(crate) struct PollSockets<'run> {
    poller: Poller,
    events: Events,
    /// Events of the last wait that are not yet worked off, the next one last.
    batch: Vec<Event>,
    /// Completions that did not need an event.
    ready: VecDeque<Completion>,
    connections: Vec<Option<Connection<'run>>>,
    buffer: Box<[u8]>,
    received: usize,
    epoch: Instant,
}

struct Connection<'run> {
    socket: Socket,
    key: Key,
    stage: Stage,
    /// Bytes under way, and how many of them were taken over.
    sending: Option<(Outgoing<'run>, usize)>,
    /// What the poller was last told to report: reading, writing.
    interest: (bool, bool),
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Connecting,
    Open,
    /// The peer has closed its side: nothing more is received.
    HalfClosed,
    /// Nothing more happens.
    Failed,
}

impl<'run> PollSockets<'run> {
    /// A backend for up to `slots` connections, whose time counts from `epoch`.
    ///
    /// # Errors
    ///
    /// Where the system has no poller to give.
    pub(crate) fn new(slots: usize, epoch: Instant) -> io::Result<PollSockets<'run>> {
        let mut connections = Vec::new();
        connections.resize_with(slots, || None);
        Ok(PollSockets {
            poller: Poller::new()?,
            events: Events::new(),
            batch: Vec::new(),
            ready: VecDeque::with_capacity(slots + 16),
            connections,
            buffer: vec![0; RECEIVE_BUFFER].into_boxed_slice(),
            received: 0,
            epoch,
        })
    }

    fn open(&mut self, key: Key, peer: &Peer) -> io::Result<()> {
        let (domain, protocol, address) = match peer {
            Peer::Tcp(address) => (
                Domain::for_address(*address),
                Some(Protocol::TCP),
                SockAddr::from(*address),
            ),
            Peer::Unix(path) => (Domain::UNIX, None, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM, protocol)?;
        socket.set_nonblocking(true)?;
        if matches!(peer, Peer::Tcp(_)) {
            socket.set_tcp_nodelay(true)?;
        }
        let stage = match socket.connect(&address) {
            Ok(()) => Stage::Open,
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Stage::Connecting,
            Err(error) => return Err(error),
        };
        let open = stage == Stage::Open;
        let event = Event::new(event_key(key), open, !open);
        // SAFETY: the socket is kept in `connections` and deleted from the poller in `close` or
        // `drop`, before it is closed.
        unsafe { self.poller.add_with_mode(&socket, event, PollMode::Level)? };
        if open {
            self.ready.push_back(Completion::Connected(key));
        }
        let interest = (open, !open);
        let connection = Connection {
            socket,
            key,
            stage,
            sending: None,
            interest,
        };
        self.connections[key.slot as usize] = Some(connection);
        Ok(())
    }

    fn on_event(&mut self, event: Event) -> Option<Completion> {
        let slot = event.key & u32::MAX as usize;
        let connection = self.connections.get_mut(slot)?.as_mut()?;
        // An event of the same batch may be about the slot's connection before this one.
        if event_key(connection.key) != event.key {
            return None;
        }
        let completion = match connection.stage {
            Stage::Connecting if event.writable => Some(connection.connected()),
            Stage::Connecting | Stage::Failed => None,
            Stage::Open | Stage::HalfClosed => {
                let written = if event.writable {
                    connection.write()
                } else {
                    None
                };
                match written {
                    Some(completion) => Some(completion),
                    None if event.readable && connection.stage == Stage::Open => {
                        let (completion, length) = connection.read(&mut self.buffer);
                        self.received = length;
                        completion
                    }
                    None => None,
                }
            }
        };
        connection.update_interest(&self.poller);
        completion
    }

    fn take(&mut self, key: Key) -> Option<Connection<'run>> {
        let place = self.connections.get_mut(key.slot as usize)?;
        place.take_if(|connection| connection.key == key)
    }
}

/// Tells apart events of a slot's successive connections.
fn event_key(key: Key) -> usize {
    (key.generation as usize) << 32 | key.slot as usize
}

impl Connection<'_> {
    fn connected(&mut self) -> Completion {
        match self.socket.take_error() {
            Ok(None) => {
                self.stage = Stage::Open;
                Completion::Connected(self.key)
            }
            Ok(Some(error)) | Err(error) => self.failed(Operation::Connect, error),
        }
    }

    /// Reads once; gives how many bytes of the buffer are now the completion's.
    fn read(&mut self, buffer: &mut [u8]) -> (Option<Completion>, usize) {
        match self.socket.read(buffer) {
            Ok(0) => {
                self.stage = Stage::HalfClosed;
                (Some(Completion::Closed(self.key)), 0)
            }
            Ok(length) => (Some(Completion::Received(self.key)), length),
            Err(error) if is_passing(&error) => (None, 0),
            Err(error) => (Some(self.failed(Operation::Receive, error)), 0),
        }
    }

    /// Writes what is left; gives a completion when it is all out or has failed.
    fn write(&mut self) -> Option<Completion> {
        let (outgoing, sent) = self.sending.as_mut()?;
        loop {
            let rest = &outgoing.bytes()[*sent..];
            if rest.is_empty() {
                break;
            }
            match self.socket.write(rest) {
                Ok(0) => {
                    let error = io::ErrorKind::WriteZero.into();
                    return Some(self.failed(Operation::Send, error));
                }
                Ok(length) => *sent += length,
                Err(error) if is_passing(&error) => return None,
                Err(error) => return Some(self.failed(Operation::Send, error)),
            }
        }
        let (outgoing, _) = self.sending.take()?;
        let returned = match outgoing {
            Outgoing::Owned(buffer) => Some(buffer),
            Outgoing::Shared(_) => None,
        };
        Some(Completion::Sent(self.key, returned))
    }

    fn failed(&mut self, operation: Operation, error: io::Error) -> Completion {
        self.stage = Stage::Failed;
        self.sending = None;
        Completion::Failed(self.key, operation, error)
    }

    /// Tells the poller what this connection now waits for, if that has changed.
    fn update_interest(&mut self, poller: &Poller) {
        let (reading, writing) = match self.stage {
            Stage::Connecting => (false, true),
            Stage::Open => (true, self.sending.is_some()),
            Stage::HalfClosed => (false, self.sending.is_some()),
            Stage::Failed => (false, false),
        };
        if self.interest != (reading, writing) {
            self.interest = (reading, writing);
            let event = Event::new(event_key(self.key), reading, writing);
            // It can only fail for a socket that was never added.
            let _ = poller.modify_with_mode(&self.socket, event, PollMode::Level);
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl<'run> Sockets<'run> for PollSockets<'run> {
    fn now(&self) -> Nanos {
        Nanos::from(self.epoch.elapsed())
    }

    fn connect(&mut self, key: Key, peer: &Peer) {
        if let Err(error) = self.open(key, peer) {
            self.ready
                .push_back(Completion::Failed(key, Operation::Connect, error));
        }
    }

    fn send(&mut self, key: Key, bytes: Outgoing<'run>) {
        let place = self.connections.get_mut(key.slot as usize);
        let Some(connection) = place.and_then(|c| c.as_mut()).filter(|c| c.key == key) else {
            return;
        };
        connection.sending = Some((bytes, 0));
        if let Some(completion) = connection.write() {
            self.ready.push_back(completion);
        }
        connection.update_interest(&self.poller);
    }

    fn close(&mut self, key: Key, how: Close) {
        self.ready.retain(|completion| completion.key() != key);
        let Some(connection) = self.take(key) else {
            return;
        };
        if how == Close::Abort {
            let _ = connection.socket.set_linger(Some(Duration::ZERO));
        }
        let _ = self.poller.delete(&connection.socket);
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        if !self.ready.is_empty() || !self.batch.is_empty() {
            return Ok(());
        }
        let timeout = Duration::from(until.since(self.now()));
        self.events.clear();
        match self.poller.wait(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        self.batch.extend(self.events.iter());
        // Worked off from the end: the first to be reported is the first to be served.
        self.batch.reverse();
        Ok(())
    }

    fn next(&mut self) -> Option<Completion> {
        self.received = 0;
        if let Some(completion) = self.ready.pop_front() {
            return Some(completion);
        }
        while let Some(event) = self.batch.pop() {
            if let Some(completion) = self.on_event(event) {
                return Some(completion);
            }
        }
        None
    }

    fn received(&self) -> &[u8] {
        &self.buffer[..self.received]
    }
}

impl Drop for PollSockets<'_> {
    fn drop(&mut self) {
        for connection in self.connections.iter().flatten() {
            let _ = self.poller.delete(&connection.socket);
        }
    }
}
