//! The bypass backend: TCP in this process, over AF_XDP sockets of one network interface.
//!
//! ```text
//! worker ── XdpSockets ── prony_tcp::TcpStack    connections, timers, packets
//!                └─────── LinkPort               frames, next hops, neighbor replies
//!                            └── XdpLink         BPF program and targets, shared by all workers
//! ```
//!
//! A wait sends everything that is due, then sleeps until a frame arrives or a timer expires.
//! [`Sockets::next`] handles one received packet at a time; its bytes stay in the frame until the
//! next call.

mod clock;
mod exchange;
mod link;
mod packet;
mod port;
mod setup;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use prony_record::Nanos;
use prony_tcp::{
    Chunk, CloseMode, ConnectError, ConnectOptions, Event, Failure, Handle, SendState, StackConfig,
    TcpStack, Unreachable,
};

use super::{
    ByteSockets, Close, Completion, Key, Operation, Outgoing, Peer, Route, Sending, SocketCounts,
    Sockets, WaitBatch,
};
use clock::BackendClock;
pub(crate) use link::XdpLink;
use port::LinkPort;
pub(crate) use setup::{XdpOptions, XdpSetup};

/// Maximum number of bytes that are copied into the stack at a time, from a buffer that is later
/// returned to the worker.
const COPIED_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of out-of-order bytes that all connections of a worker may store in total.
const REASSEMBLY_BYTES: usize = 8 << 20;
/// Bounds of a connection's receive window in bytes.
const WINDOW_MIN: usize = 32 * 1024;
const WINDOW_MAX: usize = 512 * 1024;
/// Maximum number of packets that are sent before received packets are handled.
const PACKETS_PER_WAIT_MAX: u32 = 1024;
/// Number of queued resets at which all of them are sent immediately rather than in the next turn.
/// This keeps the queue short when a load ends.
const QUEUED_RESETS_MAX: usize = 256;
/// Maximum time to wait for the orderly end of closed connections when the backend is dropped.
const LINGER: Nanos = Nanos::from_millis(500);
/// Number of received packets at which a coalesced wait ends. Handling that many packets takes
/// longer than a wake-up.
const GATHERED_PACKETS: u32 = 16;
/// Maximum sleep while frames are waiting for the interface to accept them.
const RETRY_PAUSE: Nanos = Nanos::from_millis(1);

/// The bypass backend. See [`Sockets`].
pub(crate) struct XdpSockets<'run> {
    port: LinkPort,
    stack: TcpStack<'run>,
    connections: Vec<Option<XdpConnection<'run>>>,
    /// Completions that don't result from events of the stack.
    ready: VecDeque<Completion>,
    received: ReceivedBytes,
    /// Local ports of this worker.
    ports: RangeInclusive<u16>,
    clock: BackendClock,
}

