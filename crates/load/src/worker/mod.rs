//! The worker's loop: pacing yields start times, a connection yields what its bytes mean, sockets
//! carry them; here they are joined. One worker runs on one thread and shares nothing.
//!
//! ```text
//!  loop ─► timers ─► start what is due ─► wait ─► reap completions ─┐
//!    ▲        (ending)     (starting)                (reacting)     │
//!    └──────────────────────────────────────────────────────────────┘
//! ```

mod connects;
mod diverting;
mod ending;
mod following;
mod multiplexed;
mod opening;
mod preparing;
mod reacting;
pub(crate) mod refusals;
mod scripted;
mod seating;
mod starting;
mod telling;
#[cfg(test)]
mod tests;
mod tunneling;
mod unsent;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;

use prony_record::{Measured, Nanos, Negotiated, Recorder};

pub(crate) use self::connects::ConnectCounts;
pub(crate) use self::following::PendingRedirect;
use self::following::{Following, LOOKUP_POLL_INTERVAL};
use self::opening::Opening;
pub(crate) use self::preparing::PreconnectReport;
pub(crate) use self::refusals::Refusals;
pub(crate) use self::scripted::ScriptRunner;
use crate::connection::Buffers;
use crate::deadlines::Deadlines;
use crate::meter::{Meter, Turn, WorkerUtilization};
use crate::pacing::{End, Schedule, Share};
use crate::progress::{Control, Counter};
use crate::protocols::StreamsLimit;
use crate::reasons::Reasons;
use crate::request::Target;
use crate::seat::Seat;
use crate::sequence::Sequence;
use crate::slot::Slot;
use crate::socket::{Completion, Sockets};
use crate::source::SourceCounts;
use crate::spec::{LoadSpec, Model};
use crate::tls;

/// The longest sleep, so that an interrupt is seen.
const LONGEST_WAIT: Nanos = Nanos::from_millis(50);
/// Completions worked off before timers and the interrupt have their turn again.
const LONGEST_TURN: u32 = 4096;
/// Requests started before sockets have their turn again.
const MOST_STARTS: u32 = 64;
/// And after each completion, which as a rule frees one slot.
const MOST_STARTS_IN_A_TURN: u32 = 4;
/// Completions after which what HTTP/2 has to say is sent, if there are still more of them. Sent after
/// each one, it would go out in more pieces.
const LONGEST_HOLD_BACK: u32 = 64;

/// What one worker brings home.
pub(crate) struct WorkerResult {
    pub(crate) recorder: Recorder,
    pub(crate) reasons: Reasons,
    pub(crate) negotiated: Option<Negotiated>,
    /// When its part of the load ended.
    pub(crate) ended: Nanos,
    /// When it started its first request.
    pub(crate) first_start: Option<Nanos>,
    /// How busy it was over the measured part.
    pub(crate) utilization: WorkerUtilization,
    /// Times that bytes came while no request was under way.
    pub(crate) unasked: u64,
    /// What came from each source.
    pub(crate) sources: SourceCounts,
    /// What a peer allowed, where more streams were wanted.
    pub(crate) streams_limit: Option<StreamsLimit>,
    /// What became of the connections that were to be opened before it.
    pub(crate) prepared: PreconnectReport,
    /// Connects that were refused.
    pub(crate) refusals: Refusals,
    /// Connects that were made.
    pub(crate) connects: ConnectCounts,
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
    RestOver,
}

