//! The stack: all connections of one link, their ports, timers and packets.

use core::net::{IpAddr, SocketAddr};
use std::collections::{HashMap, VecDeque};
use std::ops::{Range, RangeInclusive};

use crate::connection::{Connection, Failure, LinkLimits, Outcome, write_packet};
use crate::icmp::{IcmpError, IcmpErrorKind};
use crate::initial_sequence::InitialSequences;
use crate::packet::{IpPacket, PROTOCOL_ICMP_V4, PROTOCOL_ICMP_V6, PROTOCOL_TCP};
use crate::receiver::Receiver;
use crate::segment::{ChecksumState, Flags, Malformed, Segment};
use crate::send_queue::Chunk;
use crate::sender::Sender;
use crate::sequence::Sequence;
use crate::slots::{Handle, Slots};
use crate::timers::{Reminder, TimerWheel};
use crate::tuple::{FourTuple, TupleHash};

/// Number of queued bytes of a connection above which [`TcpStack::send`] reports
/// [`SendState::Waiting`].
pub const SEND_QUEUE_BYTES: usize = 128 * 1024;
/// Allowed receive windows, in bytes; larger ones can't be scaled (RFC 7323 §2.3).
const WINDOW_RANGE: RangeInclusive<u32> = 2_048..=1 << 30;
/// Maximum number of queued resets for segments of unknown connections.
const STRAY_RESETS_MAX: usize = 256;
/// Maximum number of closed connections that still have data or a FIN to deliver. Additional ones
/// are aborted.
const DETACHED_MAX: usize = 65_536;
/// Maximum number of spare buffers that are kept.
const SPARE_MAX: usize = 1_024;
/// Minimum IPv4 MTU that a router's report may set, in bytes.
const MTU_MIN_V4: u32 = 128;
/// Minimum MTU of IPv6, in bytes (RFC 8200 §5). Reports of smaller ones are ignored (RFC 8201 §4).
const MTU_MIN_V6: u32 = 1_280;

/// Settings of a stack.
#[derive(Debug, Clone, Copy)]
pub struct StackConfig {
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Receive window of a connection in bytes, 2 KiB to 1 GiB.
    pub window: u32,
    /// Memory in bytes that all connections together may use for out-of-order data.
    pub reassembly_bytes: usize,
    /// Value of the timestamp clock at time zero, in milliseconds. The clock must never go back,
    /// not even between two runs of the program, so that a peer that remembers a port's last
    /// connection accepts a new one (RFC 6191).
    pub clock_base_millis: u64,
    /// Seed of hashes and of initial sequence numbers (RFC 6528).
    pub secret: u64,
}

/// Settings of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectOptions {
    /// Send small segments immediately, without the Nagle algorithm.
    pub nodelay: bool,
    /// Receive window in bytes; `None` for the stack's default.
    pub window: Option<u32>,
}

/// Reason why a connection can't be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// A connection with the same addresses and ports exists.
    AddressInUse,
    /// All ports of the range are in use.
    PortsExhausted,
    /// The addresses are of different IP versions.
    VersionMismatch,
}

/// Result of [`TcpStack::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendState {
    /// The bytes are queued. They will be sent, and retransmitted as needed.
    Accepted,
    /// The bytes are queued, and the queue exceeds [`SEND_QUEUE_BYTES`]. [`Event::SendSpace`]
    /// follows when the queue is shorter again.
    Waiting,
    /// The connection has ended.
    Ended,
}

/// Mode of closing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// Deliver the queued bytes, then a FIN.
    Orderly,
    /// Send a reset and forget the connection.
    Abort,
}

/// An event of a connection, with the tag that the caller gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The connection is established.
    Connected(u64),
    /// The queue has space again after [`SendState::Waiting`].
    SendSpace(u64),
    /// Data arrived: a range of the packet that was handled last.
    Received(u64, Range<usize>),
    /// Data that had arrived out of order is now in order.
    Reassembled(u64, Vec<u8>),
    /// The peer closed its side in an orderly way.
    Closed(u64),
    /// The connection failed and no longer exists.
    Failed(u64, Failure),
}

