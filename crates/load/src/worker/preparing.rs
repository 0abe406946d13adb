//! Connections are opened before the load begins, where several machines begin it at one moment: what
//! the first requests would have to wait for is not the moment's doing.
//!
//! ```text
//!  open ─► ready ─► mind, while others get ready ─► begin_anew ─► the clock starts ─► run
//! ```
//!
//! Nothing of this is the load's: it begins with a worker as new as any, but for its slots, of which
//! some have a connection on which nothing was asked yet. One that could not be opened, or that the
//! server closed again, is opened when a request is due on it.

use std::io;
use std::time::Duration;

use prony_record::{Finding, FindingId, Nanos, Outcome, Severity};

use super::opening::Opening;
use super::{LONGEST_WAIT, Pace, Worker};
use crate::connection::Reason;
use crate::progress::Control;
use crate::reasons::Reasons;
use crate::slot::State;
use crate::socket::{Close, Sockets};

/// After so long those that are still under way are given up: whoever starts the load waits.
const LONGEST: Nanos = Nanos::from_secs(5);
/// Completions worked off before more connections are begun.
const LONGEST_TURN: u32 = 256;
/// Reasons that are spelled out, the most frequent first.
const NAMED_REASONS: usize = 3;

/// What became of the connections that were to be opened before a load.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreconnectReport {
    wanted: u32,
    /// Those that were there when it began.
    open: u32,
    /// Why others were not.
    reasons: Reasons,
}

impl PreconnectReport {
    /// Adds another worker's.
    pub(crate) fn merge(&mut self, other: PreconnectReport) {
        self.wanted += other.wanted;
        self.open += other.open;
        self.reasons.merge(other.reasons);
    }

