//! The completion backend: io_uring, on Linux 6.1 and later.
//!
//! Operations are written into the submission queue and handed over in batches, at the latest with
//! the next wait. A connection's receive is armed once and completes for each arrival
//! (multishot), into [`buffers`]. The kernel's own work on completions is done within the wait and
//! nowhere else (DEFER_TASKRUN), which spares interrupts and keeps the order.

mod buffers;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode};
use prony_record::Nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{Close, Completion, Key, Operation, Outgoing, Peer, Route, Sockets, local, system};
use buffers::Buffers;

/// Operations that wait for being handed over, at most.
const SUBMISSIONS: u32 = 256;
/// Handed over as soon as so many wait: what has been stamped as sent must not lie around.
const BATCH: usize = 16;
/// Completions that bear the same time.
const MOST_AT_A_MOMENT: u32 = 8;
/// Completions that the kernel can note without setting memory aside: a receive and a send for
/// each connection, up to this.
const MOST_COMPLETIONS: u32 = 32 * 1024;
/// The kernel takes somewhat less than 2 GiB at a time; more goes in parts.
const LONGEST_SEND: usize = 1 << 30;
/// How long the end waits for operations that the kernel still holds.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// See the module and [`Sockets`].
pub(crate) struct UringSockets<'run> {
    // Dropped in this order: the kernel lets go of the buffers with the ring.
    ring: IoUring,
    buffers: Buffers,
    /// Completions that did not come through the ring.
    ready: VecDeque<Completion>,
    connections: Vec<Option<Connection<'run>>>,
    /// Ciphertext of connections that ended while the kernel was still sending it, by user data.
    orphans: HashMap<u64, Outgoing<'run>>,
    /// Where the connects' addresses lie, as the kernel reads them when they are handed over.
    addresses: HashMap<SocketAddr, Box<SockAddr>>,
    alarm: Alarm,
    /// Operations whose last completion is still to come.
    under_way: u32,
    received: Range<usize>,
    /// The buffer that is given back once `received` was read.
    used_up: Option<u16>,
    /// When the clock was last read, and how many completions were reaped since.
    moment: Nanos,
    reaped: u32,
    epoch: Instant,
}

/// The timer that ends waits. It stays armed when something else ends one: setting and clearing
/// a timer for each wait would cost more than the wait.
struct Alarm {
    /// When it rings, if it is armed.
    at: Option<Nanos>,
    /// Where the kernel reads how long, as the operation is handed over.
    left: Box<Timespec>,
}

/// The user data of the alarm, which no connection has: there aren't so many slots.
const ALARM: u64 = u64::MAX;

struct Connection<'run> {
    socket: Socket,
    key: Key,
    stage: Stage,
    /// The kernel will tell what comes in.
    receiving: bool,
    /// Bytes under way, and how many of them were taken over.
    sending: Option<(Outgoing<'run>, usize)>,
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

/// What an operation is, in the two top bits of its user data.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Connect = 0,
    Send = 1,
    Receive = 2,
    /// Its completion means nothing.
    Other = 3,
}

const GENERATION_BITS: u32 = 30;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// The user data of an operation: its kind, and which connection it belongs to. Generations that
/// differ by 2^30 look alike; no operation lives that long.
fn user_data(kind: Kind, key: Key) -> u64 {
    (kind as u64) << 62 | u64::from(key.generation & GENERATION_MASK) << 32 | u64::from(key.slot)
}

fn kind_of(user_data: u64) -> Kind {
    match user_data >> 62 {
        0 => Kind::Connect,
        1 => Kind::Send,
        2 => Kind::Receive,
        _ => Kind::Other,
    }
}

