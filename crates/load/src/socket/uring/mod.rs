//! The completion backend: io_uring, on Linux 6.1 and later.
//!
//! Operations are written into the submission queue and submitted in batches, no later than the
//! next wait. A connection's receive is armed once and completes for each arrival (multishot), into
//! [`buffers`]. If more bytes arrive than the buffers can hold, connections take turns to receive.
//! The kernel processes completions only during submissions and waits (DEFER_TASKRUN). This avoids
//! interrupts and preserves the order of completions.

mod buffers;
mod connection;
mod operation;
mod ring;
mod trial;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode};
use prony_record::Nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    ByteSockets, Close, Completion, Key, Operation, Outgoing, Peer, Route, Sending, Sockets,
    WaitBatch, local, system,
};
#[cfg(test)]
use buffers::BufferUse;
use buffers::ReceiveBuffers;
use connection::{Handle, SEND_BYTES_MAX, UringConnection, UringStage};
use operation::{Kind, error_of, index_of, is_of, is_transient, kind_of, quiet, user_data};
use ring::Ring;
pub(super) use trial::test_rings;
use trial::{parts, retry_for_memory};

/// Maximum number of receives that are armed again per wait, after they found no free buffer.
const REARMED_RECEIVES_MAX: usize = 16;

/// The completion backend. See [`Sockets`].
pub(crate) struct UringSockets<'run> {
    // The ring is declared first so that it is dropped first. The kernel releases the buffers
    // together with the ring.
    ring: Ring,
    buffers: ReceiveBuffers,
    /// Completions that don't come from the ring.
    ready: VecDeque<Completion>,
    connections: Vec<Option<UringConnection<'run>>>,
    /// Buffers that the kernel was still sending when their connections ended, keyed by the user
    /// data of the send operation.
    orphans: HashMap<u64, Outgoing<'run>>,
    /// Addresses of connection attempts. The kernel reads them at submission.
    addresses: HashMap<SocketAddr, Box<SockAddr>>,
    /// True if the ring has a table of sockets.
    has_table: bool,
    /// Connections whose receive found all buffers full of unread bytes, in the order in which this
    /// happened. Their receives are not armed again immediately, because the buffers would still be
    /// full.
    starved: VecDeque<Key>,
    received: Range<usize>,
    /// Buffer to return to the kernel once its bytes have been read by `received`.
    used_up: Option<u16>,
}

