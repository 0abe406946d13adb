//! Opens connections before a load that several machines start at the same time. Otherwise all
//! machines would connect when the load starts, and the first requests would wait.
//!
//! ```text
//!  preconnect ─► ready ─► maintain until others are ready ─► restart ─► the clock starts ─► run
//! ```
//!
//! This phase is not part of the load. The load begins with a new worker, which takes over the open
//! connections. If a connection could not be opened, or the server has closed it, the load opens it
//! when a request is due on it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use prony_record::{Nanos, Outcome, number};

use super::pace::Pace;
use super::ramp::ConnectRamp;
use super::{SLEEP_MAX, Worker};
use crate::carrier::{Carrier, ConnectionState, Reason, SendState, Transport};
use crate::engine::progress::Control;
use crate::socket::{Close, Sockets};

/// Time after which pending connection attempts are abandoned, because other machines are waiting.
const PRECONNECT_TIMEOUT: Nanos = Nanos::from_secs(5);
/// Maximum number of completions handled before more connections are begun.
const COMPLETIONS_MAX: u32 = 256;
/// Maximum number of a fan-out's lost connections that are opened at the same time.
const REOPENED_MAX: u32 = 256;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Number of connections to open before the load: the number that the load begins with.
    fn preconnect_count(&self) -> u32 {
        let spec = self.spec;
        // With several servers, it isn't known in advance which of them a connection's first
        // request goes to.
        let can_preconnect =
            spec.transport.keepalive && self.targets.count() == 1 && self.script.is_none();
        if !spec.transport.preconnect || !can_preconnect {
            return 0;
        }
        if self.fan_out.is_some() {
            return self.dispatcher.primary_count;
        }
        let used = match (spec.span.requests, spec.span.warmup, &self.dispatcher.pace) {
            (Some(_), Nanos::ZERO, Pace::Closed { left }) => *left,
            (Some(limit), Nanos::ZERO, Pace::Open(_)) => self.shard.items(limit),
            _ => u64::MAX,
        };
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        used.min(self.dispatcher.primary_count)
    }

    /// Opens connections before the load begins, if the spec says so. Returns when all are
    /// established or have failed, or after [`PRECONNECT_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// The system can't wait for events.
    pub(crate) fn preconnect(&mut self, control: &Control) -> io::Result<()> {
        self.preconnect_within(control, PRECONNECT_TIMEOUT)
    }

    /// Like [`Worker::preconnect`], with another time limit.
    ///
    /// # Errors
    ///
    /// Those of [`Worker::preconnect`].
    pub(crate) fn preconnect_within(&mut self, control: &Control, limit: Nanos) -> io::Result<()> {
        let wanted = self.preconnect_count();
        if wanted == 0 {
            return Ok(());
        }
        self.is_preconnecting = true;
        self.sink.preconnect.wanted = wanted;
        let entries = self.connections.len();
        self.ramp = Some(ConnectRamp::preconnect(wanted, entries, self.spec));
        let (mut begun, mut unsettled) = (0, wanted);
        // A handshake that never ends has no deadline of its own.
        let patience = Nanos(self.spec.transport.connect_timeout.0.saturating_mul(2));
        let mut heard = Nanos::ZERO;
        loop {
            let now = self.transport.sockets().now();
            if now >= limit || control.is_stopped() {
                return Ok(());
            }
            if now.since(heard) > patience {
                for _ in 0..self.unsettled_count(unsettled) {
                    self.note_preconnect_failure(Outcome::Timeout, None);
                }
                return Ok(());
            }
            self.run_timers(now);
            while begun < wanted && self.ramp.as_ref().is_some_and(|ramp| !ramp.is_full(now)) {
                self.begin_preconnect(begun, now);
                begun += 1;
            }
            self.send_dirty();
            // Entries are checked from the last one down, because settled connections usually stay
            // settled.
            while begun == wanted && unsettled > 0 && self.is_settled(unsettled - 1) {
                unsettled -= 1;
            }
            if unsettled == 0 {
                return Ok(());
            }
            let until = self.preconnect_wake_at(now).min(limit);
            self.transport.sockets_mut().wait(until)?;
            if self.reap_preconnect() {
                heard = now;
            }
        }
    }

    /// Returns true while connections are being opened and the load has not begun.
    pub(crate) fn is_preconnecting(&self) -> bool {
        self.is_preconnecting
    }

    /// Handles events on the open connections before the load starts, and waits up to `wait` for
    /// them. Returns the time.
    ///
    /// # Errors
    ///
    /// The system can't be polled for events.
    pub(crate) fn maintain(&mut self, wait: Nanos) -> io::Result<Nanos> {
        let now = self.transport.sockets().now();
        self.run_timers(now);
        let until = match wait {
            Nanos::ZERO => Nanos::ZERO,
            wait => self.timers.next_of_connections().min(now + wait),
        };
        self.transport.sockets_mut().wait(until)?;
        self.reap_preconnect();
        self.send_dirty();
        Ok(now)
    }

    /// Number of connections that are open.
    pub(crate) fn open_count(&self) -> u32 {
        let all = 0..self.connections.len();
        all.filter(|&index| self.connections[index].link.state.is_ready())
            .count() as u32
    }

    /// Reasons why connections without a request were not open, with their numbers.
    pub(crate) fn preconnect_reasons(&self) -> BTreeMap<String, u64> {
        self.sink.preconnect.named_reasons().collect()
    }

    /// Opens up to `max` lost connections again. Returns their number.
    pub(crate) fn reopen(&mut self, max: u32, now: Nanos) -> u32 {
        let all = 0..self.connections.len();
        let is_lost = |index: &u32| self.connections[*index].link.state.is_vacant();
        let lost: Vec<u32> = all.filter(is_lost).take(max as usize).collect();
        for &index in &lost {
            self.connect(index, now);
        }
        lost.len() as u32
    }

    /// Opens the lost connections of a fan-out again, because a closed loop doesn't use all of them.
    pub(super) fn reopen_receivers(&mut self, now: Nanos) {
        if let Some(fan_out) = &mut self.fan_out
            && fan_out.is_reopening_due(now)
        {
            self.reopen(REOPENED_MAX, now);
        }
    }

    /// Returns the worker that begins the load: a new one with the open connections. The worker
    /// holds no clock readings, so the sockets' clock may be restarted.
    pub(crate) fn restart(mut self) -> Worker<'run, T> {
        if !self.is_preconnecting {
            return self;
        }
        let wanted = self.sink.preconnect.wanted;
        let open = (0..wanted)
            .filter(|&index| self.keep_or_close(index))
            .count() as u32;
        self.sink.preconnect.open = open;
        let entries = self.connections.len();
        let mut worker = Worker::on_course(self.course, self.spec, self.shard, self.transport);
        let pace = &worker.dispatcher.pace;
        worker.ramp = ConnectRamp::new(pace, wanted - open, entries, self.spec);
        worker.connections = self.connections;
        worker.targets = self.targets;
        worker.addresses = self.addresses;
        worker.sink.addresses = self.sink.addresses.restarted();
        worker.sink.negotiated = self.sink.negotiated;
        worker.sink.preconnect = self.sink.preconnect;
        worker
    }

    /// Starts the clock of the sockets.
    pub(crate) fn start_clock(&mut self, start: impl FnOnce(&mut T::Sockets)) {
        start(self.transport.sockets_mut());
    }

    /// Opens a connection without a request.
    fn begin_preconnect(&mut self, index: u32, now: Nanos) {
        self.connections[index].slot = self.dispatcher.slots_of(index).start;
        if let Some(ramp) = &mut self.ramp {
            ramp.begin(index);
        }
        self.connect(index, now);
    }

    /// Returns true if an entry's connect has ended and no send is in flight.
    fn is_settled(&self, index: u32) -> bool {
        let entry = &self.connections[index];
        match &entry.link.state {
            ConnectionState::Connecting { .. }
            | ConnectionState::Tunneling { .. }
            | ConnectionState::Handshaking { .. } => false,
            ConnectionState::Vacant | ConnectionState::Backoff | ConnectionState::Draining(_) => {
                true
            }
            ConnectionState::Ready(session) => {
                entry.link.send != SendState::InFlight && session.carrier.is_established()
            }
        }
    }

    fn unsettled_count(&self, begun: u32) -> usize {
        let begun = 0..begun;
        begun.filter(|&index| !self.is_settled(index)).count()
    }

    fn preconnect_wake_at(&self, now: Nanos) -> Nanos {
        let ramp = self.ramp.as_ref();
        ramp.map_or(Nanos::MAX, |ramp| ramp.next_begin(now))
            .min(self.timers.next_of_connections())
            .min(now + SLEEP_MAX)
    }

    /// Handles completions without starting requests. Returns true if there were any.
    fn reap_preconnect(&mut self) -> bool {
        for handled in 0..COMPLETIONS_MAX {
            let Some(completion) = self.transport.sockets_mut().next() else {
                return handled > 0;
            };
            let now = self.transport.sockets().cached_now();
            let index = completion.key().index;
            self.on_completion(completion, now);
            self.send_header(index);
        }
        true
    }

    /// Sends the PROXY header of a cleartext connection. In a load, the header is sent together
    /// with the first request, but here a server might time out waiting for it.
    fn send_header(&mut self, index: u32) {
        let entry = &mut self.connections[index];
        if entry.link.state.is_ready() {
            let key = entry.key(index);
            self.transport.send_waiting_output(key, &mut entry.link);
        }
    }

    /// Keeps an entry's connection if it can take its first request. Otherwise resets the entry.
    fn keep_or_close(&mut self, index: u32) -> bool {
        let entry = &mut self.connections[index];
        let send = entry.link.send;
        let mut is_kept = false;
        if let ConnectionState::Ready(session) = &mut entry.link.state {
            // In cleartext HTTP/1, the first request is sent immediately, and only one send may be
            // in flight.
            let can_send = match send {
                SendState::Idle => true,
                SendState::InFlight => session.carrier.is_multiplexed() || session.is_tls(),
                SendState::Failed => false,
            };
            is_kept = can_send && !session.carrier.is_going_away() && !session.carrier.is_early();
            // Treat the connection as if it had already served a request: the server may have
            // closed it for being idle.
            session.has_served = true;
            session.last_heard = Nanos::ZERO;
            self.begin_life(index, Nanos::ZERO);
        }
        if !is_kept {
            self.close(index, Close::Abort);
        }
        let entry = &mut self.connections[index];
        entry.backoff = Nanos::ZERO;
        if !is_kept {
            entry.link.state = ConnectionState::Vacant;
            entry.set_fresh();
        }
        is_kept
    }

    /// Records why a connection was not opened, if the load has not begun.
    #[cold]
    pub(super) fn note_preconnect_failure(&mut self, outcome: Outcome, reason: Option<&Reason>) {
        if self.is_preconnecting {
            let limit = Duration::from(self.spec.transport.connect_timeout);
            let limit = number::span(limit.as_secs_f64());
            let timed_out = || Reason::Text(format!("no connection within {limit}"));
            let reason = reason.cloned().unwrap_or_else(timed_out);
            self.sink.preconnect.reasons.add(outcome, Some(reason));
        }
    }

    /// Records that the server closed an idle connection, if the load has not begun.
    #[cold]
    pub(super) fn note_preconnect_close(&mut self) {
        if self.is_preconnecting {
            let reason = Reason::Text("the server closed the connection".to_owned());
            self.note_preconnect_failure(Outcome::ClosedEarly, Some(&reason));
        }
    }
}
