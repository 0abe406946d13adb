//! One connection: the client's part of the state diagram of RFC 9293 §3.3.2.
//!
//! ```text
//!  SYN-SENT ──SYN,ACK──► ESTABLISHED ──FIN──► CLOSE-WAIT
//!                          │ close               │ close
//!                      FIN-WAIT ──FIN──► (end)  LAST-ACK ──ACK──► (end)
//! ```
//!
//! FIN-WAIT covers FIN-WAIT-1, FIN-WAIT-2 and CLOSING, because the sending side knows whether its
//! FIN was acknowledged. TIME-WAIT needs no state, because the next connection with the same
//! addresses and ports has a later timestamp and a higher sequence number (RFC 6191).

use core::net::SocketAddr;
use std::ops::Range;

use crate::icmp::Unreachable;
use crate::packet;
use crate::receiver::Receiver;
use crate::round_trip::RoundTrip;
use crate::segment::{Flags, SACK_BLOCKS_MAX, Segment, TCP_HEADER, TIMESTAMP_OPTION, Timestamps};
use crate::sender::Sender;
use crate::sequence::Sequence;
use crate::tuple::FourTuple;

/// Number of SYN retransmissions after which the connection fails, about two minutes after its
/// start.
const SYN_RETRANSMISSIONS_MAX: u8 = 6;
/// Delay, in nanoseconds, before a SYN is resent if the peer still has an earlier connection from
/// this port in TIME-WAIT. The delay lets the reset that ends the earlier connection arrive first.
/// Linux waits for two timer ticks.
const REJECTED_SYN_PAUSE: u64 = 2_000_000;
/// Maximum wait for the peer's FIN after this side has closed, in nanoseconds.
const FIN_WAIT_TIMEOUT: u64 = 60_000_000_000;
/// Minimum interval between acknowledgments of unacceptable segments, in nanoseconds (RFC 5961 §7).
const CHALLENGE_INTERVAL: u64 = 1_000_000;
/// Minimum segment size after a router reported a smaller MTU, in bytes.
const SEGMENT_SIZE_MIN: u32 = 88;
/// Segment size for a peer that announces none, in bytes (RFC 9293 §3.7.1).
const SEGMENT_SIZE_DEFAULT: u16 = 536;

/// Reason why a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The peer refused the connection with a reset.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer did not acknowledge anything for a long time.
    TimedOut,
    /// A router or the peer reported that the packets can't be delivered.
    Unreachable(Unreachable),
}

/// Position in the state diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SynSent {
        /// True if the SYN is to be sent or retransmitted.
        due: bool,
        /// Time of the next retransmission.
        deadline: u64,
        round_trip: RoundTrip,
        /// Time of the first SYN; `None` after a retransmission, which makes the round trip
        /// ambiguous.
        sent_at: Option<u64>,
        /// Number of SYNs sent.
        attempts: u8,
    },
    Established,
    CloseWait,
    FinWait {
        /// Time by which the peer's FIN must arrive.
        deadline: u64,
    },
    LastAck,
    Ended,
}

/// Settings that all connections of a stack share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkLimits {
    /// Largest IP packet, in bytes.
    pub(crate) mtu: u32,
    /// Offset that is added to the time in milliseconds to get a segment's timestamp.
    pub(crate) timestamp_base: u32,
}

/// Effect of a segment or of a timeout on the connection, apart from data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to report.
    Nothing,
    /// The segment was dropped: it is old, outside the window, or impossible.
    Dropped,
    /// The connection was established.
    Connected,
    /// The segment is not part of this connection. The response is a reset with this sequence
    /// number.
    Reject(Sequence),
    /// The connection failed.
    Failed(Failure),
}

/// Result of handling a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handled {
    pub(crate) outcome: Outcome,
    /// Range of the in-order data within the segment's data.
    pub(crate) data: Range<usize>,
    /// Memory used to store data out of order, in bytes.
    pub(crate) stored: usize,
    /// True if part of the data was dropped.
    pub(crate) dropped: bool,
}