impl<'run> UringSockets<'run> {
    /// A backend for up to `slots` connections, to be used by the calling thread alone. Its clock
    /// starts now, or with [`UringSockets::start_clock`].
    ///
    /// # Errors
    ///
    /// Where the kernel has no io_uring, forbids it, or lacks something that this backend needs.
    pub(crate) fn new(slots: usize) -> io::Result<UringSockets<'run>> {
        let wanted = u32::try_from(slots).unwrap_or(u32::MAX).saturating_mul(2);
        let completions = wanted
            .clamp(2 * SUBMISSIONS, MOST_COMPLETIONS)
            .next_power_of_two();
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_cqsize(completions)
            .build(SUBMISSIONS)?;
        check(&ring)?;
        let buffers = Buffers::register(&ring)?;
        let mut connections = Vec::new();
        connections.resize_with(slots, || None);
        Ok(UringSockets {
            ring,
            buffers,
            ready: VecDeque::new(),
            connections,
            orphans: HashMap::new(),
            addresses: HashMap::new(),
            alarm: Alarm {
                at: None,
                left: Box::new(Timespec::new()),
            },
            under_way: 0,
            received: 0..0,
            used_up: None,
            moment: Nanos::ZERO,
            reaped: 0,
            epoch: Instant::now(),
        })
    }

    /// Time counts from `epoch`, which all workers of a load share.
    pub(crate) fn start_clock(&mut self, epoch: Instant) {
        self.epoch = epoch;
    }

    /// The connection of a key, if it still lives.
    fn connection(&mut self, key: Key) -> Option<&mut Connection<'run>> {
        let place = self.connections.get_mut(key.slot as usize)?.as_mut();
        place.filter(|connection| connection.key == key)
    }

    /// The key that an operation belongs to, if that connection still lives.
    fn live_key(&self, user_data: u64) -> Option<Key> {
        let slot = (user_data & u64::from(u32::MAX)) as usize;
        let key = self.connections.get(slot)?.as_ref()?.key;
        let generation = (user_data >> 32) as u32 & GENERATION_MASK;
        (key.generation & GENERATION_MASK == generation).then_some(key)
    }

    /// Writes operations into the queue, together: those that are linked must not be handed over
    /// apart.
    fn push(&mut self, entries: &[Entry]) {
        let queue = self.ring.submission();
        let (length, room) = (queue.len(), queue.capacity() - queue.len());
        drop(queue);
        if length >= BATCH || room < entries.len() {
            // Should it fail, the operations stay queued for the next attempt.
            let _ = self.ring.submit();
            self.read_clock();
        }
        // SAFETY: what the entries point to lives until their completion: requests outlive the
        // run, owned buffers are kept in the connection or among the orphans, addresses stay.
        let pushed = unsafe { self.ring.submission().push_multiple(entries) };
        match pushed {
            Ok(()) => self.under_way += entries.len() as u32,
            Err(_) => self.refuse(entries),
        }
    }

    /// The kernel took nothing over and the queue is full: what was wanted has failed.
    #[cold]
    fn refuse(&mut self, entries: &[Entry]) {
        for entry in entries {
            if entry.get_user_data() == ALARM {
                self.alarm.at = None;
            }
            let operation = match kind_of(entry.get_user_data()) {
                Kind::Connect => Operation::Connect,
                Kind::Send => Operation::Send,
                Kind::Receive => Operation::Receive,
                Kind::Other => continue,
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
                self.connect_tcp(key, socket, *address, first);
            }
            Peer::Unix(path) => {
                let socket = connected_unix(path)?;
                self.install(key, socket, Stage::Open);
                self.ready.push_back(Completion::Connected(key));
                self.receive(key);
                if let Some(first) = first {
                    self.send(key, Outgoing::Shared(first));
                }
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
    ) {
        let fd = socket.as_raw_fd();
        self.install(key, socket, Stage::Connecting);
        let raw = self
            .addresses
            .entry(address)
            .or_insert_with(|| Box::new(SockAddr::from(address)));
        let connect = opcode::Connect::new(Fd(fd), raw.as_ptr().cast(), raw.len())
            .build()
            .user_data(user_data(Kind::Connect, key));
        let Some(first) = first else {
            self.push(&[connect]);
            return;
        };
        let outgoing = Outgoing::Shared(first);
        let send = send_entry(fd, outgoing.bytes(), key);
        if let Some(connection) = self.connection(key) {
            connection.sending = Some((outgoing, 0));
        }
        self.push(&[connect.flags(Flags::IO_LINK), send]);
    }

    fn install(&mut self, key: Key, socket: Socket, stage: Stage) {
        self.connections[key.slot as usize] = Some(Connection {
            socket,
            key,
            stage,
            receiving: false,
            sending: None,
        });
    }

    /// Arms the connection's receive.
    fn receive(&mut self, key: Key) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        connection.receiving = true;
        let entry = opcode::RecvMulti::new(Fd(connection.socket.as_raw_fd()), buffers::GROUP)
            .build()
            .user_data(user_data(Kind::Receive, key));
        self.push(&[entry]);
    }

    fn on_entry(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let (data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        if !cqueue::more(flags) {
            self.under_way -= 1;
        }
        if data == ALARM {
            self.alarm.at = None;
            return None;
        }
        let taken = match u32::try_from(result) {
            Ok(length) => self.buffers.taken(length, flags),
            Err(_) => None,
        };
        if let Some((_, used_up)) = &taken {
            self.used_up = *used_up;
        }
        let kind = kind_of(data);
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
            Kind::Other => None,
        }
    }

    fn connected(&mut self, key: Key, result: i32) -> Completion {
        match error_of(result) {
            None => {
                if let Some(connection) = self.connection(key) {
                    connection.stage = Stage::Open;
                }
                self.receive(key);
                Completion::Connected(key)
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
        if let Some(error) = error_of(result) {
            // Without bytes under way it was linked to a connect that has failed.
            connection.sending.take()?;
            return Some(Completion::Failed(key, Operation::Send, error));
        }
        let (outgoing, sent) = connection.sending.as_mut()?;
        let asked = (outgoing.bytes().len() - *sent).min(LONGEST_SEND);
        if (result as usize) < asked {
            // All of it was to be waited for: an error cut it short, and is not told again.
            connection.sending = None;
            let error = io::ErrorKind::BrokenPipe.into();
            return Some(Completion::Failed(key, Operation::Send, error));
        }
        *sent += asked;
        let rest = &outgoing.bytes()[*sent..];
        if !rest.is_empty() {
            let entry = send_entry(connection.socket.as_raw_fd(), rest, key);
            self.push(&[entry]);
            return None;
        }
        match connection.sending.take()? {
            (Outgoing::Owned(buffer), _) => Some(Completion::Sent(key, Some(buffer))),
            (Outgoing::Shared(_), _) => Some(Completion::Sent(key, None)),
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

    fn read_clock(&mut self) {
        self.moment = self.now();
        self.reaped = 0;
    }

    /// Sets the alarm.
    fn arm(&mut self, until: Nanos) {
        self.alarm.at = Some(until);
        *self.alarm.left = Timespec::from(Duration::from(until.since(self.now())));
        let timeout = opcode::Timeout::new(&raw const *self.alarm.left)
            .build()
            .user_data(ALARM);
        self.push(&[timeout]);
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
                self.push(&[opcode::AsyncCancel::new(connect)
                    .build()
                    .user_data(user_data(Kind::Other, connection.key))]);
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

/// The backend's needs beyond the ring's set-up, which has asked for Linux 6.1 already.
fn check(ring: &IoUring) -> io::Result<()> {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Connect::CODE,
        opcode::Send::CODE,
        opcode::RecvMulti::CODE,
        opcode::AsyncCancel::CODE,
        opcode::Close::CODE,
        opcode::Timeout::CODE,
    ];
    let parameters = ring.params();
    if needed.iter().all(|code| probe.is_supported(*code))
        && parameters.is_feature_ext_arg()
        && parameters.is_feature_nodrop()
    {
        return Ok(());
    }
    Err(io::ErrorKind::Unsupported.into())
}

fn send_entry(fd: RawFd, bytes: &[u8], key: Key) -> Entry {
    let length = bytes.len().min(LONGEST_SEND) as u32;
    opcode::Send::new(Fd(fd), bytes.as_ptr(), length)
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
        .build()
        .user_data(user_data(Kind::Send, key))
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

fn error_of(result: i32) -> Option<io::Error> {
    (result < 0).then(|| io::Error::from_raw_os_error(-result))
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EINTR | libc::EAGAIN)
    )
}

impl<'run> Sockets<'run> for UringSockets<'run> {
    fn now(&self) -> Nanos {
        Nanos::from(self.epoch.elapsed())
    }

    fn moment(&self) -> Nanos {
        self.moment
    }

    fn connect(&mut self, key: Key, route: Route<'_>, first: Option<&'run [u8]>) {
        if let Err(error) = self.open(key, route, first) {
            self.ready
                .push_back(Completion::Failed(key, Operation::Connect, error));
        }
    }

    fn send(&mut self, key: Key, bytes: Outgoing<'run>) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let entry = send_entry(connection.socket.as_raw_fd(), bytes.bytes(), key);
        connection.sending = Some((bytes, 0));
        self.push(&[entry]);
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
        let close = opcode::Close::new(Fd(connection.socket.into_raw_fd()))
            .build()
            .user_data(user_data(Kind::Other, key));
        self.push(&[close]);
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        self.give_back();
        if !self.ready.is_empty() {
            return Ok(());
        }
        let want = usize::from(until > self.moment);
        let waited = match self.alarm.at {
            // It rings in time: should that be too early, the caller waits again.
            Some(at) if at <= until => self.ring.submitter().submit_and_wait(want),
            Some(_) => {
                let limit = Timespec::from(Duration::from(until.since(self.now())));
                let arguments = SubmitArgs::new().timespec(&limit);
                self.ring.submitter().submit_with_args(want, &arguments)
            }
            None => {
                if want > 0 {
                    self.arm(until);
                }
                self.ring.submitter().submit_and_wait(want)
            }
        };
        self.read_clock();
        match waited {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The time is up, a signal came, or completions are to be reaped first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn next(&mut self) -> Option<Completion> {
        self.give_back();
        if let Some(completion) = self.ready.pop_front() {
            return Some(completion);
        }
        self.reaped += 1;
        if self.reaped > MOST_AT_A_MOMENT {
            self.read_clock();
        }
        loop {
            let entry = self.ring.completion().next()?;
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
        if self.alarm.at.is_some() {
            self.push(&[opcode::TimeoutRemove::new(ALARM)
                .build()
                .user_data(ALARM - 1)]);
        }
        let begun = Instant::now();
        while self.under_way > 0 && begun.elapsed() < LAST_WAIT {
            let until = self.now() + Nanos::from_millis(10);
            self.ready.clear();
            if self.wait(until).is_err() {
                break;
            }
            while self.next().is_some() {}
        }
        if self.under_way > 0 {
            // Better lost than written to or read from after they were freed.
            self.orphans.drain().for_each(std::mem::forget);
        }
    }
}