impl Event {
    /// Returns the tag of the connection.
    pub fn tag(&self) -> u64 {
        match self {
            Event::Connected(tag)
            | Event::SendSpace(tag)
            | Event::Received(tag, _)
            | Event::Reassembled(tag, _)
            | Event::Closed(tag)
            | Event::Failed(tag, _) => *tag,
        }
    }
}

/// Counts since the start of a stack. Each reason for not using a packet has a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpCounts {
    /// Packets handled.
    pub received: u64,
    /// Packets written.
    pub sent: u64,
    /// Packets dropped because they are not IP, TCP or ICMP, or are fragments or truncated.
    pub malformed: u64,
    /// Segments dropped because of a wrong checksum.
    pub bad_checksums: u64,
    /// Segments whose checksum covers only the pseudo-header, because the peer left the rest to an
    /// adapter.
    pub offloaded_checksums: u64,
    /// Segments and ICMP errors that belong to no known connection.
    pub strays: u64,
    /// Segments of a connection that were dropped because they are old duplicates, outside the
    /// window, or invalid.
    pub unacceptable: u64,
    /// ICMP messages other than valid errors about a TCP segment.
    pub ignored_icmp: u64,
    /// Resets for unknown connections that were dropped because too many were queued.
    pub dropped_resets: u64,
    /// Segments of which a part was dropped because too much out-of-order data was stored.
    pub dropped_data: u64,
    /// Segments stored out of order.
    pub out_of_order: u64,
    /// Segments retransmitted by connections that have ended.
    pub retransmitted: u64,
    /// Retransmission timeouts of connections that have ended.
    pub timeouts: u64,
    /// Connections aborted because too many were closing.
    pub aborted_closes: u64,
}

/// A reset to send.
#[derive(Debug, Clone, Copy)]
struct Reset {
    local: SocketAddr,
    remote: SocketAddr,
    segment: Segment,
}

/// TCP stack that manages all connections of a link. The crate's documentation has an example.
#[derive(Debug)]
pub struct TcpStack<'a> {
    config: StackConfig,
    limits: LinkLimits,
    slots: Slots<Connection<'a>>,
    by_tuple: HashMap<FourTuple, u32, TupleHash>,
    ready: VecDeque<Handle>,
    wheel: TimerWheel,
    expired: Vec<Reminder>,
    events: VecDeque<Event>,
    resets: VecDeque<Reset>,
    spare_buffers: Vec<Vec<u8>>,
    sequences: InitialSequences,
    next_port: u32,
    stored: usize,
    detached: usize,
    counts: TcpCounts,
}