impl<'run> UringSockets<'run> {
    /// Creates a backend for up to `capacity` connections. Only the calling thread may use it. Its
    /// clock starts now, unless [`UringSockets::start_clock`] sets another start.
    ///
    /// # Errors
    ///
    /// The kernel has no io_uring, forbids it, or lacks a feature that this backend needs.
    pub(crate) fn new(capacity: usize) -> io::Result<UringSockets<'run>> {
        let (ring, buffers) = retry_for_memory(|| parts(capacity))?;
        Ok(UringSockets::over(ring, buffers, capacity))
    }

    fn over(ring: Ring, buffers: ReceiveBuffers, capacity: usize) -> UringSockets<'run> {
        let submitter = ring.registry().submitter();
        let has_table = u32::try_from(capacity)
            .is_ok_and(|capacity| submitter.register_files_sparse(capacity).is_ok());
        let mut connections = Vec::new();
        connections.resize_with(capacity, || None);
        UringSockets {
            ring,
            buffers,
            ready: VecDeque::new(),
            connections,
            orphans: HashMap::new(),
            addresses: HashMap::new(),
            has_table,
            starved: VecDeque::new(),
            received: 0..0,
            used_up: None,
        }
    }

    /// Creates a backend that works as on Linux before 6.12: it consumes whole buffers, and has no
    /// minimum wait time.
    #[cfg(test)]
    pub(in crate::socket) fn as_before_6_12(capacity: usize) -> io::Result<UringSockets<'run>> {
        let ring = Ring::without_min_wait(capacity)?;
        let buffers = ReceiveBuffers::used(ring.registry(), BufferUse::Whole)?;
        Ok(UringSockets::over(ring, buffers, capacity))
    }

    /// Starts the clock at `epoch`, which all workers of a load share.
    pub(crate) fn start_clock(&mut self, epoch: Instant) {
        self.ring.start_clock(epoch);
    }

    /// Returns the connection of a key, if it is still open.
    fn connection(&mut self, key: Key) -> Option<&mut UringConnection<'run>> {
        let connection = self.connections.get_mut(key.index as usize)?.as_mut();
        connection.filter(|connection| connection.key == key)
    }

    /// Returns the key of the connection that an operation belongs to, if the connection is still
    /// open.
    fn live_key(&self, user_data: u64) -> Option<Key> {
        let key = self.connections.get(index_of(user_data))?.as_ref()?.key;
        is_of(user_data, key).then_some(key)
    }

    /// Writes an operation into the queue. Returns false if the queue is full.
    fn push(&mut self, entry: &Entry) -> bool {
        // SAFETY: requests outlive the run. Owned buffers are kept in their connection, or in
        // `orphans`, until their completion. Addresses are never moved.
        unsafe { self.ring.push(entry) }
    }

    /// Like `push`, but fails the operation on its connection if the queue is full.
    fn push_or_fail(&mut self, key: Key, operation: Operation, entry: &Entry) {
        if !self.push(entry) {
            self.refuse(key, operation);
        }
    }

    /// Fails an operation after the queue was full and the kernel accepted no operations.
    #[cold]
    fn refuse(&mut self, key: Key, operation: Operation) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        match operation {
            // The kernel never received this send, so its buffer may be dropped.
            Operation::Send => {
                if let Some((outgoing, sent)) = connection.sending.take() {
                    connection.unsent = outgoing.bytes().len() - sent;
                }
            }
            // A send in flight keeps its buffer until it completes.
            Operation::Connect | Operation::Receive => {
                connection.stage = UringStage::Failed;
                connection.receiving = false;
            }
        }
        let error = io::Error::from_raw_os_error(libc::ENOBUFS);
        self.ready
            .push_back(Completion::Failed(key, operation, error));
    }

    /// Creates a socket. Closed sockets count towards the limit on open files until their close is
    /// submitted. Therefore, if the limit is reached, closes are submitted first.
    fn socket(&mut self, domain: Domain, protocol: Option<Protocol>) -> io::Result<Socket> {
        Socket::new(domain, Type::STREAM, protocol).or_else(|error| {
            match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => {}
                _ => return Err(error),
            }
            self.ring.submit();
            Socket::new(domain, Type::STREAM, protocol)
        })
    }

    fn open(&mut self, key: Key, route: Route<'_>) -> io::Result<()> {
        match route.peer {
            Peer::Tcp(address) => {
                let domain = Domain::for_address(*address);
                let socket = self.socket(domain, Some(Protocol::TCP))?;
                if route.nodelay {
                    socket.set_tcp_nodelay(true)?;
                }
                if let Some(bytes) = route.buffers {
                    local::size_buffers(&socket, bytes)?;
                }
                if let Some(source) = route.source {
                    local::bind_to_source(&socket, source)?;
                }
                self.connect_tcp(key, socket, *address, route.keepalive);
            }
            Peer::Unix(path) => {
                let socket = self.socket(Domain::UNIX, None)?;
                connect_unix(&socket, path)?;
                self.install(key, socket, UringStage::Open, route.keepalive);
                self.fix(key);
                self.receive(key);
                self.ready.push_back(Completion::Connected(key));
            }
            Peer::Quic(_) => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }

    fn connect_tcp(&mut self, key: Key, socket: Socket, address: SocketAddr, keepalive: bool) {
        let descriptor = Fd(socket.as_raw_fd());
        self.install(key, socket, UringStage::Connecting, keepalive);
        let raw = self
            .addresses
            .entry(address)
            .or_insert_with(|| Box::new(SockAddr::from(address)));
        let connect = opcode::Connect::new(descriptor, raw.as_ptr().cast(), raw.len())
            .build()
            .user_data(user_data(Kind::Connect, key));
        self.push_or_fail(key, Operation::Connect, &connect);
    }

    fn install(&mut self, key: Key, socket: Socket, stage: UringStage, keepalive: bool) {
        self.connections[key.index as usize] = Some(UringConnection {
            socket,
            key,
            stage,
            handle: if keepalive && self.has_table {
                Handle::ToBeFixed
            } else {
                Handle::Descriptor
            },
            receiving: false,
            sending: None,
            unsent: 0,
        });
    }

    /// Adds the socket of a connection to the ring's table, because the connection will carry many
    /// requests.
    fn fix(&mut self, key: Key) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        if connection.handle != Handle::ToBeFixed {
            return;
        }
        let descriptor = [connection.socket.as_raw_fd()];
        // The close of the previous connection with this index may still be queued, so the queue is
        // submitted first. Otherwise, that close would end the new connection.
        let is_free = self.ring.submit();
        let submitter = self.ring.registry().submitter();
        let entered = is_free
            && submitter
                .register_files_update(key.index, &descriptor)
                .is_ok();
        if let Some(connection) = self.connection(key) {
            connection.handle = if entered {
                Handle::Fixed
            } else {
                // Operations on the connection continue to use its descriptor.
                Handle::Descriptor
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
        self.push_or_fail(key, Operation::Receive, &entry);
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
            Kind::QuietSend => Some(send_failed(key, result)),
            Kind::Alarm | Kind::Other => None,
        }
    }

    fn connected(&mut self, key: Key, result: i32) -> Completion {
        match error_of(result) {
            None => {
                if let Some(connection) = self.connection(key) {
                    connection.stage = UringStage::Open;
                }
                self.fix(key);
                self.receive(key);
                Completion::Connected(key)
            }
            Some(error) => {
                if let Some(connection) = self.connection(key) {
                    connection.stage = UringStage::Failed;
                }
                Completion::Failed(key, Operation::Connect, error)
            }
        }
    }

    fn sent(&mut self, key: Key, result: i32) -> Option<Completion> {
        let connection = self.connection(key)?;
        let (outgoing, sent) = connection.sending.take()?;
        let left = outgoing.bytes().len() - sent;
        if let Some(error) = error_of(result) {
            connection.unsent = left;
            return Some(Completion::Failed(key, Operation::Send, error));
        }
        let asked = left.min(SEND_BYTES_MAX);
        if (result as usize) < asked {
            connection.unsent = left - result as usize;
            // The send was supposed to complete only after its last byte. An error cut it short,
            // and the kernel does not report that error again.
            let error = io::ErrorKind::BrokenPipe.into();
            return Some(Completion::Failed(key, Operation::Send, error));
        }
        let sent = sent + asked;
        if sent < outgoing.bytes().len() {
            let entry = connection.send_entry(&outgoing.bytes()[sent..]);
            connection.sending = Some((outgoing, sent));
            let entry = entry.user_data(user_data(Kind::Send, key));
            self.push_or_fail(key, Operation::Send, &entry);
            return None;
        }
        match outgoing {
            Outgoing::Owned(buffer) => Some(Completion::Sent(key, Some(buffer))),
            Outgoing::Shared(_) => Some(Completion::Sent(key, None)),
        }
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
        if connection.stage != UringStage::Open {
            return None;
        }
        if result == 0 {
            connection.stage = UringStage::HalfClosed;
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
            (None, Some(error)) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.starved.push_back(key);
                None
            }
            (None, Some(error)) if is_transient(&error) => {
                self.receive(key);
                None
            }
            (None, error) => {
                connection.stage = UringStage::Failed;
                let error = error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into());
                Some(Completion::Failed(key, Operation::Receive, error))
            }
        }
    }

    /// Queues all operations that must precede a wait. Returns the time at which the wait must end.
    fn prepare_wait(&mut self, until: Nanos) -> Nanos {
        self.give_back();
        self.feed();
        if self.ready.is_empty() && self.starved.is_empty() {
            until
        } else {
            Nanos::ZERO
        }
    }

    /// Returns the most recently consumed buffer to the kernel.
    fn give_back(&mut self) {
        self.received = 0..0;
        if let Some(buffer) = self.used_up.take() {
            self.buffers.give_back(buffer);
        }
    }

    /// Rearms some of the receives that found no buffer. Consumed buffers must already have been
    /// returned to the kernel.
    fn feed(&mut self) {
        for _ in 0..REARMED_RECEIVES_MAX {
            let Some(key) = self.starved.pop_front() else {
                return;
            };
            // The connection may have ended in the meantime.
            self.receive(key);
        }
    }

    /// Cancels the kernel's operations on a connection, so that closing the socket ends the
    /// connection.
    fn stop(&mut self, connection: &UringConnection<'run>, how: Close) {
        let (socket, key) = (&connection.socket, connection.key);
        let sending = connection.sending.is_some();
        if connection.stage == UringStage::Connecting {
            let cancel = opcode::AsyncCancel::new(user_data(Kind::Connect, key)).build();
            self.push(&quiet(cancel));
            if how == Close::Abort {
                // If the connect completes before it is canceled, the connection is still aborted.
                let _ = socket.set_linger(Some(Duration::ZERO));
            }
            if socket.peer_addr().is_err() {
                return;
            }
            // The connection was established in the meantime, so it is ended like any open one.
        }
        match how {
            Close::Abort => system::abort(socket),
            Close::Orderly if connection.receiving || sending => {
                // Bytes that were reported as sent must be sent before the close.
                self.ring.submit();
                // The shutdown fails only if the connection has already ended.
                let _ = socket.shutdown(Shutdown::Both);
            }
            Close::Orderly => {}
        }
    }
}

