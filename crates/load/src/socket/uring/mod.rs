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
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode};
use prony_record::Nanos;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    Close, Completion, Key, Operation, Outgoing, Peer, Route, Sending, Sockets, local, system,
};
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
/// So much fits into a socket's buffer in any case, and is taken over with the operation.
const QUIET_BYTES: usize = 4096;
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
    /// The kernel keeps a table of sockets for this ring.
    has_table: bool,
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

/// The user data of the alarm.
const ALARM: u64 = (Kind::Alarm as u64) << 61;

struct Connection<'run> {
    socket: Socket,
    key: Key,
    stage: Stage,
    handle: Handle,
    /// The kernel will tell what comes in.
    receiving: bool,
    /// Bytes under way, and how many of them were taken over.
    sending: Option<(Outgoing<'run>, usize)>,
}

/// What operations name the socket by.
#[derive(Clone, Copy, PartialEq)]
enum Handle {
    /// Its descriptor, which the kernel looks up for each operation.
    Descriptor,
    /// The same once the connection stands, as it will carry many requests.
    ToBeFixed,
    /// Its slot in the ring's own table, which costs less.
    Fixed,
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

/// What an operation is, in the three top bits of its user data.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Connect = 0,
    Send = 1,
    Receive = 2,
    /// A send that only tells if it fails.
    QuietSend = 3,
    /// The timer that ends waits.
    Alarm = 4,
    /// Only tells if it fails, which means nothing.
    Other = 5,
}

const GENERATION_BITS: u32 = 29;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// The user data of an operation: its kind, and which connection it belongs to. Generations that
/// differ by 2^29 look alike; no operation lives that long.
fn user_data(kind: Kind, key: Key) -> u64 {
    (kind as u64) << 61 | u64::from(key.generation & GENERATION_MASK) << 32 | u64::from(key.slot)
}

impl Kind {
    /// Whether a completion follows in any case.
    fn is_always_told(self) -> bool {
        !matches!(self, Kind::QuietSend | Kind::Other)
    }
}

fn kind_of(user_data: u64) -> Kind {
    match user_data >> 61 {
        0 => Kind::Connect,
        1 => Kind::Send,
        2 => Kind::Receive,
        3 => Kind::QuietSend,
        4 => Kind::Alarm,
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
        let has_table = u32::try_from(slots)
            .is_ok_and(|slots| ring.submitter().register_files_sparse(slots).is_ok());
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
            Ok(()) => {
                let told = |entry: &&Entry| kind_of(entry.get_user_data()).is_always_told();
                self.under_way += entries.iter().filter(told).count() as u32;
            }
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
        let _ = self.ring.submit();
        let entered = self
            .ring
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
        let entry = match connection.handle {
            Handle::Fixed => opcode::RecvMulti::new(Fixed(key.slot), buffers::GROUP).build(),
            _ => {
                let descriptor = Fd(connection.socket.as_raw_fd());
                opcode::RecvMulti::new(descriptor, buffers::GROUP).build()
            }
        };
        self.push(&[entry.user_data(user_data(Kind::Receive, key))]);
    }

    fn on_entry(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let (data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
        let kind = kind_of(data);
        if !cqueue::more(flags) && kind.is_always_told() {
            self.under_way -= 1;
        }
        let taken = match u32::try_from(result) {
            Ok(length) => self.buffers.taken(length, flags),
            Err(_) => None,
        };
        if let Some((_, used_up)) = &taken {
            self.used_up = *used_up;
        }
        if kind == Kind::Alarm {
            self.alarm.at = None;
            return None;
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

impl<'run> Connection<'run> {
    /// The operation that sends these bytes, and what will be told of it.
    fn begin_send(&mut self, bytes: Outgoing<'run>) -> (Entry, Sending) {
        let entry = self.send_entry(bytes.bytes());
        match bytes {
            Outgoing::Shared(bytes) if bytes.len() <= QUIET_BYTES => {
                let quiet = entry.flags(Flags::SKIP_SUCCESS);
                let data = user_data(Kind::QuietSend, self.key);
                (quiet.user_data(data), Sending::Done)
            }
            bytes => {
                self.sending = Some((bytes, 0));
                let data = user_data(Kind::Send, self.key);
                (entry.user_data(data), Sending::UnderWay)
            }
        }
    }

    fn send_entry(&self, bytes: &[u8]) -> Entry {
        let (start, length) = (bytes.as_ptr(), bytes.len().min(LONGEST_SEND) as u32);
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        match self.handle {
            Handle::Fixed => opcode::Send::new(Fixed(self.key.slot), start, length)
                .flags(flags)
                .build(),
            _ => opcode::Send::new(Fd(self.socket.as_raw_fd()), start, length)
                .flags(flags)
                .build(),
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
        && parameters.is_feature_skip_cqe_on_success()
    {
        return Ok(());
    }
    Err(io::ErrorKind::Unsupported.into())
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

/// An operation whose outcome doesn't matter.
fn quiet(entry: Entry) -> Entry {
    entry
        .flags(Flags::SKIP_SUCCESS)
        .user_data((Kind::Other as u64) << 61)
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
            self.push(&[quiet(opcode::TimeoutRemove::new(ALARM).build())]);
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