    /// What there is to be said of it: nothing where all are open.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let missing = self.wanted - self.open;
        if missing == 0 {
            return None;
        }
        let by_count = self.reasons.by_count();
        let (named, others) = by_count.split_at(by_count.len().min(NAMED_REASONS));
        let mut why: Vec<String> = named
            .iter()
            .map(|(outcome, reason, count)| format!("{}: {reason} ({count}×)", outcome.name()))
            .collect();
        let others: u64 = others.iter().map(|(.., count)| count).sum();
        if others > 0 {
            why.push(format!("further reasons ({others}×)"));
        }
        let told: u64 = by_count.iter().map(|(.., count)| count).sum();
        let late = u64::from(missing).saturating_sub(told);
        if late > 0 {
            why.push(format!("not made in time ({late}×)"));
        }
        let text = format!(
            "{missing} of {} connections were not open when the load began, and were opened when \
             requests were due on them: {}.",
            self.wanted,
            why.join("; ")
        );
        Some(Finding::new(
            FindingId::ConnectionsLate,
            Severity::Note,
            text,
        ))
    }
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// How many connections are opened before the load: as many as begin with it.
    fn opened_before(&self) -> u32 {
        let spec = self.spec;
        // Of several servers none is known to be a slot's before it has a request.
        let can_be = spec.keepalive && self.targets.len() == 1 && self.script.is_none();
        if !spec.opens_before || !can_be {
            return 0;
        }
        let used = match (spec.limit, spec.warmup, &self.pace) {
            (Some(_), Nanos::ZERO, Pace::Closed { left }) => *left,
            (Some(limit), Nanos::ZERO, Pace::Open(_)) => self.share.part(limit),
            _ => u64::MAX,
        };
        u32::try_from(used).unwrap_or(u32::MAX).min(self.homes)
    }

    /// Opens connections before the load begins, if it says so; what the sockets' clock says meanwhile
    /// counts for nothing. Ends when all are made or have failed, or after [`LONGEST`].
    ///
    /// # Errors
    ///
    /// Where the system's waiting fails.
    pub(crate) fn open_before(&mut self, control: &Control) -> io::Result<()> {
        let wanted = self.opened_before();
        if wanted == 0 {
            return Ok(());
        }
        self.is_preparing = true;
        self.prepared.wanted = wanted;
        self.opening = Some(Opening::before(wanted, self.spec));
        let (mut begun, mut unsettled) = (0, wanted);
        loop {
            let now = self.sockets.now();
            if now >= LONGEST || control.is_stopped() {
                return Ok(());
            }
            self.run_timers(now);
            while begun < wanted && self.opening.as_ref().is_some_and(|it| !it.is_full(now)) {
                self.begin_before(begun, now);
                begun += 1;
            }
            self.send_listed();
            // From the last one on: who is settled stays so, as a rule.
            while begun == wanted && unsettled > 0 && self.is_settled(unsettled - 1) {
                unsettled -= 1;
            }
            if unsettled == 0 {
                return Ok(());
            }
            self.sockets.wait(self.wake_before(now))?;
            self.take_in();
        }
    }

    /// Whether connections were opened before the load, which has not begun.
    pub(crate) fn is_preparing(&self) -> bool {
        self.is_preparing
    }

    /// Looks, without waiting, at what has happened to connections that wait for the load's begin.
    ///
    /// # Errors
    ///
    /// Where the system's looking fails.
    pub(crate) fn mind(&mut self) -> io::Result<()> {
        self.run_timers(self.sockets.now());
        self.sockets.wait(Nanos::ZERO)?;
        self.take_in();
        self.send_listed();
        Ok(())
    }

    /// The worker as it begins the load: new, with the connections that are there. What the sockets'
    /// clock said so far is nowhere in it, so that the clock may start.
    pub(crate) fn begin_anew(mut self) -> Worker<'run, S> {
        if !self.is_preparing {
            return self;
        }
        let wanted = self.prepared.wanted;
        let open = (0..wanted)
            .filter(|&index| self.keep_or_close(index))
            .count() as u32;
        self.prepared.open = open;
        let mut anew = Worker::new(self.spec, self.share, self.sockets);
        anew.opening = Opening::new(&anew.pace, wanted - open, self.spec);
        anew.slots = self.slots;
        anew.next_connection = self.next_connection;
        anew.listed = self.listed;
        anew.tls = self.tls;
        anew.negotiated = self.negotiated;
        anew.buffers = self.buffers;
        anew.prepared = self.prepared;
        anew
    }

    /// The clock of the sockets starts, by this.
    pub(crate) fn start_clock(&mut self, start: impl FnOnce(&mut S)) {
        start(&mut self.sockets);
    }

    /// A slot's connection begins, for no request.
    fn begin_before(&mut self, index: u32, now: Nanos) {
        self.slots[index as usize].seat = self.seats_of(index).start;
        self.open_early(index);
        self.connect(index, now);
    }

    /// Whether there is nothing to wait for on a slot.
    fn is_settled(&self, index: u32) -> bool {
        let slot = &self.slots[index as usize];
        match slot.state {
            State::Connecting | State::Tunneling | State::Securing => false,
            State::Vacant | State::BackingOff | State::Draining => true,
            State::Open => {
                let multiplexed = slot.connection.multiplexed();
                !slot.sending && multiplexed.is_none_or(|it| it.is_established())
            }
        }
    }

    fn wake_before(&self, now: Nanos) -> Nanos {
        let opening = self.opening.as_ref();
        let alarm = self.alarms.peek().map_or(Nanos::MAX, |alarm| alarm.0.0);
        opening
            .map_or(Nanos::MAX, |opening| opening.next_begin(now))
            .min(alarm)
            .min(self.connect_deadlines.next())
            .min(self.drain_deadlines.next())
            .min(LONGEST)
            .min(now + LONGEST_WAIT)
    }

    /// Works off what has happened; nothing is started by it.
    fn take_in(&mut self) {
        for _ in 0..LONGEST_TURN {
            let Some(completion) = self.sockets.next() else {
                return;
            };
            let now = self.sockets.cached_now();
            let index = completion.key().index;
            self.on_completion(completion, now);
            self.tell_before(index);
        }
    }

    /// Sends what goes before all else on a connection in clear, and would share a send with its first
    /// request: a server may not wait for that.
    fn tell_before(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let is_plain = !slot.connection.is_tls() && !slot.connection.is_multiplexed();
        if slot.state == State::Open && is_plain && !slot.sending && !slot.send_failed {
            let out = std::mem::take(&mut slot.spare);
            self.send_owned(index, out);
        }
    }

    /// Tells whether a slot's connection is there for its first request; else the slot is as new.
    fn keep_or_close(&mut self, index: u32) -> bool {
        let slot = &self.slots[index as usize];
        let connection = &slot.connection;
        let multiplexed = connection.multiplexed();
        // In clear a request would follow at once, and one send is under way at a time.
        let is_free = !slot.sending || multiplexed.is_some() || connection.is_tls();
        let takes_requests = !multiplexed.is_some_and(|it| it.is_going_away());
        let is_kept = slot.state == State::Open && !slot.send_failed && is_free && takes_requests;
        if !is_kept {
            self.close(index, Close::Abort);
        }
        let slot = &mut self.slots[index as usize];
        slot.heard = Nanos::ZERO;
        slot.backoff = Nanos::ZERO;
        match is_kept {
            // Like one that has served before, it may be lost by having been idle.
            true => slot.served = 1,
            false => {
                slot.state = State::Vacant;
                slot.fresh_from = slot.generation;
            }
        }
        is_kept
    }

    /// A connection was not opened before the load, if it was to be.
    #[cold]
    pub(super) fn not_opened(&mut self, outcome: Outcome, reason: Option<&Reason>) {
        if self.is_preparing {
            let limit = Duration::from(self.spec.connect_timeout);
            let unsaid = || Reason::Text(format!("no connection within {limit:?}"));
            let reason = reason.cloned().unwrap_or_else(unsaid);
            self.prepared.reasons.add(outcome, Some(reason));
        }
    }

    /// The server closed a connection that nothing was asked on yet, if that was opened before the load.
    #[cold]
    pub(super) fn closed_before(&mut self) {
        if self.is_preparing {
            let reason = Reason::Text("the server closed it before the start".to_owned());
            self.not_opened(Outcome::ClosedEarly, Some(&reason));
        }
    }
}
