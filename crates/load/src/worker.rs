//! The worker's loop: pacing yields start times, a connection yields what its bytes mean, sockets
//! carry them; here they are joined. One worker runs on one thread and shares nothing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;

use prony_record::{Exchange, Measured, Nanos, Negotiated, Outcome, Recorder};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::connection::{Progress, Reason};
use crate::deadlines::Deadlines;
use crate::options::Order;
use crate::pacing::{End, Schedule, Share};
use crate::progress::{Control, Counter};
use crate::reasons::Reasons;
use crate::slot::{Pending, Slot, State};
use crate::socket::{Close, Completion, Operation, Outgoing, Sockets, system};
use crate::spec::{LoadSpec, Model};

/// The rest after a connect that failed; it doubles with each further one.
const FIRST_BACKOFF: Nanos = Nanos::from_millis(10);
/// The longest rest.
const LAST_BACKOFF: Nanos = Nanos::from_millis(500);
/// How long the peer is given to close first.
const DRAIN: Nanos = Nanos::from_millis(10);
/// The pause between tries to connect to a UNIX socket whose backlog is full.
const CONNECT_AGAIN: Nanos = Nanos::from_millis(1);
/// The longest sleep, so that an interrupt is seen.
const LONGEST_WAIT: Nanos = Nanos::from_millis(50);

/// What one worker brings home.
pub(crate) struct Worked {
    pub(crate) recorder: Recorder,
    pub(crate) reasons: Reasons,
    pub(crate) negotiated: Option<Negotiated>,
    /// When its part of the load ended.
    pub(crate) ended: Nanos,
    /// CPU over the measured part, in user mode and in the kernel.
    pub(crate) cpu: (Nanos, Nanos),
    /// Share of the measured part in which it was not waiting, 0 to 1.
    pub(crate) busy_share: f64,
    /// Times that bytes came while no request was under way.
    pub(crate) unasked: u64,
}

/// Where the next start time comes from.
enum Pace {
    /// As soon as a slot is free, so many more times.
    Closed {
        left: u64,
    },
    Open(Box<Schedule>),
}

/// What a slot waits for beside its sockets and deadlines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    BackoffOver,
    ConnectAgain,
    DrainOver,
}

pub(crate) struct Worker<'run, S> {
    spec: &'run LoadSpec,
    sockets: S,
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    pace: Pace,
    random: Option<ChaCha8Rng>,
    next_request: u32,
    in_flight: u32,
    request_deadlines: Deadlines,
    connect_deadlines: Deadlines,
    alarms: BinaryHeap<Reverse<(Nanos, u32, u32, Alarm)>>,
    recorder: Recorder,
    reasons: Reasons,
    negotiated: Option<Negotiated>,
    unasked: u64,
    end: Nanos,
    meter: Meter,
}

/// CPU and waiting since the measured part began.
struct Meter {
    from: Nanos,
    began: Option<(Nanos, Nanos)>,
    waited: Nanos,
}

impl Meter {
    fn waited(&mut self, before: Nanos, after: Nanos) {
        self.waited = self.waited + after.since(before.max(self.from));
    }

    fn begin_if_due(&mut self, now: Nanos) {
        if self.began.is_none() && now >= self.from {
            self.began = Some(system::thread_cpu());
        }
    }

    fn cpu(&self) -> (Nanos, Nanos) {
        let (user, system) = system::thread_cpu();
        let (user_before, system_before) = self.began.unwrap_or((user, system));
        (user.since(user_before), system.since(system_before))
    }