struct XdpConnection<'run> {
    key: Key,
    /// The stack's handle of the connection; `None` if the connection was never started.
    handle: Option<Handle>,
    stage: XdpStage,
    /// The send in flight, and the number of its bytes that the stack has accepted.
    sending: Option<(Outgoing<'run>, usize)>,
    /// Number of bytes in a failed send that the stack had not accepted.
    unsent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum XdpStage {
    Connecting,
    Open,
    /// The peer has closed its side. Nothing more is received.
    HalfClosed,
    /// The connection has failed. No more completions follow.
    Failed,
}

/// The bytes of the `Received` that was returned last.
enum ReceivedBytes {
    None,
    /// The bytes are a range of the port's current packet.
    InPacket(std::ops::Range<usize>),
    Reassembled(Vec<u8>),
}

impl<'run> XdpSockets<'run> {
    /// Creates the backend of the worker with index `worker` on the link, for up to `capacity`
    /// connections.
    pub(crate) fn new(link: Arc<XdpLink>, worker: u32, capacity: usize) -> XdpSockets<'run> {
        let ports = link.ports_of(worker);
        let port = LinkPort::new(link, worker);
        let window = port.receive_capacity() / capacity.max(1);
        let config = StackConfig {
            mtu: port.mtu(),
            window: window.clamp(WINDOW_MIN, WINDOW_MAX) as u32,
            reassembly_bytes: REASSEMBLY_BYTES,
            clock_base_millis: setup::monotonic_millis(),
            secret: setup::secret(),
        };
        let mut connections = Vec::new();
        connections.resize_with(capacity, || None);
        XdpSockets {
            port,
            stack: TcpStack::new(config, 0),
            connections,
            ready: VecDeque::new(),
            received: ReceivedBytes::None,
            ports,
            clock: BackendClock::new(),
        }
    }

    /// Starts the clock at `epoch`, which all workers of a load share.
    pub(crate) fn start_clock(&mut self, epoch: Instant) {
        self.clock.start(epoch);
    }

    fn connection(&mut self, key: Key) -> Option<&mut XdpConnection<'run>> {
        let place = self.connections.get_mut(key.index as usize)?.as_mut();
        place.filter(|connection| connection.key == key)
    }

    /// Begins to connect. Returns the stack's handle of the connection.
    fn open(&mut self, key: Key, route: Route<'_>) -> io::Result<Handle> {
        let Peer::Tcp(remote) = *route.peer else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let source = route.source.and_then(|source| source.address);
        let local = self.port.prepare(remote, source)?;
        let options = ConnectOptions {
            nodelay: route.nodelay,
            window: route.buffers,
        };
        let now = self.clock.stack_now();
        let opened = self.open_in_stack(key, local, remote, options, now);
        opened.map_err(|error| {
            io::Error::from_raw_os_error(match error {
                ConnectError::AddressInUse | ConnectError::PortsExhausted => libc::EADDRNOTAVAIL,
                ConnectError::VersionMismatch => libc::EAFNOSUPPORT,
            })
        })
    }

    /// Opens a connection in the stack. If queues can be predicted, chooses a free local port whose
    /// packets arrive at a queue of this worker. If there is no such port, another worker passes
    /// the packets on.
    fn open_in_stack(
        &mut self,
        key: Key,
        local: IpAddr,
        remote: SocketAddr,
        options: ConnectOptions,
        now: u64,
    ) -> Result<Handle, ConnectError> {
        let (stack, tag) = (&mut self.stack, key.to_bits());
        if let Some(hash) = self.port.receive_hash() {
            let arrives_here = |port| {
                self.port
                    .owns_queue(hash.queue(remote, SocketAddr::new(local, port)))
            };
            let from = (
                local,
                self.ports.clone(),
                &arrives_here as &dyn Fn(u16) -> bool,
            );
            match stack.connect_where(tag, from, remote, options, now) {
                Err(ConnectError::PortsExhausted) => {}
                result => return result,
            }
        }
        stack.connect_from(tag, local, self.ports.clone(), remote, options, now)
    }

    /// Passes to the stack as many bytes of a connection's send as the stack accepts. Returns true
    /// if the send is complete.
    fn push_send(&mut self, key: Key) -> bool {
        let now = self.clock.cached();
        let Some(connection) = self.connections[key.index as usize].as_mut() else {
            return false;
        };
        let (Some(handle), Some((outgoing, pushed))) =
            (connection.handle, connection.sending.as_mut())
        else {
            return false;
        };
        let total = outgoing.bytes().len();
        loop {
            let chunk = match outgoing {
                Outgoing::Shared(bytes) => {
                    *pushed = total;
                    Chunk::Shared(bytes)
                }
                Outgoing::Owned(bytes) => {
                    let end = total.min(*pushed + COPIED_BYTES_MAX);
                    let mut buffer = self.stack.take_spare_buffer().unwrap_or_default();
                    buffer.clear();
                    buffer.extend_from_slice(&bytes[*pushed..end]);
                    *pushed = end;
                    Chunk::Owned(buffer)
                }
            };
            match self.stack.send(handle, chunk, now) {
                SendState::Accepted if *pushed == total => return true,
                SendState::Accepted => {}
                // If the connection has ended, its failure was already reported or will be.
                SendState::Waiting | SendState::Ended => return false,
            }
        }
    }

    /// Continues a send after the stack has gained space for it. Returns the send's completion if
    /// it is complete.
    fn on_space(&mut self, key: Key) -> Option<Completion> {
        let connection = self.connection(key)?;
        let (outgoing, pushed) = connection.sending.as_ref()?;
        if *pushed < outgoing.bytes().len() && !self.push_send(key) {
            return None;
        }
        let (outgoing, _) = self.connection(key)?.sending.take()?;
        Some(match outgoing {
            Outgoing::Owned(buffer) => Completion::Sent(key, Some(buffer)),
            Outgoing::Shared(_) => Completion::Sent(key, None),
        })
    }

    /// Translates an event of the stack to a completion. Events of closed connections have none.
    fn on_event(&mut self, event: Event) -> Option<Completion> {
        let (Event::Connected(tag)
        | Event::SendSpace(tag)
        | Event::Received(tag, _)
        | Event::Reassembled(tag, _)
        | Event::Closed(tag)
        | Event::Failed(tag, _)) = event;
        let key = Key::from_bits(tag);
        let connection = self.connection(key)?;
        match event {
            Event::Connected(_) => {
                connection.stage = XdpStage::Open;
                Some(Completion::Connected(key))
            }
            Event::SendSpace(_) => self.on_space(key),
            Event::Received(_, range) => {
                self.received = ReceivedBytes::InPacket(range);
                Some(Completion::Received(key))
            }
            Event::Reassembled(_, bytes) => {
                self.received = ReceivedBytes::Reassembled(bytes);
                Some(Completion::Received(key))
            }
            Event::Closed(_) => {
                connection.stage = XdpStage::HalfClosed;
                Some(Completion::Closed(key))
            }
            Event::Failed(_, failure) => {
                let operation = match connection.stage {
                    XdpStage::Connecting => Operation::Connect,
                    XdpStage::HalfClosed => Operation::Send,
                    _ => Operation::Receive,
                };
                connection.stage = XdpStage::Failed;
                connection.unsent = connection.unsent_bytes();
                let was_sending = connection.sending.take().is_some();
                // After the peer has closed its side, only a send can fail.
                let is_reported = operation != Operation::Send || was_sending;
                is_reported.then(|| Completion::Failed(key, operation, error_of(failure)))
            }
        }
    }

    /// Handles expired timers, returns the memory of handled frames to the kernel, and sends the
    /// packets that are due.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.clock.read();
        if self.stack.next_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeouts(now);
        }
        self.port.refill();
        self.transmit(now)
    }

    fn transmit(&mut self, now: u64) -> io::Result<()> {
        for _ in 0..PACKETS_PER_WAIT_MAX {
            if !self.stack.wants_transmit() {
                break;
            }
            let Some(buffer) = self.port.packet_buffer()? else {
                break;
            };
            let Some(length) = self.stack.poll_transmit(now, buffer) else {
                break;
            };
            self.port.commit(length);
        }
        self.port.flush()
    }

    /// Returns true if [`Sockets::next`] may return a completion.
    fn has_work(&mut self) -> bool {
        !self.ready.is_empty() || self.stack.has_events() || self.port.has_received()
    }

    /// Returns the time at which a sleep must end, on the stack's clock.
    fn sleep_limit(&self, until: Nanos) -> u64 {
        let mut limit = self.clock.stack_time(until);
        if let Some(timeout) = self.stack.next_timeout() {
            limit = limit.min(timeout);
        }
        if self.stack.wants_transmit() || self.port.has_unsent() {
            limit = limit.min(self.clock.cached() + RETRY_PAUSE.0);
        }
        limit
    }

    /// Sleeps until there is work, and handles timers.
    fn sleep(&mut self, until: Nanos) -> io::Result<()> {
        if self.has_work() {
            return Ok(());
        }
        let limit = self.sleep_limit(until);
        self.port.sleep(self.clock.created(), limit)?;
        let now = self.clock.read();
        if self.stack.next_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeouts(now);
        }
        Ok(())
    }

    /// Waits for the orderly end of closed connections, and resets connections that don't end.
    /// Thousands of resets take several turns.
    fn linger(&mut self) -> io::Result<()> {
        self.turn_until(LINGER, |it| it.stack.connection_count() == 0)?;
        self.stack.abort_all(self.clock.read());
        self.turn()?;
        self.turn_until(LINGER, |it| {
            !it.stack.wants_transmit() && !it.port.has_unsent()
        })
    }

    /// Sends and receives without the worker, until a condition holds or the time limit is reached.
    fn turn_until(&mut self, limit: Nanos, is_done: impl Fn(&Self) -> bool) -> io::Result<()> {
        let end = self.clock.stack_now() + limit.0;
        while !is_done(self) && self.clock.stack_now() < end {
            let until = self.clock.load_time(end);
            self.wait(until)?;
            while self.next().is_some() {}
        }
        Ok(())
    }
}

