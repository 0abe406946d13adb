//! The completion backend: io_uring, on Linux 6.1 and later.
//!
//! Operations are written into the submission queue and handed over in batches, at the latest with
//! the next wait. A connection's receive is armed once and completes for each arrival
//! (multishot), into [`buffers`]. The kernel's own work on completions is done within the wait and
//! nowhere else (DEFER_TASKRUN), which spares interrupts and keeps the order.

mod buffers;
mod connection;
mod operation;
mod ring;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::time::Instant;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode};
use prony_record::Nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    Close, Completion, Key, Operation, Outgoing, Peer, Route, Sending, Sockets, local, system,
};
use buffers::Buffers;
use connection::{Connection, Handle, LONGEST_SEND, Stage};
use operation::{Kind, error_of, is_of, is_passing, kind_of, quiet, slot_of, user_data};
use ring::Ring;

/// See the module and [`Sockets`].
pub(crate) struct UringSockets<'run> {
    // Dropped in this order: the kernel lets go of the buffers with the ring.
    ring: Ring,
    buffers: Buffers,
    /// Completions that did not come through the ring.
    ready: VecDeque<Completion>,
    connections: Vec<Option<Connection<'run>>>,
    /// Ciphertext of connections that ended while the kernel was still sending it, by user data.
    orphans: HashMap<u64, Outgoing<'run>>,
    /// Where the connects' addresses lie, as the kernel reads them when they are handed over.
    addresses: HashMap<SocketAddr, Box<SockAddr>>,
    /// The kernel keeps a table of sockets for this ring.
    has_table: bool,
    received: Range<usize>,
    /// The buffer that is given back once `received` was read.
    used_up: Option<u16>,
}