pub(crate) struct Worker<'run, S> {
    spec: &'run LoadSpec,
    /// The spec's, and those that came up since.
    targets: Vec<Arc<Target>>,
    sockets: S,
    /// Those that the load begins with, and then their twins, if they have any.
    slots: Vec<Slot>,
    /// As many for each of the former as it may have streams, one slot's after the other's.
    seats: Vec<Seat>,
    /// How many slots have seats: those that the load begins with.
    homes: u32,
    share: Share,
    /// How many connections were begun; after 2^32 again from 0.
    next_connection: u32,
    /// Seats that may take a request, the one that is free for longest first.
    free: VecDeque<u32>,
    /// None of them suits the next request.
    is_stuck: bool,
    /// When that was last so no more; at first, in a closed loop, when the worker began.
    unstuck: Nanos,
    /// Slots whose HTTP/2 has something to say.
    listed: Vec<u32>,
    /// Not all of many connections have been made yet.
    opening: Option<Opening>,
    /// What became of the connections that were to be opened before the load...
    prepared: PreconnectReport,
    /// ...where it has not begun yet.
    is_preparing: bool,
    /// Who says what users do, where the load's list doesn't.
    script: Option<Box<ScriptRunner<'run>>>,
    /// Where redirects are followed.
    following: Option<Box<Following>>,
    /// Seats whose request is diverted.
    diverted: Vec<u32>,
    pace: Pace,
    sequence: Sequence,
    in_flight: u32,
    first_start: Option<Nanos>,
    request_deadlines: Deadlines,
    connect_deadlines: Deadlines,
    drain_deadlines: Deadlines,
    alarms: BinaryHeap<Reverse<(Nanos, u32, u32, Alarm)>>,
    recorder: Recorder,
    reasons: Reasons,
    negotiated: Option<Negotiated>,
    /// None where all is in clear.
    tls: Option<tls::Client>,
    buffers: Buffers,
    unasked: u64,
    sources: SourceCounts,
    refusals: Refusals,
    connects: ConnectCounts,
    streams_limit: Option<StreamsLimit>,
    /// How long answers usually take on an HTTP/2 connection.
    usual: Nanos,
    end: Nanos,
    meter: Meter,
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Worker number `share.worker` of `share.of`, with its part of the connections and requests.
    pub(crate) fn new(spec: &'run LoadSpec, share: Share, sockets: S) -> Worker<'run, S> {
        let slots = spec.slots(share);
        let places = spec.slots_with_twins(share);
        let streams = spec.protocols.streams;
        let seats = slots * streams;
        // Every connection's first seat before any second one, so that all of them are made.
        let in_turn = (0..streams).flat_map(|tag| (0..slots).map(move |slot| slot * streams + tag));
        let end = spec.planned().unwrap_or(Nanos::MAX);
        let (pace, measured) = pace(spec, share, end);
        let worker = Worker {
            spec,
            targets: spec.targets.iter().cloned().map(Arc::new).collect(),
            sockets,
            slots: (0..places).map(|_| Slot::new()).collect(),
            seats: (0..seats)
                .map(|seat| Seat::new(seat / streams, seat % streams))
                .collect(),
            homes: slots,
            share,
            next_connection: 0,
            free: in_turn.collect(),
            is_stuck: false,
            unstuck: Nanos::ZERO,
            listed: Vec::new(),
            opening: Opening::new(&pace, slots, spec),
            prepared: PreconnectReport::default(),
            is_preparing: false,
            script: None,
            following: Following::new(spec, seats).map(Box::new),
            diverted: Vec::new(),
            pace,
            sequence: Sequence::new(spec, share),
            in_flight: 0,
            first_start: None,
            request_deadlines: Deadlines::new(seats as usize),
            connect_deadlines: Deadlines::new(places as usize),
            drain_deadlines: Deadlines::new(places as usize),
            alarms: BinaryHeap::with_capacity(places as usize),
            recorder: Recorder::new(measured),
            reasons: Reasons::default(),
            negotiated: None,
            tls: spec.tls.as_ref().map(|tls| tls.client(slots as usize)),
            buffers: Buffers::default(),
            unasked: 0,
            sources: SourceCounts::new(spec.sources.counted()),
            refusals: Refusals::default(),
            connects: ConnectCounts::default(),
            streams_limit: None,
            usual: Nanos::ZERO,
            end,
            meter: Meter::new(spec.warmup, end, seats),
        };
        worker.with_eyes()
    }

    /// Runs until the load's end, or until `control` stops it.
    ///
    /// # Errors
    ///
    /// Where the system's waiting fails.
    pub(crate) fn run(mut self, control: &Control, counter: &Counter) -> io::Result<WorkerResult> {
        counter.begin(&mut self.recorder);
        let ended = self.run_to_end(control, counter)?;
        counter.publish(&mut self.recorder, ended, &self.meter);
        let mut worked = self.finish(ended);
        counter.finish(&mut worked.recorder, worked.utilization);
        Ok(worked)
    }

    /// Gives the moment at which the load ended.
    fn run_to_end(&mut self, control: &Control, counter: &Counter) -> io::Result<Nanos> {
        let mut now = self.sockets.now();
        let mut looked = now;
        self.meter.gap(Nanos::ZERO, now);
        if let Pace::Closed { .. } = self.pace {
            // Who begins late has not kept the connections waiting that are open already.
            self.unstuck = now;
        }
        loop {
            self.meter.begin_if_due(now);
            counter.publish(&mut self.recorder, looked, &self.meter);
            if now >= self.end || control.is_stopped() {
                return Ok(now.min(self.end));
            }
            if self.is_refused(control) {
                return Ok(now);
            }
            // Deadlines are judged by the moment at which the sockets were last looked at: had this
            // thread no core since then, the answer may have come in time.
            self.run_timers(looked);
            if self.opening.is_some() {
                self.mind_opening(now);
            }
            if self.script.is_some() {
                self.wake_users(now);
            }
            if !self.diverted.is_empty() {
                self.mind_diverted(now);
            }
            if self.start_due(now, MOST_STARTS) > 0 {
                let before = std::mem::replace(&mut now, self.sockets.now());
                self.meter.gap(before, now);
            }
            if self.is_done() {
                return Ok(now);
            }
            self.send_listed();
            #[cfg(test)]
            self.assert_sound();
            let until = self.wake_at(now);
            self.wait(until)?;
            let woke = self.sockets.cached_now();
            looked = woke;
            self.meter.waited(now, until, woke);
            let mut turn = self.reap(woke);
            now = self.sockets.now();
            turn.stalled = turn.stalled + self.meter.gap(turn.read, now);
            self.meter.worked(woke, now, turn);
        }
    }

    /// Works off what has happened; the clock was last read at `woke`.
    fn reap(&mut self, woke: Nanos) -> Turn {
        let ended_before = self.recorder.ended_count();
        let mut turn = Turn {
            cut_short: true,
            read: woke,
            ..Turn::default()
        };
        let mut last = None;
        for count in 1..=LONGEST_TURN {
            let Some(completion) = self.sockets.next() else {
                turn.cut_short = false;
                break;
            };
            // This one needs no time: it goes without the clock.
            if let Completion::Sent(key, buffer) = completion {
                self.sent(key, buffer);
                continue;
            }
            let now = self.sockets.cached_now();
            turn.stalled = turn.stalled + self.meter.gap(turn.read, now);
            turn.read = now;
            if now >= self.end {
                break;
            }
            let slot = completion.key().index;
            match completion {
                Completion::Received(_) => turn.bytes += self.sockets.received().len() as u64,
                // What comes with an answer, such as the connection's end, is not another.
                _ => turn.found += u32::from(last != Some(slot)),
            }
            last = Some(slot);
            self.on_completion(completion, now);
            let most = match self.listed.is_empty() {
                true => MOST_STARTS_IN_A_TURN,
                // Streams end by the dozen.
                false => MOST_STARTS,
            };
            self.start_due(now, most);
            if count % LONGEST_HOLD_BACK == 0 {
                self.send_listed();
            }
        }
        turn.found += (self.recorder.ended_count() - ended_before) as u32;
        turn
    }

    fn is_done(&self) -> bool {
        let no_more = match &self.pace {
            Pace::Closed { left } => *left == 0,
            Pace::Open(schedule) => schedule.peek().is_none() && self.spec.limit.is_some(),
        };
        (no_more || self.is_deserted()) && self.in_flight == 0
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        match self.lot() {
            Some(lot) => self.sockets.wait_coalesced(until, lot),
            None => self.sockets.wait(until),
        }
    }

    fn wake_at(&self, now: Nanos) -> Nanos {
        if self.is_any_due(now) {
            return now;
        }
        let due = match &self.pace {
            Pace::Open(schedule) if self.is_any_free() => schedule.peek().unwrap_or(Nanos::MAX),
            _ => Nanos::MAX,
        };
        let alarm = self
            .alarms
            .peek()
            .map_or(Nanos::MAX, |Reverse((at, ..))| *at);
        let rest = self.script.as_ref().map_or(Nanos::MAX, |it| it.wake_at());
        let held = self.opening.as_ref();
        let held_until = held.map_or(Nanos::MAX, |opening| opening.wake_at(now));
        let looks_up = self.following.as_ref().is_some_and(|it| it.looks_up);
        let longest = match looks_up {
            true => LOOKUP_POLL_INTERVAL,
            false => LONGEST_WAIT,
        };
        due.min(alarm)
            .min(held_until)
            .min(rest)
            .min(self.request_deadlines.next())
            .min(self.connect_deadlines.next())
            .min(self.drain_deadlines.next())
            .min(self.end)
            .min(now + longest)
    }
}

/// Where start times come from, and which requests are measured.
fn pace(spec: &LoadSpec, share: Share, end: Nanos) -> (Pace, Measured) {
    match spec.model {
        Model::Closed => {
            let left = spec.limit.map_or(u64::MAX, |limit| share.part(limit));
            let measured = match spec.limit {
                // So that exactly as many are measured as were asked for.
                Some(_) => Measured::DueFrom(spec.warmup),
                None => Measured::EndedFrom(spec.warmup),
            };
            (Pace::Closed { left }, measured)
        }
        Model::Open {
            rate_per_s,
            arrivals,
        } => {
            let until = End {
                requests: spec.limit.unwrap_or(u64::MAX),
                counted_from: spec.warmup,
                at: end,
            };
            let schedule = Schedule::new(arrivals, rate_per_s, spec.seed, share, until);
            (
                Pace::Open(Box::new(schedule)),
                Measured::DueFrom(spec.warmup),
            )
        }
    }
}