/// Returns the error that the kernel would report for a failure.
fn error_of(failure: Failure) -> io::Error {
    io::Error::from_raw_os_error(match failure {
        Failure::Refused | Failure::Unreachable(Unreachable::Port) => libc::ECONNREFUSED,
        Failure::Reset => libc::ECONNRESET,
        Failure::TimedOut => libc::ETIMEDOUT,
        Failure::Unreachable(Unreachable::Host | Unreachable::Prohibited) => libc::EHOSTUNREACH,
    })
}

impl XdpConnection<'_> {
    fn unsent_bytes(&self) -> usize {
        match &self.sending {
            Some((outgoing, pushed)) => outgoing.bytes().len() - pushed,
            None => self.unsent,
        }
    }
}

impl Sockets for XdpSockets<'_> {
    // A packet in the ring has already been received by the kernel, so handling a response costs
    // less than the sleep before it.

    fn now(&self) -> Nanos {
        self.clock.load_time(self.clock.stack_now())
    }

    fn cached_now(&self) -> Nanos {
        self.clock.load_time(self.clock.cached())
    }

    fn connect(&mut self, key: Key, route: Route<'_>) {
        let opened = self.open(key, route);
        let (handle, error) = match opened {
            Ok(handle) => (Some(handle), None),
            Err(error) => (None, Some(error)),
        };
        self.connections[key.index as usize] = Some(XdpConnection {
            key,
            handle,
            stage: match handle {
                Some(_) => XdpStage::Connecting,
                None => XdpStage::Failed,
            },
            sending: None,
            unsent: 0,
        });
        self.ready
            .extend(error.map(|error| Completion::Failed(key, Operation::Connect, error)));
    }

    fn local_address(&self, key: Key) -> Option<SocketAddr> {
        let connection = self.connections.get(key.index as usize)?.as_ref()?;
        let is_open = connection.key == key && connection.stage != XdpStage::Connecting;
        self.stack
            .local_address(connection.handle.filter(|_| is_open)?)
    }

    fn close(&mut self, key: Key, how: Close) {
        let place = self.connections.get_mut(key.index as usize);
        let Some(connection) = place.and_then(|c| c.take_if(|c| c.key == key)) else {
            return;
        };
        self.ready.retain(|completion| completion.key() != key);
        let mode = match how {
            // Without the bytes that the stack did not accept, the stream would have a gap.
            Close::Orderly if connection.unsent_bytes() == 0 => CloseMode::Orderly,
            Close::Orderly | Close::Abort => CloseMode::Abort,
        };
        if let Some(handle) = connection.handle {
            self.stack.close(handle, mode, self.clock.cached());
        }
        if self.stack.queued_resets() >= QUEUED_RESETS_MAX {
            // If sending fails, the next turn reports the error.
            let _ = self.transmit(self.clock.cached());
        }
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        self.turn()?;
        self.sleep(until)
    }

    /// First sleeps without watching the interface. Packets that arrive during this sleep cause no
    /// wake-up, which saves work on both sides.
    fn wait_coalesced(&mut self, until: Nanos, batch: WaitBatch) -> io::Result<()> {
        self.turn()?;
        let enough = batch.max_completions.min(GATHERED_PACKETS);
        let is_idle = self.ready.is_empty() && !self.stack.has_events();
        if is_idle && self.port.received_count() < enough {
            let limit = self.clock.cached() + batch.max_wait.0;
            self.port
                .pause(self.clock.created(), limit.min(self.sleep_limit(until)));
        }
        self.sleep(until)
    }

    fn next(&mut self) -> Option<Completion> {
        self.received = ReceivedBytes::None;
        if let Some(completion) = self.ready.pop_front() {
            return Some(completion);
        }
        loop {
            while let Some(event) = self.stack.poll_event() {
                if let Some(completion) = self.on_event(event) {
                    return Some(completion);
                }
            }
            self.port.next_packet()?;
            let now = self.clock.read();
            self.stack.handle_packet(now, self.port.packet());
        }
    }

    fn counts(&self) -> SocketCounts {
        let mut used = self.port.usage();
        let counts = self.stack.counts();
        used.retransmitted = counts.retransmitted;
        used.timeouts = counts.timeouts;
        used.out_of_order = counts.out_of_order;
        used.bad_packets = counts.malformed + counts.bad_checksums;
        SocketCounts {
            xdp: Some(used),
            ..SocketCounts::default()
        }
    }
}

