//! The receiving side of a connection: order, window and acknowledgments.

use crate::reassembly::Reassembly;
use crate::segment::{SackBlocks, Timestamps};
use crate::sequence::Sequence;

/// Maximum delay of an acknowledgment, in nanoseconds; RFC 9293 §3.8.6.3 permits up to 500 ms.
const ACK_DELAY: u64 = 40_000_000;
/// Assumed size of a full segment, in bytes, until larger segments have arrived (RFC 9293 §3.7.1).
const SEGMENT_SIZE_DEFAULT: u32 = 536;
/// Age after which the peer's last timestamp no longer identifies old segments, in nanoseconds (RFC
/// 7323 §5.5).
const TIMESTAMP_AGE_MAX: u64 = 24 * 86_400 * 1_000_000_000;

/// Time at which the next acknowledgment is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AckDue {
    No,
    /// An acknowledgment is due at this time, unless a segment carries it earlier.
    At(u64),
    Now,
}

/// The peer's timestamp in the last in-order segment (TS.Recent of RFC 7323).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RecentTimestamp {
    value: u32,
    at: u64,
}

/// State of the receiving side.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The next expected byte (RCV.NXT).
    next: Sequence,
    /// The offered window in bytes. It is constant, because the caller takes data immediately.
    window: u32,
    /// Shift of the window field; 0 without scaling.
    scale: u8,
    /// Bytes received since the last acknowledgment.
    unacknowledged: u32,
    /// Maximum number of data bytes per segment that this side announces to the peer.
    segment_size_max: u32,
    /// Assumed size of the peer's full segments in bytes: the size of the largest segment so far.
    /// With TCP options or a smaller MTU, full segments are smaller than the announced maximum.
    full_segment: u32,
    ack_due: AckDue,
    recent: Option<RecentTimestamp>,
    /// Acknowledgment number of the last segment sent (Last.ACK.sent of RFC 7323).
    last_ack: Sequence,
    /// Position of the peer's FIN, if it has arrived.
    fin: Option<Sequence>,
    reassembly: Option<Box<Reassembly>>,
}

/// Result of processing a segment's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TakenData {
    /// Number of bytes to skip at the start of the data, and number of bytes to deliver after the
    /// skipped ones.
    pub(crate) in_order: Option<(usize, usize)>,
    /// Memory used to store data out of order, in bytes.
    pub(crate) stored: usize,
    /// True if part of the data was dropped.
    pub(crate) dropped: bool,
}

impl Receiver {
    /// Creates the state before the peer's SYN has arrived.
    pub(crate) fn new(window: u32, scale: u8, segment_size: u32) -> Receiver {
        Receiver {
            next: Sequence(0),
            window,
            scale,
            unacknowledged: 0,
            segment_size_max: segment_size,
            full_segment: SEGMENT_SIZE_DEFAULT.min(segment_size),
            ack_due: AckDue::No,
            recent: None,
            last_ack: Sequence(0),
            fin: None,
            reassembly: None,
        }
    }

    /// Processes the peer's SYN. If the peer doesn't scale its windows, this side's windows aren't
    /// scaled either.
    pub(crate) fn open(&mut self, syn: Sequence, scaled: bool, timestamp: Option<u32>, now: u64) {
        self.next = syn + 1;
        self.last_ack = self.next;
        if !scaled {
            self.scale = 0;
            self.window = self.window.min(u32::from(u16::MAX));
        }
        self.recent = timestamp.map(|value| RecentTimestamp { value, at: now });
        self.ack_due = AckDue::Now;
    }

    /// Returns the sequence number of the next expected byte.
    pub(crate) fn next(&self) -> Sequence {
        self.next
    }

    /// Returns the peer's last timestamp, which segments to the peer echo.
    pub(crate) fn echo(&self) -> u32 {
        self.recent.map_or(0, |recent| recent.value)
    }

    /// Returns true if the timestamp shows that a segment is older than the last in-order segment
    /// (PAWS, RFC 7323 §5).
    pub(crate) fn is_old_duplicate(&self, timestamps: Option<Timestamps>, now: u64) -> bool {
        match (self.recent, timestamps) {
            (Some(recent), Some(timestamps)) => {
                let is_older = (timestamps.value.wrapping_sub(recent.value) as i32) < 0;
                is_older && now.saturating_sub(recent.at) < TIMESTAMP_AGE_MAX
            }
            _ => false,
        }
    }

    /// Records the timestamp of an acceptable segment (RFC 7323 §4.3).
    pub(crate) fn note_timestamp(
        &mut self,
        timestamps: Option<Timestamps>,
        start: Sequence,
        now: u64,
    ) {
        if let (Some(timestamps), Some(_)) = (timestamps, self.recent)
            && start.is_up_to(self.last_ack)
        {
            let value = timestamps.value;
            self.recent = Some(RecentTimestamp { value, at: now });
        }
    }

    /// Records the timestamp of a segment that the peer repeats because the acknowledgment was
    /// lost. The next acknowledgment echoes this timestamp. If it echoed the old one, the peer
    /// would measure a round-trip time as long as its timeout, and the timeout would grow with each
    /// such loss.
    pub(crate) fn note_repeated(
        &mut self,
        timestamps: Option<Timestamps>,
        start: Sequence,
        now: u64,
    ) {
        // As with data, only sequence numbers within a window are accepted.
        if start.is_before(self.next) && self.next.since(start) <= self.window {
            self.note_timestamp(timestamps, start, now);
        }
    }