impl<'a> TcpStack<'a> {
    /// Creates a stack without connections.
    pub fn new(config: StackConfig, now: u64) -> TcpStack<'a> {
        TcpStack {
            config,
            limits: LinkLimits {
                mtu: config.mtu,
                timestamp_base: config.clock_base_millis as u32,
            },
            slots: Slots::default(),
            by_tuple: HashMap::with_hasher(TupleHash {
                secret: config.secret,
            }),
            ready: VecDeque::new(),
            wheel: TimerWheel::new(now),
            expired: Vec::new(),
            events: VecDeque::new(),
            resets: VecDeque::new(),
            spare_buffers: Vec::new(),
            sequences: InitialSequences::new(config.clock_base_millis, config.secret),
            next_port: config.secret as u32,
            stored: 0,
            detached: 0,
            counts: TcpCounts::default(),
        }
    }

    /// Returns the counts since the stack was created.
    pub fn counts(&self) -> TcpCounts {
        self.counts
    }

    /// Returns the number of connections, including closed ones that still have data to deliver.
    pub fn connection_count(&self) -> usize {
        self.slots.len()
    }

    /// Starts a connection from a port of the range that is free for this peer. The connection's
    /// events carry `tag`.
    ///
    /// # Errors
    ///
    /// Returns an error if no port in the range is free, or if the addresses are of different IP
    /// versions.
    pub fn connect_from(
        &mut self,
        tag: u64,
        local: IpAddr,
        ports: RangeInclusive<u16>,
        remote: SocketAddr,
        options: ConnectOptions,
        now: u64,
    ) -> Result<Handle, ConnectError> {
        self.connect_where(tag, (local, ports, &|_| true), remote, options, now)
    }

    /// Like [`TcpStack::connect_from`], but uses only ports that a function accepts.
    ///
    /// # Errors
    ///
    /// Returns an error if no accepted port is free, or if the addresses are of different IP
    /// versions.
    pub fn connect_where(
        &mut self,
        tag: u64,
        (local, ports, accepts): (IpAddr, RangeInclusive<u16>, &dyn Fn(u16) -> bool),
        remote: SocketAddr,
        options: ConnectOptions,
        now: u64,
    ) -> Result<Handle, ConnectError> {
        let first = u32::from(*ports.start());
        let count = (u32::from(*ports.end()) + 1).saturating_sub(first);
        for _ in 0..count {
            let port = (first + self.next_port % count) as u16;
            self.next_port = self.next_port.wrapping_add(1);
            if !accepts(port) {
                continue;
            }
            let local = SocketAddr::new(local, port);
            match self.connect(tag, local, remote, options, now) {
                Err(ConnectError::AddressInUse) => {}
                result => return result,
            }
        }
        Err(ConnectError::PortsExhausted)
    }

    /// Starts a connection from an address and port. The connection's events carry `tag`.
    ///
    /// # Errors
    ///
    /// Returns an error if a connection with the same addresses and ports exists, or if the
    /// addresses are of different IP versions.
    pub fn connect(
        &mut self,
        tag: u64,
        local: SocketAddr,
        remote: SocketAddr,
        options: ConnectOptions,
        now: u64,
    ) -> Result<Handle, ConnectError> {
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(ConnectError::VersionMismatch);
        }
        // Packets carry neither the scope nor the flow information of IPv6.
        let tuple = FourTuple {
            local: SocketAddr::new(local.ip(), local.port()),
            remote: SocketAddr::new(remote.ip(), remote.port()),
        };
        if self.by_tuple.contains_key(&tuple) {
            return Err(ConnectError::AddressInUse);
        }
        let window = options.window.unwrap_or(self.config.window);
        let window = window.clamp(*WINDOW_RANGE.start(), *WINDOW_RANGE.end());
        let scale = (window >> 16)
            .checked_ilog2()
            .map_or(0, |log| log as u8 + 1);
        let sender = Sender::new(self.sequences.next(&tuple, now), options.nodelay);
        let receiver = Receiver::new(window, scale, self.config.mtu.saturating_sub(40));
        let connection = Connection::new(tuple, tag, sender, receiver, scale, now);
        let handle = self.slots.insert(connection);
        self.by_tuple.insert(tuple, handle.index);
        self.make_ready(handle);
        self.schedule(handle);
        Ok(handle)
    }

    /// Queues bytes to send on a connection.
    pub fn send(&mut self, handle: Handle, chunk: Chunk<'a>, now: u64) -> SendState {
        let Some(connection) = self.slots.get_mut(handle).filter(|c| !c.detached) else {
            return SendState::Ended;
        };
        connection.sender.push(chunk);
        if !connection.is_connecting() {
            connection.sender.arm_persist(now);
        }
        connection.is_blocked = connection.sender.queued() > SEND_QUEUE_BYTES;
        let state = if connection.is_blocked {
            SendState::Waiting
        } else {
            SendState::Accepted
        };
        self.make_ready(handle);
        state
    }

    /// Returns the number of queued bytes of a connection that were never sent.
    pub fn unsent(&self, handle: Handle) -> usize {
        self.slots
            .get(handle)
            .map_or(0, |connection| connection.sender.unsent())
    }

    /// Returns the local address and port of a connection.
    pub fn local_address(&self, handle: Handle) -> Option<SocketAddr> {
        self.slots
            .get(handle)
            .map(|connection| connection.tuple.local)
    }

    /// Returns a buffer whose bytes were sent and acknowledged, so that it can be reused.
    pub fn take_spare_buffer(&mut self) -> Option<Vec<u8>> {
        self.spare_buffers.pop()
    }

    /// Closes a connection. No event with its tag follows, not even a pending one. Does nothing if
    /// the connection has ended.
    pub fn close(&mut self, handle: Handle, mode: CloseMode, now: u64) {
        let Some(connection) = self.slots.get_mut(handle).filter(|c| !c.detached) else {
            return;
        };
        let tag = connection.tag;
        self.events.retain(|event| event.tag() != tag);
        let is_full = self.detached >= DETACHED_MAX;
        if mode == CloseMode::Abort || connection.is_connecting() || is_full {
            if mode == CloseMode::Orderly && is_full {
                self.counts.aborted_closes += 1;
            }
            let (local, remote) = (connection.tuple.local, connection.tuple.remote);
            if let Some(segment) = connection.reset(&self.limits, now) {
                self.resets.push_back(Reset {
                    local,
                    remote,
                    segment,
                });
            }
            self.remove(handle, now);
            return;
        }
        connection.detached = true;
        connection.finish(now);
        self.detached += 1;
        self.make_ready(handle);
    }

    /// Handles a received IP packet. The caller must read the packet's events before it passes the
    /// next packet.
    pub fn handle_packet(&mut self, now: u64, packet: &[u8]) {
        self.counts.received += 1;
        let Some(ip) = IpPacket::parse(packet) else {
            self.counts.malformed += 1;
            return;
        };
        let payload = &packet[ip.payload.clone()];
        match ip.protocol {
            PROTOCOL_TCP => self.handle_tcp(now, &ip, payload),
            PROTOCOL_ICMP_V4 | PROTOCOL_ICMP_V6 => match IcmpError::parse(ip.protocol, payload) {
                Some(error) => self.handle_icmp(&error, now),
                None => self.counts.ignored_icmp += 1,
            },
            _ => self.counts.malformed += 1,
        }
    }

    fn handle_tcp(&mut self, now: u64, ip: &IpPacket, payload: &[u8]) {
        let (segment, data, checksum) = match Segment::parse(payload, ip.source, ip.target) {
            Ok(parsed) => parsed,
            Err(Malformed::Header) => {
                self.counts.malformed += 1;
                return;
            }
            Err(Malformed::Checksum) => {
                self.counts.bad_checksums += 1;
                return;
            }
        };
        self.counts.offloaded_checksums += u64::from(checksum == ChecksumState::Offloaded);
        let tuple = FourTuple {
            local: SocketAddr::new(ip.target, segment.target_port),
            remote: SocketAddr::new(ip.source, segment.source_port),
        };
        let handle = self
            .by_tuple
            .get(&tuple)
            .and_then(|index| self.slots.handle(*index));
        let Some(handle) = handle else {
            self.counts.strays += 1;
            return self.reject_stray(tuple, &segment, data.len() as u32);
        };
        let base = ip.payload.start + data.start;
        self.handle_segment(now, handle, &segment, &payload[data], base);
    }

    /// Passes a segment to its connection. The segment's data begins at `base` in the packet.
    fn handle_segment(
        &mut self,
        now: u64,
        handle: Handle,
        segment: &Segment,
        data: &[u8],
        base: usize,
    ) {
        // Once the memory for out-of-order data is used up, only in-order data is accepted.
        let may_store = self.stored < self.config.reassembly_bytes;
        let Some(connection) = self.slots.get_mut(handle) else {
            return;
        };
        let (limits, spare) = (&self.limits, &mut self.spare_buffers);
        let handled = connection.handle(segment, data, limits, now, spare, may_store);
        self.stored += handled.stored;
        self.counts.out_of_order += u64::from(handled.stored > 0);
        self.counts.dropped_data += u64::from(handled.dropped);
        let tag = connection.tag;
        if connection.is_blocked && connection.sender.queued() <= SEND_QUEUE_BYTES {
            connection.is_blocked = false;
            if !connection.detached {
                self.events.push_back(Event::SendSpace(tag));
            }
        }
        match handled.outcome {
            Outcome::Nothing => {}
            Outcome::Dropped => self.counts.unacceptable += 1,
            Outcome::Connected => self.events.push_back(Event::Connected(tag)),
            Outcome::Failed(failure) => return self.fail(handle, failure, now),
            Outcome::Reject(sequence) => {
                let (tuple, connecting) = (connection.tuple, connection.is_connecting());
                self.push_stray_reset(tuple, sequence, None);
                if !connecting {
                    return self.remove(handle, now);
                }
            }
        }
        self.deliver(handle, handled.data, base);
        self.spare_buffers.truncate(SPARE_MAX);
        self.make_ready(handle);
    }

    /// Reports in-order data, stored data that follows it, and the peer's FIN.
    fn deliver(&mut self, handle: Handle, data: Range<usize>, base: usize) {
        let Some(connection) = self.slots.get_mut(handle) else {
            return;
        };
        let tag = connection.tag;
        if !data.is_empty() {
            self.events
                .push_back(Event::Received(tag, base + data.start..base + data.end));
        }
        while let Some((data, size)) = connection.receiver.take_stored() {
            self.stored = self.stored.saturating_sub(size);
            if !data.is_empty() {
                self.events.push_back(Event::Reassembled(tag, data));
            }
        }
        if connection.take_fin() && !connection.detached {
            self.events.push_back(Event::Closed(tag));
        }
    }

    fn handle_icmp(&mut self, error: &IcmpError, now: u64) {
        let tuple = FourTuple {
            local: error.local,
            remote: error.remote,
        };
        let handle = self
            .by_tuple
            .get(&tuple)
            .and_then(|index| self.slots.handle(*index));
        let Some((handle, connection)) = handle.and_then(|h| Some((h, self.slots.get_mut(h)?)))
        else {
            self.counts.strays += 1;
            return;
        };
        match error.kind {
            IcmpErrorKind::Unreachable(kind) => {
                if let Outcome::Failed(failure) =
                    connection.handle_unreachable(error.sequence, kind)
                {
                    self.fail(handle, failure, now);
                }
            }
            IcmpErrorKind::TooBig { mtu } if tuple.remote.is_ipv6() && mtu < MTU_MIN_V6 => {
                self.counts.ignored_icmp += 1;
            }
            IcmpErrorKind::TooBig { mtu } => {
                connection.handle_too_big(error.sequence, mtu.max(MTU_MIN_V4));
                self.make_ready(handle);
            }
        }
    }

    /// Queues a reset in response to a segment of an unknown connection (RFC 9293 §3.10.7.1).
    fn reject_stray(&mut self, tuple: FourTuple, segment: &Segment, length: u32) {
        let flags = segment.flags;
        if flags.has(Flags::RST) {
            return;
        }
        if flags.has(Flags::ACK) {
            return self.push_stray_reset(tuple, segment.acknowledgment, None);
        }
        let length = length + u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        self.push_stray_reset(tuple, Sequence(0), Some(segment.sequence + length));
    }

    fn push_stray_reset(
        &mut self,
        tuple: FourTuple,
        sequence: Sequence,
        acknowledgment: Option<Sequence>,
    ) {
        if self.resets.len() >= STRAY_RESETS_MAX {
            self.counts.dropped_resets += 1;
            return;
        }
        let segment = Segment {
            source_port: tuple.local.port(),
            target_port: tuple.remote.port(),
            sequence,
            acknowledgment: acknowledgment.unwrap_or_default(),
            flags: match acknowledgment {
                Some(_) => Flags::RST.and(Flags::ACK),
                None => Flags::RST,
            },
            ..Segment::default()
        };
        let (local, remote) = (tuple.local, tuple.remote);
        self.resets.push_back(Reset {
            local,
            remote,
            segment,
        });
    }

    /// Returns the next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns true if [`TcpStack::poll_event`] has an event.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Resets all connections, including closed ones that still have data to deliver. No event
    /// follows.
    pub fn abort_all(&mut self, now: u64) {
        for index in 0..self.slots.capacity() {
            let Some(handle) = self.slots.handle(index) else {
                continue;
            };
            if let Some(connection) = self.slots.get(handle) {
                let (local, remote) = (connection.tuple.local, connection.tuple.remote);
                if let Some(segment) = connection.reset(&self.limits, now) {
                    self.resets.push_back(Reset {
                        local,
                        remote,
                        segment,
                    });
                }
            }
            self.remove(handle, now);
        }
        self.events.clear();
    }

    /// Returns the number of resets that are waiting for [`TcpStack::poll_transmit`].
    pub fn queued_resets(&self) -> usize {
        self.resets.len()
    }

    /// Returns true if [`TcpStack::poll_transmit`] may have a packet.
    pub fn wants_transmit(&self) -> bool {
        !self.ready.is_empty() || !self.resets.is_empty()
    }

    /// Writes the next IP packet that is due into a buffer of at least the MTU, and returns its
    /// size. If several received packets are handled before this call, fewer packets are sent,
    /// because data carries the acknowledgments.
    pub fn poll_transmit(&mut self, now: u64, packet: &mut [u8]) -> Option<usize> {
        if let Some(reset) = self.resets.pop_front() {
            let size = write_packet(packet, reset.local, reset.remote, &reset.segment, 0);
            self.counts.sent += u64::from(size.is_some());
            return size;
        }
        while let Some(&handle) = self.ready.front() {
            if let Some(connection) = self.slots.get_mut(handle) {
                if let Some(size) = connection.transmit(packet, &self.limits, now) {
                    self.counts.sent += 1;
                    return Some(size);
                }
                connection.is_ready = false;
                if connection.has_ended() {
                    self.remove(handle, now)
                } else {
                    self.schedule(handle)
                }
            }
            self.ready.pop_front();
        }
        None
    }

    /// Returns the time at which [`TcpStack::handle_timeouts`] should be called next. The time may
    /// be earlier than the next timeout.
    pub fn next_timeout(&self) -> Option<u64> {
        self.wheel.next_expiry()
    }

    /// Handles all timers that expired by `now`: retransmits, acknowledges, or ends connections.
    pub fn handle_timeouts(&mut self, now: u64) {
        let mut expired = std::mem::take(&mut self.expired);
        self.wheel.expire(now, &mut expired);
        for reminder in expired.drain(..) {
            let handle = Handle {
                index: reminder.index,
                generation: reminder.generation,
            };
            let Some(connection) = self.slots.get_mut(handle) else {
                continue;
            };
            if connection.timer_slot != Some(reminder.slot) {
                continue;
            }
            connection.timer_slot = None;
            if connection.deadline().is_some_and(|at| at <= now) {
                if let Outcome::Failed(failure) = connection.expire(now) {
                    self.fail(handle, failure, now);
                    continue;
                }
                self.make_ready(handle);
            }
            self.schedule(handle);
        }
        self.expired = expired;
    }

    /// Adds a reminder for the connection's deadline, unless there is an earlier reminder.
    fn schedule(&mut self, handle: Handle) {
        let Some(connection) = self.slots.get_mut(handle) else {
            return;
        };
        let Some(deadline) = connection.deadline() else {
            return;
        };
        let slot = self.wheel.slot_for(deadline);
        if connection.timer_slot.is_none_or(|present| slot < present) {
            connection.timer_slot = Some(slot);
            let Handle { index, generation } = handle;
            self.wheel.insert(Reminder {
                index,
                generation,
                slot,
            });
        }
    }

    fn make_ready(&mut self, handle: Handle) {
        if let Some(connection) = self.slots.get_mut(handle)
            && !connection.is_ready
        {
            connection.is_ready = true;
            self.ready.push_back(handle);
        }
    }

    /// Reports a failure and removes the connection.
    fn fail(&mut self, handle: Handle, failure: Failure, now: u64) {
        if let Some(connection) = self.slots.get(handle) {
            if !connection.detached {
                self.events
                    .push_back(Event::Failed(connection.tag, failure));
            }
            self.remove(handle, now);
        }
    }

    fn remove(&mut self, handle: Handle, now: u64) {
        let Some(connection) = self.slots.remove(handle) else {
            return;
        };
        let (first, last) = (connection.initial(), connection.sender.sent());
        self.sequences
            .note_used(&connection.tuple, first, last, now);
        self.by_tuple.remove(&connection.tuple);
        self.detached -= usize::from(connection.detached);
        self.stored = self.stored.saturating_sub(connection.receiver.stored());
        let losses = connection.sender.losses();
        self.counts.retransmitted += u64::from(losses.retransmitted);
        self.counts.timeouts += u64::from(losses.timeouts);
        let queue = connection.sender.into_queue();
        queue.free(&mut self.spare_buffers);
    }
}

#[cfg(test)]
mod tests;