    fn busy_share(&self, ended: Nanos) -> f64 {
        let all = ended.since(self.from);
        if all.0 == 0 {
            0.0
        } else {
            all.since(self.waited).0 as f64 / all.0 as f64
        }
    }
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Worker number `share.worker` of `share.of`, with its part of the connections and requests.
    pub(crate) fn new(spec: &'run LoadSpec, share: Share, sockets: S) -> Worker<'run, S> {
        let slots = part(u64::from(spec.connections), share) as u32;
        let end = spec.planned().unwrap_or(Nanos::MAX);
        let (pace, measured) = match spec.model {
            Model::Closed => {
                let left = spec.limit.map_or(u64::MAX, |limit| part(limit, share));
                (Pace::Closed { left }, Measured::EndedFrom(spec.warmup))
            }
            Model::Open {
                rate_per_s,
                arrivals,
            } => {
                let requests = spec.limit.unwrap_or(u64::MAX);
                let until = End {
                    requests,
                    counted_from: spec.warmup,
                    at: end,
                };
                let schedule = Schedule::new(arrivals, rate_per_s, spec.seed, share, until);
                (Pace::Open(Box::new(schedule)), Measured::DueFrom(spec.warmup))
            }
        };
        let random = (spec.order == Order::Random)
            .then(|| ChaCha8Rng::seed_from_u64(spec.seed.wrapping_add(share.worker)));
        Worker {
            spec,
            sockets,
            slots: (0..slots).map(|_| Slot::new()).collect(),
            free: (0..slots).collect(),
            pace,
            random,
            next_request: 0,
            in_flight: 0,
            request_deadlines: Deadlines::new(slots as usize),
            connect_deadlines: Deadlines::new(slots as usize),
            alarms: BinaryHeap::with_capacity(slots as usize * 2),
            recorder: Recorder::new(measured),
            reasons: Reasons::default(),
            negotiated: None,
            unasked: 0,
            end,
            meter: Meter {
                from: spec.warmup,
                began: None,
                waited: Nanos::ZERO,
            },
        }
    }

    /// Runs until the load's end, or until `control` stops it.
    ///
    /// # Errors
    ///
    /// Where the system's waiting fails.
    pub(crate) fn run(mut self, control: &Control, counter: &Counter) -> io::Result<Worked> {
        let ended = self.run_to_end(control, counter)?;
        Ok(self.finish(ended))
    }

    /// Gives the moment at which the load ended.
    fn run_to_end(&mut self, control: &Control, counter: &Counter) -> io::Result<Nanos> {
        loop {
            let now = self.sockets.now();
            self.meter.begin_if_due(now);
            counter.publish(&self.recorder);
            if now >= self.end || control.is_stopped() {
                return Ok(now.min(self.end));
            }
            self.start_due(now);
            self.run_timers(now);
            if self.is_done() {
                return Ok(now);
            }
            let until = self.wake_at(now);
            let before = self.sockets.now();
            self.sockets.wait(until)?;
            self.meter.waited(before, self.sockets.now());
            self.reap();
        }
    }

    fn reap(&mut self) {
        while let Some(completion) = self.sockets.next() {
            let now = self.sockets.now();
            if now >= self.end {
                return;
            }
            self.on_completion(completion, now);
            self.start_due(now);
        }
    }

    fn is_done(&self) -> bool {
        let no_more = match &self.pace {
            Pace::Closed { left } => *left == 0,
            Pace::Open(schedule) => schedule.peek().is_none() && self.spec.limit.is_some(),
        };
        no_more && self.in_flight == 0
    }

    fn wake_at(&self, now: Nanos) -> Nanos {
        let due = match &self.pace {
            Pace::Open(schedule) if !self.free.is_empty() => schedule.peek().unwrap_or(Nanos::MAX),
            _ => Nanos::MAX,
        };
        let alarm = self
            .alarms
            .peek()
            .map_or(Nanos::MAX, |Reverse((at, ..))| *at);
        let deadline = self
            .request_deadlines
            .next()
            .min(self.connect_deadlines.next());
        due.min(alarm)
            .min(deadline)
            .min(self.end)
            .min(now + LONGEST_WAIT)
    }

    // ---- starting ----

    /// Starts every request that is due and finds a free slot.
    #[inline]
    fn start_due(&mut self, now: Nanos) {
        while let Some(&slot) = self.free.front() {
            let intended = match &mut self.pace {
                Pace::Closed { left: 0 } => return,
                Pace::Closed { left } => {
                    // The requests of the warm-up are not among those asked for.
                    if now >= self.spec.warmup && *left != u64::MAX {
                        *left -= 1;
                    }
                    self.slots[slot as usize].free_since
                }
                Pace::Open(schedule) => match schedule.peek() {
                    Some(due) if due <= now => {
                        schedule.advance();
                        due
                    }
                    _ => return,
                },
            };
            self.free.pop_front();
            self.start(slot, intended, now);
        }
    }

    fn start(&mut self, index: u32, intended: Nanos, now: Nanos) {
        let request = self.pick_request();
        let slot = &mut self.slots[index as usize];
        slot.pending = Some(Pending {
            request,
            intended,
            begun: now,
            sent: None,
            first_byte: None,
            retried: false,
            bytes_out: 0,
        });
        self.in_flight += 1;
        self.recorder.started();
        if let Pace::Open(_) = self.pace {
            self.recorder
                .late(intended, now.since(intended.max(slot.free_since)));
        }
        if let Some(timeout) = self.spec.timeout {
            self.request_deadlines.set(index, now + timeout);
        }
        let target = self.spec.requests[request as usize].target;
        if slot.state == State::Open && slot.target == target {
            self.send_request(index, now);
        } else {
            self.close(index, Close::Orderly);
            self.slots[index as usize].target = target;
            self.connect(index, now);
        }
    }

    fn pick_request(&mut self) -> u32 {
        let count = self.spec.requests.len() as u32;
        match &mut self.random {
            Some(random) if count > 1 => random.random_range(0..count),
            _ => {
                let request = self.next_request;
                self.next_request = if request + 1 == count { 0 } else { request + 1 };
                request
            }
        }
    }

    fn connect(&mut self, index: u32, now: Nanos) {
        self.slots[index as usize].connect_began = now;
        self.connect_deadlines
            .set(index, now + self.spec.connect_timeout);
        self.connect_again(index);
    }

    fn connect_again(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Connecting;
        slot.served = 0;
        slot.sending = false;
        slot.send_failed = false;
        let peer = &self.spec.targets[slot.target as usize].peer;
        self.sockets.connect(slot.key(index), peer);
    }

    fn send_request(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        let Some(pending) = &mut slot.pending else {
            return;
        };
        let request = &self.spec.requests[pending.request as usize];
        pending.sent.get_or_insert(now);
        pending.bytes_out += request.bytes.len() as u64;
        slot.connection.begin(request, &self.spec.expect);
        if slot.connection.is_tls() {
            self.send_ciphertext(index);
        } else {
            slot.sending = true;
            let key = slot.key(index);
            self.sockets.send(key, Outgoing::Shared(&request.bytes));
        }
    }

    fn send_ciphertext(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.sending || slot.send_failed {
            return;
        }
        let mut out = std::mem::take(&mut slot.spare);
        out.clear();
        slot.connection.take_out(&mut out);
        if out.is_empty() {
            slot.spare = out;
        } else {
            slot.sending = true;
            let key = slot.key(index);
            self.sockets.send(key, Outgoing::Owned(out));
        }
    }

    // ---- what happened ----

    fn on_completion(&mut self, completion: Completion, now: Nanos) {
        let key = completion.key();
        match self.slots.get(key.slot as usize) {
            Some(slot) if slot.generation == key.generation => {}
            _ => return,
        }
        let index = key.slot;
        match completion {
            Completion::Connected(_) => self.connected(index, now),
            Completion::Sent(_, buffer) => {
                let slot = &mut self.slots[index as usize];
                slot.sending = false;
                if let Some(buffer) = buffer {
                    slot.spare = buffer;
                    self.send_ciphertext(index);
                }
            }
            Completion::Received(_) => {
                let slot = &mut self.slots[index as usize];
                let progress = slot
                    .connection
                    .receive(self.sockets.received(), &self.spec.expect);
                self.on_progress(index, progress, now);
            }
            Completion::Closed(_) => {
                let progress = self.slots[index as usize]
                    .connection
                    .closed(&self.spec.expect);
                self.on_progress(index, progress, now);
                self.on_closed(index, now);
            }
            Completion::Failed(_, Operation::Connect, error) => {
                self.connect_failed(index, &error, now);
            }
            Completion::Failed(_, Operation::Send, _) => {
                // What the peer said before it stopped listening may still be received.
                let slot = &mut self.slots[index as usize];
                slot.sending = false;
                slot.send_failed = true;
            }
            Completion::Failed(_, Operation::Receive, error) => {
                self.receive_failed(index, &error, now);
            }
        }
    }

    fn connected(&mut self, index: u32, now: Nanos) {
        self.connect_deadlines.clear(index);
        let slot = &mut self.slots[index as usize];
        let target = &self.spec.targets[slot.target as usize];
        slot.backoff = Nanos::ZERO;
        let (Some(name), Some(config)) = (&target.tls, &self.spec.tls) else {
            slot.connection.open();
            slot.state = State::Open;
            self.recorder
                .connection_opened(now, now.since(slot.connect_began), None);
            self.send_request(index, now);
            return;
        };
        slot.tls_began = now;
        slot.state = State::Securing;
        match slot.connection.open_tls(config, name) {
            Ok(()) => self.send_ciphertext(index),
            Err(reason) => self.fail(index, Outcome::Tls, Some(reason), now),
        }
    }

    fn secured(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        slot.state = State::Open;
        let connect = slot.tls_began.since(slot.connect_began);
        let tls = now.since(slot.tls_began);
        self.recorder.connection_opened(now, connect, Some(tls));
        self.send_request(index, now);
    }

    fn on_progress(&mut self, index: u32, progress: Progress, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        let answered = matches!(progress, Progress::Answered { .. });
        if let Some(pending) = &mut slot.pending
            && pending.first_byte.is_none()
            && (answered || slot.connection.answering())
        {
            pending.first_byte = Some(now);
        }
        match progress {
            Progress::Waiting => self.send_ciphertext(index),
            Progress::Secured => self.secured(index, now),
            Progress::Answered { outcome, reusable } => {
                self.answered(index, outcome, reusable, now);
            }
            Progress::Lost => self.lost(index, now),
            Progress::Broken(outcome, reason) => self.fail(index, outcome, Some(reason), now),
            Progress::Unasked | Progress::Idle => {
                self.unasked += u64::from(progress == Progress::Unasked);
                if slot.state == State::Open {
                    self.close(index, Close::Orderly);
                }
            }
        }
    }

    fn answered(&mut self, index: u32, outcome: Outcome, reusable: bool, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        if self.negotiated.is_none() {
            self.negotiated = Some(slot.connection.negotiated());
        }
        slot.served += 1;
        // An answer that came before the request was out leaves a request behind that nobody reads.
        let keep = reusable && self.spec.keepalive && !slot.sending && !slot.send_failed;
        let sent_all = !slot.sending && !slot.send_failed;
        self.record(index, outcome, now);
        if keep {
            self.set_free(index, now);
        } else if sent_all {
            self.slots[index as usize].state = State::Draining;
            self.set_alarm(index, now + DRAIN, Alarm::DrainOver);
        } else {
            self.close(index, Close::Abort);
            self.set_free(index, now);
        }
    }

    /// The connection closed, or failed, before any byte of the answer.
    fn lost(&mut self, index: u32, now: Nanos) {
        let outcome = match self.slots[index as usize].send_failed {
            true => Outcome::Reset,
            false => Outcome::ClosedEarly,
        };
        if !self.retry(index, now) {
            self.fail(index, outcome, None, now);
        }
    }

    /// Sends a request once more if a *reused* connection lost it and it is safe to repeat.
    fn retry(&mut self, index: u32, now: Nanos) -> bool {
        let slot = &mut self.slots[index as usize];
        let reused = slot.served > 0;
        let Some(pending) = &mut slot.pending else {
            return false;
        };
        let safe = self.spec.requests[pending.request as usize].idempotent;
        if pending.retried || !reused || !safe {
            return false;
        }
        pending.retried = true;
        self.recorder.retried(now);
        self.close(index, Close::Orderly);
        self.connect(index, now);
        true
    }

    fn on_closed(&mut self, index: u32, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        if slot.state == State::Draining {
            self.close(index, Close::Orderly);
            self.set_free(index, now);
        }
    }

    fn receive_failed(&mut self, index: u32, error: &io::Error, now: Nanos) {
        let slot = &self.slots[index as usize];
        let answering = slot.connection.answering();
        if slot.state == State::Draining {
            self.close(index, Close::Orderly);
            self.set_free(index, now);
        } else if slot.pending.is_none() {
            self.close(index, Close::Orderly);
        } else if answering || !self.retry(index, now) {
            let outcome = match error.raw_os_error() {
                Some(libc::ETIMEDOUT) => Outcome::Timeout,
                _ => Outcome::Reset,
            };
            self.fail(index, outcome, Some(Reason::Text(error.to_string())), now);
        }
    }

    fn connect_failed(&mut self, index: u32, error: &io::Error, now: Nanos) {
        if system::connect_would_block(error) {
            self.set_alarm(index, now + CONNECT_AGAIN, Alarm::ConnectAgain);
            return;
        }
        let outcome = system::connect_outcome(error);
        self.connect_given_up(index, outcome, Some(Reason::Text(error.to_string())), now);
    }

    fn connect_given_up(
        &mut self,
        index: u32,
        outcome: Outcome,
        reason: Option<Reason>,
        now: Nanos,
    ) {
        self.reasons.add(outcome, reason);
        self.record(index, outcome, now);
        self.close(index, Close::Abort);
        let slot = &mut self.slots[index as usize];
        let rest = Nanos(slot.backoff.0 * 2).clamp(FIRST_BACKOFF, LAST_BACKOFF);
        slot.backoff = rest;
        slot.state = State::BackingOff;
        self.set_alarm(index, now + rest, Alarm::BackoffOver);
    }

    fn fail(&mut self, index: u32, outcome: Outcome, reason: Option<Reason>, now: Nanos) {
        if self.slots[index as usize].pending.is_some() {
            self.reasons.add(outcome, reason);
            self.record(index, outcome, now);
            self.close(index, Close::Abort);
            self.set_free(index, now);
        } else {
            self.close(index, Close::Abort);
        }
    }

    // ---- timers ----

    fn set_alarm(&mut self, index: u32, at: Nanos, alarm: Alarm) {
        let generation = self.slots[index as usize].generation;
        self.alarms.push(Reverse((at, index, generation, alarm)));
    }

    fn run_timers(&mut self, now: Nanos) {
        while let Some(&Reverse((at, index, generation, alarm))) = self.alarms.peek()
            && at <= now
        {
            self.alarms.pop();
            let slot = &self.slots[index as usize];
            if slot.generation != generation {
                continue;
            }
            match (alarm, slot.state) {
                (Alarm::BackoffOver, State::BackingOff) => {
                    self.slots[index as usize].state = State::Vacant;
                    self.set_free(index, now);
                }
                (Alarm::ConnectAgain, State::Connecting) => self.connect_again(index),
                (Alarm::DrainOver, State::Draining) => {
                    self.close(index, Close::Orderly);
                    self.set_free(index, now);
                }
                _ => {}
            }
        }
        while let Some(index) = self.connect_deadlines.expired(now) {
            self.connect_given_up(index, Outcome::ConnectTimeout, None, now);
        }
        while let Some(index) = self.request_deadlines.expired(now) {
            self.fail(index, Outcome::Timeout, None, now);
        }
    }

    // ---- ending ----

    fn set_free(&mut self, index: u32, now: Nanos) {
        self.slots[index as usize].free_since = now;
        self.free.push_back(index);
    }

    /// Takes the slot's connection down, if it has one.
    fn close(&mut self, index: u32, how: Close) {
        self.connect_deadlines.clear(index);
        let slot = &mut self.slots[index as usize];
        slot.connection.abandon();
        if slot.state != State::Vacant {
            slot.state = State::Vacant;
            self.sockets.close(slot.key(index), how);
            slot.generation = slot.generation.wrapping_add(1);
        }
    }

    fn record(&mut self, index: u32, outcome: Outcome, now: Nanos) {
        let slot = &mut self.slots[index as usize];
        let Some(pending) = slot.pending.take() else {
            return;
        };
        self.in_flight -= 1;
        self.request_deadlines.clear(index);
        let (bytes_in, body_bytes_in) = match pending.sent {
            Some(_) => slot.connection.received_bytes(),
            None => (0, 0),
        };
        let exchange = Exchange {
            intended: pending.intended,
            sent: pending.sent.unwrap_or(pending.begun),
            first_byte: pending.first_byte,
            ended: now,
            status: slot.connection.status().filter(|_| is_whole(outcome)),
            bytes_in,
            body_bytes_in,
            bytes_out: pending.bytes_out,
        };
        self.recorder.ended(&exchange, outcome);
    }

    fn finish(mut self, ended: Nanos) -> Worked {
        for index in 0..self.slots.len() as u32 {
            self.record(index, Outcome::Unfinished, ended);
            self.close(index, Close::Abort);
        }
        if let Pace::Open(schedule) = &mut self.pace {
            for due in schedule.by_ref().take_while(|due| *due < ended) {
                let exchange = Exchange {
                    intended: due,
                    sent: due,
                    first_byte: None,
                    ended,
                    status: None,
                    bytes_in: 0,
                    body_bytes_in: 0,
                    bytes_out: 0,
                };
                self.recorder.ended(&exchange, Outcome::Unstarted);
            }
        }
        self.recorder.finish(ended);
        Worked {
            cpu: self.meter.cpu(),
            busy_share: self.meter.busy_share(ended),
            recorder: self.recorder,
            reasons: self.reasons,
            negotiated: self.negotiated,
            ended,
            unasked: self.unasked,
        }
    }
}

/// Whether a whole answer came, expected or not.
fn is_whole(outcome: Outcome) -> bool {
    use Outcome::{Ok, UnexpectedBody, UnexpectedSize, UnexpectedStatus};
    matches!(
        outcome,
        Ok | UnexpectedBody | UnexpectedSize | UnexpectedStatus
    )
}

/// This worker's part of `whole`, the remainder going to the first ones.
fn part(whole: u64, share: Share) -> u64 {
    whole / share.of + u64::from(share.worker < whole % share.of)
}
