//! The sending side of a connection: window, congestion control, loss recovery and retransmission.

use crate::round_trip::RoundTrip;
use crate::scoreboard::Scoreboard;
use crate::segment::Segment;
use crate::send_queue::{Chunk, SendQueue};
use crate::sequence::Sequence;

/// Number of duplicate acknowledgments that indicate a loss (RFC 5681 §3.2).
const DUPLICATES_OF_LOSS: u8 = 3;
/// Number of consecutive timeouts, without any acknowledgment, after which the connection fails.
/// With the shortest timeout, this takes almost three minutes. RFC 9293 §3.8.3 requires at least
/// 100 s.
const SILENT_TIMEOUTS_MAX: u8 = 9;

/// State of loss recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    /// No loss is known.
    Open { duplicates: u8 },
    /// Fast recovery, until everything up to `point` is acknowledged (RFC 6675 §5).
    Fast {
        point: Sequence,
        /// Position below which everything was retransmitted or received.
        retransmitted: Sequence,
        /// True if the next retransmission ignores the congestion window.
        forced: bool,
        duplicates: u8,
    },
    /// After a timeout: everything is sent again, up to `point` (RFC 5681 §3.1).
    Timeout { point: Sequence },
}

/// Purpose of the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendTimer {
    Off,
    /// Data is in flight.
    Retransmit(u64),
    /// The peer's window is closed (RFC 9293 §3.8.6.1).
    Persist(u64),
}

/// A segment to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transmission {
    pub(crate) start: Sequence,
    /// Number of data bytes.
    pub(crate) length: u32,
    /// True if the segment has the FIN flag.
    pub(crate) fin: bool,
    /// True if the segment has the last queued byte.
    pub(crate) push: bool,
    retransmission: bool,
}

/// Effect of an acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AckEffect {
    /// True if new data or the FIN was acknowledged.
    pub(crate) progress: bool,
    /// True if the FIN was acknowledged.
    pub(crate) fin: bool,
}

/// Numbers of retransmitted segments and of timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Losses {
    pub(crate) retransmitted: u32,
    pub(crate) timeouts: u32,
}

/// State of the sending side.
#[derive(Debug)]
pub(crate) struct Sender<'a> {
    queue: SendQueue<'a>,
    /// The first unacknowledged byte (SND.UNA).
    unacknowledged: Sequence,
    /// The next byte to send (SND.NXT).
    next: Sequence,
    /// The byte after the last one ever sent.
    sent: Sequence,
    /// True if a FIN follows the queued data.
    fin: bool,
    /// True if small segments need not wait for acknowledgments (no Nagle algorithm).
    nodelay: bool,
    /// True if the peer accepts SACK.
    sack: bool,
    /// True if a probe of a closed window is due.
    probe: bool,
    scale: u8,
    /// The peer's window in bytes (SND.WND).
    window: u32,
    /// Sequence and acknowledgment number of the last window update (SND.WL1, SND.WL2).
    window_update: (Sequence, Sequence),
    /// Maximum number of data bytes per segment.
    segment_size: u32,
    congestion_window: u32,
    slow_start_threshold: u32,
    recovery: Recovery,
    scoreboard: Option<Box<Scoreboard>>,
    timer: SendTimer,
    round_trip: RoundTrip,
    /// Number of timeouts since the peer last acknowledged data, or confirmed that its window is
    /// closed.
    silent_timeouts: u8,
    /// End position and send time of the segment whose round trip is measured.
    timed: Option<(Sequence, u64)>,
    losses: Losses,
}