impl<'run> UringSockets<'run> {
    /// A backend for up to `slots` connections, to be used by the calling thread alone. Its clock
    /// starts now, or with [`UringSockets::start_clock`].
    ///
    /// # Errors
    ///
    /// Where the kernel has no io_uring, forbids it, or lacks something that this backend needs.
    pub(crate) fn new(slots: usize) -> io::Result<UringSockets<'run>> {
        let ring = Ring::new(slots)?;
        let buffers = Buffers::register(ring.registry())?;
        let submitter = ring.registry().submitter();
        let has_table =
            u32::try_from(slots).is_ok_and(|slots| submitter.register_files_sparse(slots).is_ok());
        let mut connections = Vec::new();
        connections.resize_with(slots, || None);
        Ok(UringSockets {
            ring,
            buffers,
            ready: VecDeque::new(),
            connections,
            orphans: HashMap::new(),
            addresses: HashMap::new(),
            has_table,
            received: 0..0,
            used_up: None,
        })
    }

    /// Time counts from `epoch`, which all workers of a load share.
    pub(crate) fn start_clock(&mut self, epoch: Instant) {
        self.ring.start_clock(epoch);
    }

    /// The connection of a key, if it still lives.
    fn connection(&mut self, key: Key) -> Option<&mut Connection<'run>> {
        let place = self.connections.get_mut(key.slot as usize)?.as_mut();
        place.filter(|connection| connection.key == key)
    }

    /// The key that an operation belongs to, if that connection still lives.
    fn live_key(&self, user_data: u64) -> Option<Key> {
        let key = self.connections.get(slot_of(user_data))?.as_ref()?.key;
        is_of(user_data, key).then_some(key)
    }

    fn push(&mut self, entries: &[Entry]) {
        // SAFETY: requests outlive the run; owned buffers are kept in their connection and then
        // among the orphans until their completion; addresses stay.
        if !unsafe { self.ring.push(entries) } {
            self.refuse(entries);
        }
    }

    /// The kernel took nothing over and the queue is full: what was wanted has failed.
    #[cold]
    fn refuse(&mut self, entries: &[Entry]) {
        for entry in entries {
            let operation = match kind_of(entry.get_user_data()) {
                Kind::Connect => Operation::Connect,
                Kind::Send | Kind::QuietSend => Operation::Send,
                Kind::Receive => Operation::Receive,
                Kind::Alarm | Kind::Other => continue,
            };
            if let Some(key) = self.live_key(entry.get_user_data()) {
                let error = io::Error::from_raw_os_error(libc::ENOBUFS);
                self.ready
                    .push_back(Completion::Failed(key, operation, error));
            }
        }
    }

    fn open(&mut self, key: Key, route: Route<'_>, first: Option<&'run [u8]>) -> io::Result<()> {
        match route.peer {
            Peer::Tcp(address) => {
                let socket = Socket::new(
                    Domain::for_address(*address),
                    Type::STREAM,
                    Some(Protocol::TCP),
                )?;
                if route.sends_in_a_row {
                    socket.set_tcp_nodelay(true)?;
                }
                if let Some(source) = route.source {
                    local::leave_from(&socket, source)?;
                }
                self.connect_tcp(key, socket, *address, first, route.is_kept);
            }
            Peer::Unix(path) => {
                let socket = connected_unix(path)?;
                self.install(key, socket, Stage::Open, route.is_kept);
                self.fix(key);
                self.receive(key);
                let sending = match first {
                    Some(first) => self.send(key, Outgoing::Shared(first)),
                    None => Sending::Done,
                };
                self.ready.push_back(Completion::Connected(key, sending));
            }
        }
        Ok(())
    }

    fn connect_tcp(
        &mut self,
        key: Key,
        socket: Socket,
        address: SocketAddr,
        first: Option<&'run [u8]>,
        is_kept: bool,
    ) {
        let descriptor = Fd(socket.as_raw_fd());
        self.install(key, socket, Stage::Connecting, is_kept);
        let raw = self
            .addresses
            .entry(address)
            .or_insert_with(|| Box::new(SockAddr::from(address)));
        let connect = opcode::Connect::new(descriptor, raw.as_ptr().cast(), raw.len())
            .build()
            .user_data(user_data(Kind::Connect, key));
        let Some(first) = first else {
            self.push(&[connect]);
            return;
        };
        if let Some(connection) = self.connection(key) {
            let (send, _) = connection.begin_send(Outgoing::Shared(first));
            self.push(&[connect.flags(Flags::IO_LINK), send]);
        }
    }

    fn install(&mut self, key: Key, socket: Socket, stage: Stage, is_kept: bool) {
        self.connections[key.slot as usize] = Some(Connection {
            socket,
            key,
            stage,
            handle: match is_kept && self.has_table {
                true => Handle::ToBeFixed,
                false => Handle::Descriptor,
            },
            receiving: false,
            sending: None,
        });
    }

    /// Enters a connection that will be kept in the ring's table.
    fn fix(&mut self, key: Key) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        if connection.handle != Handle::ToBeFixed {
            return;
        }
        let descriptor = [connection.socket.as_raw_fd()];
        // The slot's last connection may still have to be taken out.
        self.ring.submit();
        let entered = self
            .ring
            .registry()
            .submitter()
            .register_files_update(key.slot, &descriptor);
        if let Some(connection) = self.connection(key) {
            connection.handle = match entered {
                Ok(1) => Handle::Fixed,
                // It goes on as it was.
                _ => Handle::Descriptor,
            };
        }
    }

    /// Arms the connection's receive.
    fn receive(&mut self, key: Key) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        connection.receiving = true;
        let entry = connection.receive_entry();
        self.push(&[entry]);
    }

    fn on_entry(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let (data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        let kind = kind_of(data);
        let taken = match u32::try_from(result) {
            Ok(length) => self.buffers.taken(length, flags),
            Err(_) => None,
        };
        if let Some((_, used_up)) = &taken {
            self.used_up = *used_up;
        }
        let Some(key) = self.live_key(data) else {
            if kind == Kind::Send {
                self.orphans.remove(&data);
            }
            return None;
        };
        match kind {
            Kind::Connect => Some(self.connected(key, result)),
            Kind::Send => self.sent(key, result),
            Kind::Receive => {
                let more = cqueue::more(flags);
                self.arrived(key, result, more, taken.map(|(range, _)| range))
            }
            Kind::QuietSend => self.send_failed(key, result),
            Kind::Alarm | Kind::Other => None,
        }
    }

    fn connected(&mut self, key: Key, result: i32) -> Completion {
        match error_of(result) {
            None => {
                let mut sending = Sending::Done;
                if let Some(connection) = self.connection(key) {
                    connection.stage = Stage::Open;
                    if connection.sending.is_some() {
                        sending = Sending::UnderWay;
                    }
                }
                self.fix(key);
                self.receive(key);
                Completion::Connected(key, sending)
            }
            Some(error) => {
                if let Some(connection) = self.connection(key) {
                    connection.stage = Stage::Failed;
                    connection.sending = None;
                }
                Completion::Failed(key, Operation::Connect, error)
            }
        }
    }

    fn sent(&mut self, key: Key, result: i32) -> Option<Completion> {
        let connection = self.connection(key)?;
        // Without bytes under way it was linked to a connect that has failed.
        let (outgoing, sent) = connection.sending.take()?;
        if let Some(error) = error_of(result) {
            return Some(Completion::Failed(key, Operation::Send, error));
        }
        let asked = (outgoing.bytes().len() - sent).min(LONGEST_SEND);
        if (result as usize) < asked {
            // All of it was to be waited for: an error cut it short, and is not told again.
            let error = io::ErrorKind::BrokenPipe.into();
            return Some(Completion::Failed(key, Operation::Send, error));
        }
        let sent = sent + asked;
        if sent < outgoing.bytes().len() {
            let entry = connection.send_entry(&outgoing.bytes()[sent..]);
            connection.sending = Some((outgoing, sent));
            self.push(&[entry.user_data(user_data(Kind::Send, key))]);
            return None;
        }
        match outgoing {
            Outgoing::Owned(buffer) => Some(Completion::Sent(key, Some(buffer))),
            Outgoing::Shared(_) => Some(Completion::Sent(key, None)),
        }
    }

    /// A send that was not to be told of has something to tell.
    fn send_failed(&mut self, key: Key, result: i32) -> Option<Completion> {
        if result == -libc::ECANCELED {
            // It was linked to a connect that has failed.
            return None;
        }
        let error = error_of(result).unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        Some(Completion::Failed(key, Operation::Send, error))
    }

    fn arrived(
        &mut self,
        key: Key,
        result: i32,
        more: bool,
        range: Option<Range<usize>>,
    ) -> Option<Completion> {
        let connection = self.connection(key)?;
        connection.receiving = more;
        if connection.stage != Stage::Open {
            return None;
        }
        if result == 0 {
            connection.stage = Stage::HalfClosed;
            return Some(Completion::Closed(key));
        }
        match (range, error_of(result)) {
            (Some(range), _) => {
                self.received = range;
                if !more {
                    self.receive(key);
                }
                Some(Completion::Received(key))
            }
            // All buffers are full of what is about to be read: this one's turn comes again.
            (None, Some(error)) if is_passing(&error) => {
                self.receive(key);
                None
            }
            (None, error) => {
                connection.stage = Stage::Failed;
                let error = error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
                Some(Completion::Failed(key, Operation::Receive, error))
            }
        }
    }

    /// The buffer of the bytes that were read last is the kernel's again.
    fn give_back(&mut self) {
        self.received = 0..0;
        if let Some(buffer) = self.used_up.take() {
            self.buffers.give_back(buffer);
        }
    }

    /// Ends what the kernel does with a connection, so that closing the socket ends it.
    fn stop(&mut self, connection: &Connection<'run>, how: Close) {
        let sending = connection.sending.is_some();
        match (connection.stage, how) {
            (Stage::Connecting, _) => {
                let connect = user_data(Kind::Connect, connection.key);
                self.push(&[quiet(opcode::AsyncCancel::new(connect).build())]);
            }
            (_, Close::Abort) => system::abort(&connection.socket),
            (_, Close::Orderly) if connection.receiving || sending => {
                // It can only fail where the connection is gone already.
                let _ = connection.socket.shutdown(Shutdown::Both);
            }
            (_, Close::Orderly) => {}
        }
    }
}