impl Handled {
    fn only(outcome: Outcome) -> Handled {
        Handled {
            outcome,
            data: 0..0,
            stored: 0,
            dropped: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection<'a> {
    pub(crate) tuple: FourTuple,
    /// Tag that the caller gave the connection.
    pub(crate) tag: u64,
    /// True if the caller has closed the connection and gets no more events.
    pub(crate) detached: bool,
    /// True if the connection is in the list of connections with something to send.
    pub(crate) is_ready: bool,
    /// Slot of the timer wheel with an entry for the connection.
    pub(crate) timer_slot: Option<u64>,
    /// True if the send queue exceeds its limit and the caller is waiting for space.
    pub(crate) is_blocked: bool,
    phase: Phase,
    window_scale: u8,
    has_timestamps: bool,
    initial: Sequence,
    /// Time of the last acknowledgment of an unacceptable segment.
    challenged_at: Option<u64>,
    pub(crate) sender: Sender<'a>,
    pub(crate) receiver: Receiver,
}

impl<'a> Connection<'a> {
    /// Creates a connection whose SYN is due.
    pub(crate) fn new(
        tuple: FourTuple,
        tag: u64,
        sender: Sender<'a>,
        receiver: Receiver,
        window_scale: u8,
        now: u64,
    ) -> Connection<'a> {
        let initial = sender.next();
        Connection {
            tuple,
            tag,
            detached: false,
            is_ready: false,
            timer_slot: None,
            is_blocked: false,
            phase: Phase::SynSent {
                due: true,
                deadline: now + RoundTrip::NEW.timeout(),
                round_trip: RoundTrip::NEW,
                sent_at: None,
                attempts: 0,
            },
            window_scale,
            has_timestamps: true,
            initial,
            challenged_at: None,
            sender,
            receiver,
        }
    }

    /// Returns true until the peer has acknowledged the SYN.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::SynSent { .. })
    }