impl<'run> ByteSockets<'run> for XdpSockets<'run> {
    fn send(&mut self, key: Key, bytes: Outgoing<'run>) -> Sending {
        let Some(connection) = self.connection(key) else {
            return Sending::Done;
        };
        connection.sending = Some((bytes, 0));
        if !self.push_send(key) {
            return Sending::InFlight;
        }
        let sent = self.connection(key).and_then(|it| it.sending.take());
        match sent {
            Some((Outgoing::Owned(buffer), _)) => {
                self.ready.push_back(Completion::Sent(key, Some(buffer)));
                Sending::InFlight
            }
            _ => Sending::Done,
        }
    }

    fn unsent(&self, key: Key) -> u64 {
        let connection = self.connections.get(key.index as usize);
        let connection = connection.and_then(Option::as_ref);
        let connection = connection.filter(|connection| connection.key == key);
        connection.map_or(0, |connection| {
            let in_stack = connection.handle.map_or(0, |it| self.stack.unsent(it));
            (connection.unsent_bytes() + in_stack) as u64
        })
    }

    fn received(&self) -> &[u8] {
        match &self.received {
            ReceivedBytes::None => &[],
            ReceivedBytes::InPacket(range) => {
                self.port.packet().get(range.clone()).unwrap_or_default()
            }
            ReceivedBytes::Reassembled(bytes) => bytes,
        }
    }
}

impl Drop for XdpSockets<'_> {
    /// Resets open connections and sends the remaining bytes of closed ones. Then passes on packets
    /// that belong to other workers until all workers have ended.
    fn drop(&mut self) {
        for index in 0..self.connections.len() {
            if let Some(key) = self.connections[index].as_ref().map(|it| it.key) {
                self.close(key, Close::Abort);
            }
        }
        // An error means that the interface is gone, and nothing can be sent any more.
        let _ = self.linger();
        let _ = self.port.serve_others(self.clock.created());
    }
}