/// A UNIX socket's connect is done at once or not at all, so it needs no ring; within one a full
/// backlog would block a thread of the kernel's.
fn connected_unix(path: &Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.connect(&SockAddr::unix(path)?)?;
    // The ring gives up at once on sockets that don't block.
    socket.set_nonblocking(false)?;
    Ok(socket)
}

impl<'run> Sockets<'run> for UringSockets<'run> {
    fn now(&self) -> Nanos {
        self.ring.now()
    }

    fn moment(&self) -> Nanos {
        self.ring.moment()
    }

    fn connect(&mut self, key: Key, route: Route<'_>, first: Option<&'run [u8]>) {
        if let Err(error) = self.open(key, route, first) {
            self.ready
                .push_back(Completion::Failed(key, Operation::Connect, error));
        }
    }

    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending {
        let Some(connection) = self.connection(key) else {
            return Sending::Done;
        };
        let (entry, sending) = connection.begin_send(bytes);
        self.push(&[entry]);
        sending
    }

    fn close(&mut self, key: Key, how: Close) {
        self.ready.retain(|completion| completion.key() != key);
        let place = self.connections.get_mut(key.slot as usize);
        let Some(connection) = place.and_then(|c| c.take_if(|c| c.key == key)) else {
            return;
        };
        self.stop(&connection, how);
        if let Some((outgoing @ Outgoing::Owned(_), _)) = connection.sending {
            self.orphans.insert(user_data(Kind::Send, key), outgoing);
        }
        if connection.handle == Handle::Fixed {
            self.push(&[quiet(opcode::Close::new(Fixed(key.slot)).build())]);
        }
        let descriptor = Fd(connection.socket.into_raw_fd());
        self.push(&[quiet(opcode::Close::new(descriptor).build())]);
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        self.give_back();
        if !self.ready.is_empty() {
            return Ok(());
        }
        self.ring.wait(until)
    }

    fn next(&mut self) -> Option<Completion> {
        self.give_back();
        if let Some(completion) = self.ready.pop_front() {
            return Some(completion);
        }
        self.ring.count_one();
        loop {
            let entry = self.ring.next()?;
            if let Some(completion) = self.on_entry(&entry) {
                return Some(completion);
            }
            self.give_back();
        }
    }

    fn received(&self) -> &[u8] {
        self.buffers.bytes(self.received.clone())
    }
}

impl Drop for UringSockets<'_> {
    /// Waits until the kernel has let go of everything that it was lent.
    fn drop(&mut self) {
        for slot in 0..self.connections.len() {
            if let Some(key) = self.connections[slot].as_ref().map(|c| c.key) {
                self.close(key, Close::Abort);
            }
        }
        let orphans = &mut self.orphans;
        let is_finished = self.ring.finish(|entry| {
            orphans.remove(&entry.user_data());
        });
        if !is_finished {
            // Better lost than written to or read from after they were freed.
            orphans.drain().for_each(std::mem::forget);
        }
    }
}