    /// Returns true if a segment overlaps the window (RFC 9293 §3.10.7.4).
    pub(crate) fn is_acceptable(&self, start: Sequence, length: u32) -> bool {
        let window = self.window;
        let is_inside = |at: Sequence| at.since(self.next) < window;
        match (length, window) {
            (0, 0) => start == self.next,
            (0, _) => is_inside(start),
            (_, 0) => false,
            (length, _) => is_inside(start) || is_inside(start + length - 1),
        }
    }

    /// Accepts the data within the window, and schedules its acknowledgment. Data that was received
    /// before is skipped.
    pub(crate) fn take(&mut self, start: Sequence, data: &[u8], now: u64) -> TakenData {
        if data.is_empty() {
            return TakenData::default();
        }
        let size = (data.len() as u32).min(self.segment_size_max);
        self.full_segment = self.full_segment.max(size);
        let known = if start.is_before(self.next) {
            (self.next.since(start) as usize).min(data.len())
        } else {
            0
        };
        if known == data.len() {
            self.ack_due = AckDue::Now;
            return TakenData::default();
        }
        let start = start + known as u32;
        let room = (self.next + self.window).since(start) as usize;
        let length = (data.len() - known).min(room);
        let dropped = known + length < data.len();
        if start == self.next {
            self.advance(length as u32, now);
            let in_order = Some((known, length));
            return TakenData {
                in_order,
                stored: 0,
                dropped,
            };
        }
        // A duplicate acknowledgment reports the gap to the peer immediately (RFC 5681 §4.2).
        self.ack_due = AckDue::Now;
        let reassembly = self.reassembly.get_or_insert_default();
        let (stored, complete) = reassembly.insert(start, &data[known..known + length]);
        TakenData {
            in_order: None,
            stored,
            dropped: dropped || !complete,
        }
    }

    fn advance(&mut self, bytes: u32, now: u64) {
        self.next += bytes;
        self.unacknowledged += bytes;
        // Every second full segment is acknowledged immediately (RFC 5681 §4.2).
        if self.unacknowledged >= 2 * self.full_segment || self.reassembly.is_some() {
            self.ack_due = AckDue::Now;
        } else if self.ack_due == AckDue::No {
            self.ack_due = AckDue::At(now + ACK_DELAY);
        }
    }

    /// Removes the next stored data that is now in order. Returns the data and the released memory
    /// in bytes.
    pub(crate) fn take_stored(&mut self) -> Option<(Vec<u8>, usize)> {
        let reassembly = self.reassembly.as_deref_mut()?;
        let (data, size) = reassembly.take(self.next)?;
        if reassembly.is_empty() {
            self.reassembly = None;
        }
        self.next += data.len() as u32;
        self.unacknowledged += data.len() as u32;
        self.ack_due = AckDue::Now;
        Some((data, size))
    }

    /// Returns the memory used for out-of-order data, in bytes.
    pub(crate) fn stored(&self) -> usize {
        self.reassembly.as_ref().map_or(0, |r| r.memory())
    }

    /// Records the position of the peer's FIN.
    pub(crate) fn note_fin(&mut self, at: Sequence) {
        self.fin = Some(at);
    }

    /// Returns true once, when all data before the peer's FIN has been received.
    pub(crate) fn take_fin(&mut self) -> bool {
        let complete = self.fin == Some(self.next);
        if complete {
            self.fin = None;
            self.next += 1;
            self.ack_due = AckDue::Now;
        }
        complete
    }

    /// Requests an acknowledgment with the next transmission.
    pub(crate) fn acknowledge_now(&mut self) {
        self.ack_due = AckDue::Now;
    }

    /// Returns true if an acknowledgment is due before anything else is sent.
    pub(crate) fn must_acknowledge(&self) -> bool {
        self.ack_due == AckDue::Now
    }

    /// Returns the time at which a delayed acknowledgment is due.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self.ack_due {
            AckDue::At(at) => Some(at),
            AckDue::No | AckDue::Now => None,
        }
    }

    /// Makes a delayed acknowledgment due if its time has been reached.
    pub(crate) fn expire(&mut self, now: u64) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.ack_due = AckDue::Now;
        }
    }

    /// Records that a segment carried the acknowledgment.
    pub(crate) fn acknowledged(&mut self) {
        self.ack_due = AckDue::No;
        self.unacknowledged = 0;
        self.last_ack = self.next;
    }

    /// Returns the window field for the next segment.
    pub(crate) fn window_field(&self) -> u16 {
        u16::try_from(self.window >> self.scale).unwrap_or(u16::MAX)
    }

    /// Returns the window field of a SYN, which is never scaled (RFC 7323 §2.2).
    pub(crate) fn syn_window_field(&self) -> u16 {
        u16::try_from(self.window).unwrap_or(u16::MAX)
    }

    /// Returns the SACK blocks for the next acknowledgment.
    pub(crate) fn sack_blocks(&self) -> SackBlocks {
        self.reassembly
            .as_deref()
            .map(Reassembly::sack_blocks)
            .unwrap_or_default()
    }
}