    /// Returns true once there is nothing left to send or receive.
    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended && !self.receiver.must_acknowledge()
    }

    /// Sends a FIN after the queued data. Must be called only on an established connection.
    pub(crate) fn finish(&mut self, now: u64) {
        self.phase = match self.phase {
            Phase::Established => Phase::FinWait {
                deadline: now + FIN_WAIT_TIMEOUT,
            },
            Phase::CloseWait => Phase::LastAck,
            other => other,
        };
        self.sender.finish();
    }

    /// Returns the initial sequence number, which the SYN carries.
    pub(crate) fn initial(&self) -> Sequence {
        self.initial
    }

    /// Handles a segment with data. Data that is in order is returned as a range within the
    /// segment. Data that is out of order is stored only if `may_store` is true.
    pub(crate) fn handle(
        &mut self,
        segment: &Segment,
        data: &[u8],
        limits: &LinkLimits,
        now: u64,
        spare: &mut Vec<Vec<u8>>,
        may_store: bool,
    ) -> Handled {
        if self.is_connecting() {
            return Handled::only(self.handle_handshake(segment, limits, now));
        }
        let flags = segment.flags;
        let length = data.len() as u32 + u32::from(flags.has(Flags::FIN));
        if !flags.has(Flags::RST) && self.receiver.is_old_duplicate(segment.timestamps, now) {
            return Handled::only(self.challenge(now));
        }
        if !self.receiver.is_acceptable(segment.sequence, length) {
            if flags.has(Flags::RST) {
                return Handled::only(Outcome::Dropped);
            }
            self.receiver
                .note_repeated(segment.timestamps, segment.sequence, now);
            return Handled::only(self.challenge(now));
        }
        if flags.has(Flags::RST) {
            return Handled::only(self.handle_reset(segment, now));
        }
        if flags.has(Flags::SYN) || !flags.has(Flags::ACK) {
            return Handled::only(self.challenge(now));
        }
        if !self.sender.is_valid(segment.acknowledgment) {
            return Handled::only(self.challenge(now));
        }
        self.receiver
            .note_timestamp(segment.timestamps, segment.sequence, now);
        let effect = self.sender.acknowledge(segment, length, now, spare);
        if effect.fin && self.phase == Phase::LastAck {
            self.phase = Phase::Ended;
            return Handled::only(Outcome::Nothing);
        }
        self.handle_data(segment, data, now, may_store)
    }

    fn handle_data(
        &mut self,
        segment: &Segment,
        data: &[u8],
        now: u64,
        may_store: bool,
    ) -> Handled {
        let mut handled = Handled::only(Outcome::Nothing);
        if self.detached && !data.is_empty() {
            // The caller has closed the connection, so the data would never be read (RFC 9293
            // §3.6.1).
            self.phase = Phase::Ended;
            handled.outcome = Outcome::Reject(self.sender.sent());
            return handled;
        }
        let is_ahead = segment.sequence.is_after(self.receiver.next());
        if is_ahead && !may_store && !data.is_empty() {
            // The FIN is also dropped, because its position would be wrong without the data before
            // it.
            self.receiver.acknowledge_now();
            handled.dropped = true;
            return handled;
        }
        let taken = self.receiver.take(segment.sequence, data, now);
        if let Some((skipped, length)) = taken.in_order {
            handled.data = skipped..skipped + length;
        }
        handled.stored = taken.stored;
        handled.dropped = taken.dropped;
        if segment.flags.has(Flags::FIN) {
            self.receiver.note_fin(segment.sequence + data.len() as u32);
        }
        handled
    }

    /// Processes the peer's FIN once all data before it has been received. Returns true if the
    /// caller must report that the peer has closed its side.
    pub(crate) fn take_fin(&mut self) -> bool {
        if !self.receiver.take_fin() {
            return false;
        }
        match self.phase {
            Phase::Established => self.phase = Phase::CloseWait,
            Phase::FinWait { .. } if self.sender.is_drained() => self.phase = Phase::Ended,
            Phase::FinWait { .. } => self.phase = Phase::LastAck,
            Phase::SynSent { .. } | Phase::CloseWait | Phase::LastAck | Phase::Ended => {}
        }
        true
    }

    fn handle_handshake(&mut self, segment: &Segment, limits: &LinkLimits, now: u64) -> Outcome {
        let Phase::SynSent {
            sent_at,
            attempts,
            deadline,
            ..
        } = &mut self.phase
        else {
            return Outcome::Nothing;
        };
        let (sent_at, attempts) = (*sent_at, *attempts);
        let flags = segment.flags;
        let acknowledges = flags.has(Flags::ACK) && segment.acknowledgment == self.initial + 1;
        if flags.has(Flags::ACK) && (!acknowledges || attempts == 0) {
            // The segment belongs to an earlier connection, which the reset ends (RFC 9293
            // §3.10.7.3).
            if flags.has(Flags::RST) {
                return Outcome::Dropped;
            }
            if attempts == 1 {
                *deadline = (*deadline).min(now + REJECTED_SYN_PAUSE);
            }
            return Outcome::Reject(segment.acknowledgment);
        }
        if flags.has(Flags::RST) {
            return if acknowledges {
                Outcome::Failed(Failure::Refused)
            } else {
                Outcome::Dropped
            };
        }
        if !flags.has(Flags::SYN) || !acknowledges {
            return Outcome::Dropped;
        }
        self.has_timestamps = segment.timestamps.is_some();
        let timestamp = segment.timestamps.map(|timestamps| timestamps.value);
        let scaled = segment.window_scale.is_some();
        self.receiver.open(segment.sequence, scaled, timestamp, now);
        let offered = u32::from(segment.mss.unwrap_or(SEGMENT_SIZE_DEFAULT).max(64));
        let segment_size = offered.min(self.segment_size_within(limits.mtu));
        let options = if self.has_timestamps {
            TIMESTAMP_OPTION as u32
        } else {
            0
        };
        let round_trip = sent_at.map(|at| now.saturating_sub(at));
        self.sender
            .open(segment, segment_size - options, round_trip);
        self.sender.arm_persist(now);
        self.phase = Phase::Established;
        Outcome::Connected
    }

    /// Ends the connection if the reset has exactly the expected sequence number; otherwise, sends
    /// a challenge acknowledgment (RFC 5961 §3.2).
    fn handle_reset(&mut self, segment: &Segment, now: u64) -> Outcome {
        if segment.sequence != self.receiver.next() {
            return self.challenge(now);
        }
        self.phase = Phase::Ended;
        Outcome::Failed(Failure::Reset)
    }

    /// Acknowledges an unacceptable segment, but not too often.
    fn challenge(&mut self, now: u64) -> Outcome {
        let is_due = |at: u64| now.saturating_sub(at) >= CHALLENGE_INTERVAL;
        if self.challenged_at.is_none_or(is_due) {
            self.challenged_at = Some(now);
            self.receiver.acknowledge_now();
        }
        Outcome::Dropped
    }

    /// Handles an ICMP error about a segment in flight. The error ends the connection only if the
    /// connection is not established yet.
    pub(crate) fn handle_unreachable(&mut self, sequence: Sequence, kind: Unreachable) -> Outcome {
        // An established connection may survive, because the route may be restored (RFC 5461 §2).
        if self.is_connecting() && sequence == self.initial {
            Outcome::Failed(Failure::Unreachable(kind))
        } else {
            Outcome::Nothing
        }
    }

    /// Lowers the segment size to fit `mtu`, which a router reported for a segment in flight.
    pub(crate) fn handle_too_big(&mut self, sequence: Sequence, mtu: u32) {
        if !self.is_connecting() && self.sender.is_in_flight(sequence) {
            let options = if self.has_timestamps {
                TIMESTAMP_OPTION as u32
            } else {
                0
            };
            let size = self.segment_size_within(mtu).saturating_sub(options);
            self.sender.lower_segment_size(size.max(SEGMENT_SIZE_MIN));
        }
    }

    /// Returns the number of bytes of data and options that fit into a packet of this size.
    fn segment_size_within(&self, mtu: u32) -> u32 {
        let headers = packet::header_length(self.tuple.remote.ip()) + TCP_HEADER;
        mtu.saturating_sub(headers as u32).max(64)
    }

    /// Returns the time at which [`Connection::expire`] must be called.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self.phase {
            Phase::SynSent { deadline, .. } => Some(deadline),
            phase => {
                let wait = match phase {
                    Phase::FinWait { deadline } => Some(deadline),
                    _ => None,
                };
                let timers = [self.sender.deadline(), self.receiver.deadline(), wait];
                timers.into_iter().flatten().min()
            }
        }
    }

    /// Handles timers that expired by `now`. Returns a failure if the peer has been silent for too
    /// long.
    pub(crate) fn expire(&mut self, now: u64) -> Outcome {
        if let Phase::SynSent {
            due,
            deadline,
            round_trip,
            ..
        } = &mut self.phase
        {
            if *deadline > now {
                return Outcome::Nothing;
            }
            if round_trip.back_off() > SYN_RETRANSMISSIONS_MAX {
                return Outcome::Failed(Failure::TimedOut);
            }
            *due = true;
            *deadline += round_trip.timeout();
            return Outcome::Nothing;
        }
        self.receiver.expire(now);
        let is_late = matches!(self.phase, Phase::FinWait { deadline } if deadline <= now);
        if self.sender.expire(now) && !is_late {
            Outcome::Nothing
        } else {
            Outcome::Failed(Failure::TimedOut)
        }
    }

    /// Writes the next packet that is due, if there is one, and returns its size.
    pub(crate) fn transmit(
        &mut self,
        packet: &mut [u8],
        limits: &LinkLimits,
        now: u64,
    ) -> Option<usize> {
        if let Phase::SynSent { .. } = self.phase {
            return self.transmit_syn(packet, limits, now);
        }
        let mut segment = self.header(limits, now);
        if let Some(transmission) = self.sender.plan() {
            segment.sequence = transmission.start;
            if transmission.push {
                segment.flags = segment.flags.and(Flags::PSH);
            }
            if transmission.fin {
                segment.flags = segment.flags.and(Flags::FIN);
            }
            self.add_sack(&mut segment, transmission.length);
            let ip_header = packet::header_length(self.tuple.remote.ip());
            let data = ip_header + segment.header_length();
            let end = data + transmission.length as usize;
            self.sender.copy(transmission, packet.get_mut(data..end)?);
            self.sender.sent_segment(transmission, now);
            self.receiver.acknowledged();
            return self.write(packet, &segment, transmission.length as usize);
        }
        let probe = self.sender.take_probe();
        if probe.is_none() && !self.receiver.must_acknowledge() {
            return None;
        }
        segment.sequence = probe.unwrap_or(segment.sequence);
        segment.sack = self.receiver.sack_blocks();
        self.receiver.acknowledged();
        self.write(packet, &segment, 0)
    }

    /// Adds SACK blocks to a segment with data, if they fit.
    fn add_sack(&self, segment: &mut Segment, length: u32) {
        if length == 0 || length + 8 * SACK_BLOCKS_MAX as u32 + 4 <= self.sender.segment_size() {
            segment.sack = self.receiver.sack_blocks();
        }
    }

    fn transmit_syn(&mut self, packet: &mut [u8], limits: &LinkLimits, now: u64) -> Option<usize> {
        let Phase::SynSent {
            due: due @ true,
            sent_at,
            attempts,
            ..
        } = &mut self.phase
        else {
            return None;
        };
        *due = false;
        *sent_at = (*attempts == 0).then_some(now);
        *attempts = attempts.saturating_add(1);
        let segment = Segment {
            flags: Flags::SYN,
            sequence: self.initial,
            acknowledgment: Sequence(0),
            window: self.receiver.syn_window_field(),
            mss: Some(u16::try_from(self.segment_size_within(limits.mtu)).unwrap_or(u16::MAX)),
            window_scale: Some(self.window_scale),
            sack_permitted: true,
            ..self.header(limits, now)
        };
        self.write(packet, &segment, 0)
    }

    /// Creates the header of a segment without data.
    fn header(&self, limits: &LinkLimits, now: u64) -> Segment {
        let timestamps = Timestamps {
            value: limits.timestamp_base.wrapping_add((now / 1_000_000) as u32),
            echo: self.receiver.echo(),
        };
        Segment {
            source_port: self.tuple.local.port(),
            target_port: self.tuple.remote.port(),
            sequence: self.sender.next(),
            acknowledgment: self.receiver.next(),
            flags: Flags::ACK,
            window: self.receiver.window_field(),
            timestamps: self.has_timestamps.then_some(timestamps),
            ..Segment::default()
        }
    }

    fn write(&self, packet: &mut [u8], segment: &Segment, data: usize) -> Option<usize> {
        write_packet(packet, self.tuple.local, self.tuple.remote, segment, data)
    }

    /// Creates the reset that aborts the connection; `None` if its SYN was never sent.
    pub(crate) fn reset(&self, limits: &LinkLimits, now: u64) -> Option<Segment> {
        let mut segment = self.header(limits, now);
        segment.sequence = self.sender.sent();
        segment.flags = Flags::RST.and(Flags::ACK);
        match self.phase {
            Phase::SynSent { attempts: 0, .. } | Phase::Ended => None,
            Phase::SynSent { .. } => {
                segment.sequence = self.initial + 1;
                segment.flags = Flags::RST;
                Some(segment)
            }
            _ => Some(segment),
        }
    }
}

/// Writes the headers of a packet whose `data` bytes are already in place. Returns the size of the
/// packet, or `None` if the buffer is too small.
pub(crate) fn write_packet(
    packet: &mut [u8],
    local: SocketAddr,
    remote: SocketAddr,
    segment: &Segment,
    data: usize,
) -> Option<usize> {
    let ip_header = packet::header_length(remote.ip());
    let length = segment.header_length() + data;
    let end = ip_header + length;
    let packet = packet.get_mut(..end)?;
    segment.write(&mut packet[ip_header..], local.ip(), remote.ip());
    packet::write_header(packet, local.ip(), remote.ip(), length);
    Some(end)
}