/// Returns the completion of a failed send. The ring reports such a send only if it fails.
fn send_failed(key: Key, result: i32) -> Completion {
    let error = error_of(result).unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
    Completion::Failed(key, Operation::Send, error)
}

/// Connects a UNIX socket. The connection attempt succeeds or fails immediately, so it doesn't use
/// the ring. In a ring, a full backlog would block a kernel thread.
fn connect_unix(socket: &Socket, path: &Path) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    // The ring fails operations on nonblocking sockets that would block.
    socket.set_nonblocking(false)
}

impl Sockets for UringSockets<'_> {
    fn now(&self) -> Nanos {
        self.ring.now()
    }

    fn cached_now(&self) -> Nanos {
        self.ring.cached_now()
    }

    fn connect(&mut self, key: Key, route: Route<'_>) {
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
        self.ready.retain(|completion| completion.key() != key);
        let connection = self.connections.get_mut(key.index as usize);
        let Some(connection) = connection.and_then(|c| c.take_if(|c| c.key == key)) else {
            return;
        };
        self.stop(&connection, how);
        if let Some((outgoing @ Outgoing::Owned(_), _)) = connection.sending {
            self.orphans.insert(user_data(Kind::Send, key), outgoing);
        }
        if connection.handle == Handle::Fixed {
            self.push(&quiet(opcode::Close::new(Fixed(key.index)).build()));
        }
        let descriptor = Fd(connection.socket.as_raw_fd());
        if self.push(&quiet(opcode::Close::new(descriptor).build())) {
            // The kernel now closes the socket.
            let _ = connection.socket.into_raw_fd();
        }
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        let until = self.prepare_wait(until);
        self.ring.wait(until)
    }

    fn wait_coalesced(&mut self, until: Nanos, batch: WaitBatch) -> io::Result<()> {
        let until = self.prepare_wait(until);
        self.ring.wait_for(until, Some(batch))
    }

    fn next(&mut self) -> Option<Completion> {
        self.give_back();
        if let Some(completion) = self.ready.pop_front() {
            // This completion took at least one system call, so reading the clock is comparatively
            // cheap.
            self.ring.read_clock();
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
}

impl<'run> ByteSockets<'run> for UringSockets<'run> {
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending {
        let Some(connection) = self.connection(key) else {
            return Sending::Done;
        };
        let (entry, sending) = connection.begin_send(bytes);
        self.push_or_fail(key, Operation::Send, &entry);
        sending
    }

    fn unsent(&self, key: Key) -> u64 {
        let connection = self.connections.get(key.index as usize);
        let connection = connection.and_then(Option::as_ref);
        connection
            .filter(|connection| connection.key == key)
            .map_or(0, |connection| {
                let left = match &connection.sending {
                    Some((outgoing, sent)) => outgoing.bytes().len() - sent,
                    None => connection.unsent,
                };
                left as u64 + system::unsent_in_kernel(&connection.socket)
            })
    }

    fn acknowledge(&mut self, key: Key) -> bool {
        let connection = self.connections.get(key.index as usize);
        let connection = connection.and_then(Option::as_ref);
        connection.is_some_and(|it| it.key == key && system::acknowledge(&it.socket))
    }

    fn received(&self) -> &[u8] {
        self.buffers.bytes(self.received.clone())
    }
}

impl Drop for UringSockets<'_> {
    /// Waits until the kernel has released all memory that operations point to.
    fn drop(&mut self) {
        for index in 0..self.connections.len() {
            if let Some(key) = self.connections[index].as_ref().map(|c| c.key) {
                self.close(key, Close::Abort);
            }
        }
        let orphans = &mut self.orphans;
        let is_finished = self.ring.finish(|entry| {
            orphans.remove(&entry.user_data());
        });
        if !is_finished {
            // Leaking memory is better than freeing memory that the kernel still uses.
            orphans.drain().for_each(std::mem::forget);
        }
    }
}