impl<'a> Sender<'a> {
    /// Creates the state in which the SYN, with the initial sequence number `iss`, has not been
    /// acknowledged yet.
    pub(crate) fn new(iss: Sequence, nodelay: bool) -> Sender<'a> {
        Sender {
            queue: SendQueue::default(),
            unacknowledged: iss,
            next: iss,
            sent: iss,
            fin: false,
            nodelay,
            sack: false,
            probe: false,
            scale: 0,
            window: 0,
            window_update: (Sequence(0), iss),
            segment_size: 536,
            congestion_window: 0,
            slow_start_threshold: u32::MAX,
            recovery: Recovery::Open { duplicates: 0 },
            scoreboard: None,
            timer: SendTimer::Off,
            round_trip: RoundTrip::NEW,
            silent_timeouts: 0,
            timed: None,
            losses: Losses::default(),
        }
    }

    /// Processes the peer's SYN, which acknowledges this side's SYN. `segment_size` is the maximum
    /// number of data bytes per segment. `round_trip` is the time since the SYN; `None` if the SYN
    /// was retransmitted.
    pub(crate) fn open(&mut self, syn: &Segment, segment_size: u32, round_trip: Option<u64>) {
        self.unacknowledged += 1;
        self.next = self.unacknowledged;
        self.sent = self.unacknowledged;
        self.segment_size = segment_size.max(1);
        self.sack = syn.sack_permitted;
        self.scale = syn.window_scale.unwrap_or(0).min(14);
        self.window = u32::from(syn.window);
        self.window_update = (syn.sequence, syn.acknowledgment);
        self.congestion_window = match round_trip {
            // RFC 6928 §2.
            Some(_) => (10 * self.segment_size).min(14_600.max(2 * self.segment_size)),
            // RFC 5681 §3.1: one segment if the SYN was lost.
            None => self.segment_size,
        };
        if let Some(nanos) = round_trip {
            self.round_trip.sample(nanos);
        }
    }

    /// Returns the maximum number of data bytes per segment.
    pub(crate) fn segment_size(&self) -> u32 {
        self.segment_size
    }

    /// Returns the number of queued and unacknowledged bytes.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Returns the number of queued bytes that were never sent.
    pub(crate) fn unsent(&self) -> usize {
        let sent = self.sent.since(self.unacknowledged) as usize;
        self.queue.len().saturating_sub(sent)
    }

    pub(crate) fn push(&mut self, chunk: Chunk<'a>) {
        self.queue.push(chunk);
    }

    /// Sends a FIN after the queued data.
    pub(crate) fn finish(&mut self) {
        self.fin = true;
    }

    pub(crate) fn losses(&self) -> Losses {
        self.losses
    }

    /// Returns the sequence number for a segment without data.
    pub(crate) fn next(&self) -> Sequence {
        self.next
    }

    /// Returns the position after the last byte ever sent, which is the sequence number of a reset.
    pub(crate) fn sent(&self) -> Sequence {
        self.sent
    }

    /// Returns true if data with this sequence number is in flight. Only then is an ICMP error
    /// about it plausible (RFC 5927 §4.1).
    pub(crate) fn is_in_flight(&self, sequence: Sequence) -> bool {
        !sequence.is_before(self.unacknowledged) && sequence.is_before(self.sent)
    }

    /// Returns the queue, whose buffers can be reused.
    pub(crate) fn into_queue(self) -> SendQueue<'a> {
        self.queue
    }

    fn end_of_data(&self) -> Sequence {
        self.unacknowledged + self.queue.len() as u32
    }

    /// Returns the position after the last byte to be sent, or after the FIN if there is one. The
    /// position stays the same when the FIN is acknowledged.
    fn end(&self) -> Sequence {
        self.end_of_data() + u32::from(self.fin)
    }

    /// Returns the estimated number of bytes in the network (RFC 6675 §4).
    fn in_flight(&self) -> u32 {
        match (self.recovery, &self.scoreboard) {
            (Recovery::Open { .. } | Recovery::Timeout { .. }, _) => {
                self.next.since(self.unacknowledged)
            }
            (Recovery::Fast { retransmitted, .. }, Some(board)) => {
                let highest = board.highest().unwrap_or(self.unacknowledged);
                let resent = retransmitted.max(self.unacknowledged).min(highest);
                let again = resent.since(self.unacknowledged) - board.bytes_below(resent);
                again + self.sent.max(highest).since(highest)
            }
            (Recovery::Fast { duplicates, .. }, None) => {
                let left = u32::from(duplicates) * self.segment_size;
                self.sent.since(self.unacknowledged).saturating_sub(left)
            }
        }
    }

    /// Returns the next segment with data or FIN that may be sent now.
    pub(crate) fn plan(&self) -> Option<Transmission> {
        self.plan_retransmission().or_else(|| self.plan_next())
    }

    fn plan_retransmission(&self) -> Option<Transmission> {
        let Recovery::Fast {
            retransmitted,
            forced,
            ..
        } = self.recovery
        else {
            return None;
        };
        let from = retransmitted.max(self.unacknowledged);
        let (start, end) = match &self.scoreboard {
            Some(board) => board.next_hole(from)?,
            None if forced => (from, self.sent),
            None => return None,
        };
        let room = self.congestion_window.saturating_sub(self.in_flight());
        (forced || room >= self.segment_size)
            .then(|| self.segment(start, end, true))
            .flatten()
    }

    fn plan_next(&self) -> Option<Transmission> {
        let window_end = self.unacknowledged + self.window;
        let room = self.congestion_window.saturating_sub(self.in_flight());
        if room == 0 || !self.next.is_before(self.end()) {
            return None;
        }
        let limit = (self.next + room).min(window_end.max(self.next));
        let retransmission = self.next.is_before(self.sent);
        let transmission = self.segment(self.next, limit.min(self.end()), retransmission)?;
        let is_all = (transmission.start + transmission.length).0 == self.end_of_data().0;
        let is_full = transmission.length == self.segment_size;
        let is_idle = self.next == self.unacknowledged;
        // Sender's silly window avoidance and the Nagle algorithm (RFC 9293 §3.8.6.2.1, §3.7.4).
        let is_worthwhile = is_full || is_idle || (is_all && (self.nodelay || self.fin));
        is_worthwhile.then_some(transmission)
    }

    /// Returns the segment that begins at `start` and ends at `limit` or at the segment size.
    fn segment(
        &self,
        start: Sequence,
        limit: Sequence,
        retransmission: bool,
    ) -> Option<Transmission> {
        let data_end = self.end_of_data();
        let data = if start.is_before(data_end) {
            limit
                .min(data_end)
                .max(start)
                .since(start)
                .min(self.segment_size)
        } else {
            0
        };
        let after = start + data;
        // A FIN needs no space in the window, because it carries no data.
        let fin = self.fin && after == data_end && (data > 0 || start == data_end);
        if data == 0 && !fin {
            return None;
        }
        let push = after == data_end;
        Some(Transmission {
            start,
            length: data,
            fin,
            push,
            retransmission,
        })
    }

    /// Copies the data of a segment.
    pub(crate) fn copy(&self, transmission: Transmission, target: &mut [u8]) {
        let offset = transmission.start.since(self.unacknowledged) as usize;
        self.queue.copy(offset, target);
    }

    /// Records that a segment was sent.
    pub(crate) fn sent_segment(&mut self, transmission: Transmission, now: u64) {
        let end = transmission.start + transmission.length + u32::from(transmission.fin);
        if let Recovery::Fast {
            retransmitted,
            forced,
            ..
        } = &mut self.recovery
            && transmission.retransmission
        {
            *retransmitted = retransmitted.max(end);
            *forced = false;
        } else {
            self.next = end;
        }
        if transmission.retransmission {
            self.timed = None;
            self.losses.retransmitted += 1;
        } else if self.timed.is_none() {
            self.timed = Some((end, now));
        }
        self.next = self.next.max(self.unacknowledged);
        self.sent = self.sent.max(end);
        if !matches!(self.timer, SendTimer::Retransmit(_)) {
            self.timer = SendTimer::Retransmit(now + self.round_trip.timeout());
        }
    }

    /// Returns the sequence number of a probe if a closed window is due to be probed. The probe is
    /// a segment without data whose number is below the window, so the peer must acknowledge it
    /// (RFC 9293 §3.10.7.4).
    pub(crate) fn take_probe(&mut self) -> Option<Sequence> {
        std::mem::take(&mut self.probe).then(|| self.unacknowledged - 1)
    }

    /// Returns true if an acknowledgment number is valid (RFC 5961 §5.2). Otherwise, the segment
    /// must be dropped.
    pub(crate) fn is_valid(&self, acknowledgment: Sequence) -> bool {
        let oldest = self.unacknowledged - self.window.max(u32::from(u16::MAX));
        !acknowledgment.is_before(oldest) && acknowledgment.is_up_to(self.sent)
    }

    /// Processes the acknowledgment, window and SACK blocks of a valid segment with `length` bytes
    /// of data. Buffers that became free are added to `spare`.
    pub(crate) fn acknowledge(
        &mut self,
        segment: &Segment,
        length: u32,
        now: u64,
        spare: &mut Vec<Vec<u8>>,
    ) -> AckEffect {
        let acknowledgment = segment.acknowledgment;
        let sacked = self.take_sack(segment);
        let mut effect = AckEffect::default();
        let window = u32::from(segment.window) << self.scale;
        if acknowledgment.is_after(self.unacknowledged) {
            effect = self.advance(acknowledgment, now, spare);
        } else if acknowledgment == self.unacknowledged
            && self.sent != self.unacknowledged
            && length == 0
            && (sacked || window == self.window)
        {
            self.take_duplicate();
        }
        let (sequence, last) = self.window_update;
        let is_newer = sequence.is_before(segment.sequence)
            || (sequence == segment.sequence && last.is_up_to(acknowledgment));
        if is_newer {
            if self.window == 0 && window > 0 {
                self.round_trip.progress();
            }
            self.window = window;
            self.window_update = (segment.sequence, acknowledgment);
        }
        // If the data never arrives, segments that acknowledge nothing must not keep the connection
        // alive.
        if effect.progress || sacked || self.window == 0 {
            self.silent_timeouts = 0;
        }
        self.update_timer(effect.progress, now);
        effect
    }

    fn take_sack(&mut self, segment: &Segment) -> bool {
        let is_empty = segment.sack.iter().next().is_none();
        if !self.sack || is_empty || matches!(self.recovery, Recovery::Timeout { .. }) {
            return false;
        }
        let acknowledged = segment.acknowledgment.max(self.unacknowledged);
        let board = self.scoreboard.get_or_insert_default();
        board.add(&segment.sack, acknowledged, self.sent)
    }

    fn advance(
        &mut self,
        acknowledgment: Sequence,
        now: u64,
        spare: &mut Vec<Vec<u8>>,
    ) -> AckEffect {
        let in_flight = self.in_flight();
        let acknowledged = acknowledgment.since(self.unacknowledged);
        let data_end = self.end_of_data();
        let fin = self.fin && acknowledgment.is_after(data_end);
        let data = acknowledgment.min(data_end).since(self.unacknowledged);
        self.queue.acknowledge(data as usize, spare);
        self.unacknowledged = acknowledgment;
        self.next = self.next.max(acknowledgment);
        if fin {
            self.fin = false;
        }
        if let Some((end, sent_at)) = self.timed
            && end.is_up_to(acknowledgment)
        {
            self.round_trip.sample(now.saturating_sub(sent_at));
            self.timed = None;
        }
        self.round_trip.progress();
        if let Some(board) = &mut self.scoreboard {
            board.acknowledge(acknowledgment);
            if board.highest().is_none() {
                self.scoreboard = None;
            }
        }
        self.advance_recovery(acknowledgment, acknowledged, in_flight);
        AckEffect {
            progress: true,
            fin,
        }
    }

    fn advance_recovery(&mut self, acknowledgment: Sequence, acknowledged: u32, in_flight: u32) {
        match &mut self.recovery {
            Recovery::Fast { point, .. } if !acknowledgment.is_before(*point) => {
                self.congestion_window = self.slow_start_threshold.max(self.segment_size);
                self.recovery = Recovery::Open { duplicates: 0 };
            }
            Recovery::Fast {
                retransmitted,
                forced,
                duplicates,
                ..
            } => {
                // A partial acknowledgment shows the next loss (RFC 6582 §3.2).
                let segments = (acknowledged / self.segment_size).min(255) as u8;
                *duplicates = duplicates.saturating_sub(segments);
                if self.scoreboard.is_none() {
                    *retransmitted = acknowledgment;
                    *forced = true;
                }
            }
            Recovery::Timeout { point } if !acknowledgment.is_before(*point) => {
                self.recovery = Recovery::Open { duplicates: 0 };
                self.grow(acknowledged, in_flight);
            }
            Recovery::Timeout { .. } => self.grow(acknowledged, in_flight),
            Recovery::Open { duplicates } => {
                *duplicates = 0;
                self.grow(acknowledged, in_flight);
            }
        }
    }

    /// Slow start and congestion avoidance (RFC 5681 §3.1, with byte counting by RFC 3465). A
    /// congestion window that isn't fully used doesn't grow.
    fn grow(&mut self, acknowledged: u32, in_flight: u32) {
        if in_flight < self.congestion_window / 2 {
            return;
        }
        let size = self.segment_size;
        let growth = if self.congestion_window < self.slow_start_threshold {
            acknowledged.min(2 * size)
        } else {
            let share = u64::from(size) * u64::from(acknowledged.min(size));
            (share / u64::from(self.congestion_window.max(1))).max(1) as u32
        };
        self.congestion_window = self.congestion_window.saturating_add(growth).min(1 << 30);
    }

    fn take_duplicate(&mut self) {
        match &mut self.recovery {
            Recovery::Open { duplicates } => {
                *duplicates = duplicates.saturating_add(1);
                let received = self.scoreboard.as_ref().map_or(0, |board| board.bytes());
                let lost = received > u32::from(DUPLICATES_OF_LOSS - 1) * self.segment_size;
                if *duplicates >= DUPLICATES_OF_LOSS || lost {
                    self.enter_fast_recovery();
                }
            }
            Recovery::Fast { duplicates, .. } => *duplicates = duplicates.saturating_add(1),
            Recovery::Timeout { .. } => {}
        }
    }

    fn enter_fast_recovery(&mut self) {
        let in_flight = self.sent.since(self.unacknowledged);
        self.slow_start_threshold = (in_flight / 2).max(2 * self.segment_size);
        self.congestion_window = self.slow_start_threshold;
        self.recovery = Recovery::Fast {
            point: self.sent,
            retransmitted: self.unacknowledged,
            forced: true,
            duplicates: DUPLICATES_OF_LOSS,
        };
    }

    /// Restarts the timer after an acknowledgment (RFC 6298 §5).
    fn update_timer(&mut self, progress: bool, now: u64) {
        let is_in_flight = self.sent != self.unacknowledged;
        let is_blocked = self.window == 0 && self.next.is_before(self.end());
        self.timer = match (is_in_flight, is_blocked, self.timer) {
            (true, _, timer @ SendTimer::Retransmit(_)) if !progress => timer,
            (true, ..) => SendTimer::Retransmit(now + self.round_trip.timeout()),
            (false, true, timer @ SendTimer::Persist(_)) => timer,
            (false, true, _) => SendTimer::Persist(now + self.round_trip.timeout()),
            (false, false, _) => SendTimer::Off,
        };
    }

    /// Starts the probe timer if new data was queued while the window is closed.
    pub(crate) fn arm_persist(&mut self, now: u64) {
        if self.timer == SendTimer::Off {
            self.update_timer(false, now);
        }
    }

    /// Returns the time of the next retransmission or probe.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self.timer {
            SendTimer::Off => None,
            SendTimer::Retransmit(at) | SendTimer::Persist(at) => Some(at),
        }
    }

    /// Handles an expired timer. Returns false if the peer has been silent for too long.
    pub(crate) fn expire(&mut self, now: u64) -> bool {
        if self.deadline().is_none_or(|at| at > now) {
            return true;
        }
        self.silent_timeouts += 1;
        if self.silent_timeouts > SILENT_TIMEOUTS_MAX {
            return false;
        }
        self.round_trip.back_off();
        if matches!(self.timer, SendTimer::Persist(_)) {
            self.probe = true;
            self.timer = SendTimer::Persist(now + self.round_trip.timeout());
            return true;
        }
        // Nothing can be retransmitted into a closed window, but a probe shows when the window
        // opens.
        self.probe = self.window == 0;
        self.losses.timeouts += 1;
        if !matches!(self.recovery, Recovery::Timeout { .. }) {
            let in_flight = self.sent.since(self.unacknowledged);
            self.slow_start_threshold = (in_flight / 2).max(2 * self.segment_size);
        }
        self.congestion_window = self.segment_size;
        self.recovery = Recovery::Timeout { point: self.sent };
        self.scoreboard = None;
        self.timed = None;
        self.next = self.unacknowledged;
        self.timer = SendTimer::Retransmit(now + self.round_trip.timeout());
        true
    }

    /// Lowers the segment size to the size that a router allows, and retransmits everything in
    /// flight (RFC 1191 §6).
    pub(crate) fn lower_segment_size(&mut self, segment_size: u32) {
        if segment_size < self.segment_size {
            self.segment_size = segment_size.max(1);
            self.next = self.unacknowledged;
            self.scoreboard = None;
            self.timed = None;
            self.recovery = Recovery::Timeout { point: self.sent };
        }
    }

    /// Returns true if everything was sent and acknowledged, FIN included.
    pub(crate) fn is_drained(&self) -> bool {
        self.sent == self.unacknowledged && self.queue.len() == 0 && !self.fin
    }
}
