//! The worker's loop. Each worker runs on one thread and shares no data with others.
//!
//! ```text
//!  loop ─► timers ─► start what is due ─► wait ─► reap completions ─┐
//!    ▲     (expiry)      (start)              (completions, events) │
//!    └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! The loop joins parts that don't depend on each other:
//!
//! | part | owns |
//! |---|---|
//! | [`Connections`] | each connection's state, in one enum |
//! | [`Dispatcher`] | request slots, and the times at which requests are due |
//! | [`Timers`] | deadlines, alarms and think times |
//! | [`Sink`] | everything that is counted and recorded |
//!
//! The steps of an exchange are files with methods of [`Worker`]:
//!
//! | step | file |
//! |---|---|
//! | a slot and a request are chosen, and the exchange begins | `start`, `users` |
//! | a connection is opened, if there is none to the request's target | `connect`, `retarget` |
//! | the request is sent | `send` |
//! | something arrives, and causes events | `completions`, `events` |
//! | the request follows a redirect | `redirects` |
//! | time runs out | `expiry` |
//! | the exchange ends | `ending` |
//! | the connection ends, with what becomes of its exchanges | `closing` |
//!
//! Scripts, journeys, placeholders, cookies and fan-out are hooks in separate files.

mod address_book;
mod body_waits;
mod closing;
mod coalescing;
mod completions;
mod connect;
mod connections;
mod cookies;
mod deadlines;
mod dispatcher;
mod ending;
mod event_times;
mod events;
mod expiry;
mod fan_out;
mod journeys;
mod pace;
mod preconnect;
mod preconnect_report;
mod ramp;
mod redirects;
pub(crate) mod refusals;
mod rendering;
mod replayed;
mod retarget;
mod script_runner;
mod send;
mod sink;
mod slicing;
mod start;
mod syn_retries;
mod targets;
#[cfg(test)]
mod tests;
mod think_times;
mod timers;
mod users;

use std::io;
use std::sync::Arc;

use prony_record::Nanos;

use self::address_book::AddressBook;
use self::coalescing::Coalescing;
use self::connections::Connections;
use self::cookies::UserCookies;
use self::dispatcher::{ConnectionView, Dispatcher};
use self::event_times::EventTimes;
use self::fan_out::FanOut;
use self::journeys::Journeys;
use self::pace::{LoadCourse, Pace, pace};
use self::ramp::ConnectRamp;
use self::redirects::{LOOKUP_POLL_INTERVAL, Redirects};
use self::rendering::Renderer;
use self::replayed::ReplayUsers;
pub(crate) use self::script_runner::ScriptRunner;
pub(crate) use self::sink::Sink;
pub(crate) use self::slicing::SliceFeed;
use self::targets::Targets;
use self::think_times::ThinkTimes;
use self::timers::Timers;
use crate::carrier::{CarrierFactory, Transport};
use crate::engine::meter::{LoopTurn, Meter, WorkerUtilization};
use crate::engine::progress::{Control, Counter};
use crate::request::script::CaptureSpec;
use crate::socket::{Close, Completion, Sockets};
use crate::spec::LoadSpec;
use crate::target::addresses::Lookups;
use crate::values::shard::Shard;

/// Maximum length of a sleep, so that an interrupt is noticed in time.
const SLEEP_MAX: Nanos = Nanos::from_millis(50);
/// Maximum number of completions handled before timers and the interrupt are checked.
const COMPLETIONS_MAX: u32 = 4096;
/// Maximum number of requests started before completions are handled.
const STARTS_MAX: u32 = 64;
/// Maximum number of requests started after each completion, which usually frees one slot.
const STARTS_PER_COMPLETION: u32 = 4;
/// Number of completions after which output that is sent together is sent, even if there are more
/// completions. Sending after each completion would split the output into more pieces.
const COMPLETIONS_PER_FLUSH: u32 = 64;

pub(crate) struct WorkerResult {
    pub(crate) sink: Sink,
    /// Time at which the worker's share of the load ended.
    pub(crate) ended: Nanos,
    /// Utilization over the measured part.
    pub(crate) utilization: WorkerUtilization,
}

/// One worker of a load.
pub(crate) struct Worker<'run, T> {
    spec: &'run LoadSpec,
    shard: Shard,
    transport: T,
    targets: Targets,
    connections: Connections,
    /// The addresses of the targets, if connections use several or changing ones.
    addresses: Option<Box<AddressBook>>,
    dispatcher: Dispatcher<'run>,
    timers: Timers,
    coalescing: Coalescing,
    sink: Sink,
    /// The script that controls the virtual users, if there is one.
    script: Option<Box<ScriptRunner<'run>>>,
    /// The journeys of the virtual users, if they take any.
    journeys: Option<Box<Journeys<'run>>>,
    /// The recorded clients, if the load replays a log.
    replay: Option<Box<ReplayUsers>>,
    /// True if journeys or a log decide when and where requests start.
    has_own_starts: bool,
    /// Renderer of the requests that contain placeholders or cookies, if there are any.
    renderer: Option<Box<Renderer<'run>>>,
    /// The cookies of the virtual users, if they have any.
    cookies: Option<Box<UserCookies>>,
    /// Times of the events of streamed responses, if responses are streams.
    event_times: Option<Box<EventTimes>>,
    /// The messages in flight, if the load is a fan-out.
    fan_out: Option<Box<FanOut>>,
    /// The pauses of the virtual users, if they have any.
    think_times: Option<Box<ThinkTimes>>,
    /// True if a script, think times or a fan-out decide when users send requests.
    are_users_controlled: bool,
    /// State of redirects; `None` if the load follows no redirects.
    redirects: Option<Box<Redirects>>,
    /// True if every response must be inspected, for redirects, cookies or a script.
    inspects_responses: bool,
    /// The ramp of a load with many connections; `None` once all are established.
    ramp: Option<ConnectRamp>,
    /// True while connections are being opened and the load has not begun.
    is_preconnecting: bool,
    /// End of the load, or of the current part of a slice.
    end: Nanos,
    course: LoadCourse,
    meter: Meter,
}

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Creates the worker with this shard of the load's connections and requests.
    pub(crate) fn new(spec: &'run LoadSpec, shard: Shard, transport: T) -> Worker<'run, T> {
        Worker::on_course(LoadCourse::Whole, spec, shard, transport)
    }

    /// Creates the worker of a load that runs in slices.
    pub(crate) fn in_slices(spec: &'run LoadSpec, shard: Shard, transport: T) -> Worker<'run, T> {
        Worker::on_course(LoadCourse::Slices, spec, shard, transport)
    }

    fn on_course(
        course: LoadCourse,
        spec: &'run LoadSpec,
        shard: Shard,
        transport: T,
    ) -> Worker<'run, T> {
        let end = match course {
            LoadCourse::Whole => spec.planned().unwrap_or(Nanos::MAX),
            LoadCourse::Slices => Nanos::MAX,
        };
        let (pace, measured) = pace(spec, shard, end, course);
        let connections = spec.connections_max(shard);
        let ramp = ConnectRamp::new(&pace, spec.connections_of(shard), connections, spec);
        let dispatcher = Dispatcher::new(spec, shard, pace);
        let slots = dispatcher.slots.len();
        let streams = if spec.responses.expect.are_streams() {
            slots
        } else {
            0
        };
        let worker = Worker {
            spec,
            shard,
            transport,
            targets: Targets::new(spec, dispatcher.primary_count),
            connections: Connections::new(
                connections,
                CarrierFactory::new(spec.transport.protocols).with_upgrade(spec.websocket.clone()),
            ),
            addresses: AddressBook::new(spec, connections, None).map(Box::new),
            timers: Timers::new(
                slots,
                streams,
                connections as usize,
                spec.transport.connection_lifetime.is_some(),
            ),
            coalescing: Coalescing::new(spec),
            sink: Sink::new(measured, spec.sources.counted(), spec.entries.results()),
            script: None,
            journeys: Journeys::new(spec, shard, slots).map(Box::new),
            replay: None,
            has_own_starts: spec.journey.is_some() || spec.replay.is_some(),
            renderer: Renderer::new(spec, shard).map(Box::new),
            cookies: UserCookies::new(spec, slots).map(Box::new),
            event_times: (streams > 0).then(|| Box::new(EventTimes::new(streams))),
            fan_out: spec.fan_out.map(|it| Box::new(FanOut::new(it))),
            are_users_controlled: spec.think.is_some()
                || spec.journey.is_some()
                || spec.fan_out.is_some(),
            think_times: ThinkTimes::new(spec, shard, slots).map(Box::new),
            redirects: Redirects::new(spec, slots).map(Box::new),
            inspects_responses: false,
            ramp,
            is_preconnecting: false,
            end,
            course,
            meter: Meter::new(spec.span.warmup, end, slots as u32),
            dispatcher,
        };
        worker.with_capture()
    }

    /// Makes a script control the virtual users.
    pub(crate) fn with_script(mut self, script: Option<ScriptRunner<'run>>) -> Worker<'run, T> {
        self.script = script.map(Box::new);
        if let Some(script) = &mut self.script {
            script.set_slots(self.dispatcher.slots.len());
            self.are_users_controlled = true;
        }
        self.with_capture()
    }

    /// Makes new connections use the addresses that `lookups` finds.
    pub(crate) fn with_lookups(mut self, lookups: Option<Arc<Lookups>>) -> Worker<'run, T> {
        let book = AddressBook::new(self.spec, self.connections.len(), lookups);
        self.addresses = book.map(Box::new);
        self
    }

    /// Captures the parts of responses that the script, redirects or cookies need.
    fn with_capture(mut self) -> Worker<'run, T> {
        let script = self.script.as_ref();
        let mut capture = script.map_or(CaptureSpec::default(), |script| script.capture());
        let needs_heads = self.redirects.is_some() || self.cookies.is_some();
        // The content coding of a streamed response must be known.
        capture.heads |= needs_heads || self.event_times.is_some();
        if let Some(journey) = &self.spec.journey {
            capture.body_bytes = journey.body_bytes();
        }
        self.inspects_responses = needs_heads || script.is_some();
        self.connections.factory = CarrierFactory::new(self.spec.transport.protocols)
            .with_capture(capture)
            .with_upgrade(self.spec.websocket.clone());
        self
    }

    /// Runs until the load ends, until `control` stops it, or until the sockets fail as a whole.
    pub(crate) fn run(mut self, control: &Control, counter: &Counter) -> WorkerResult {
        counter.begin(&mut self.sink.recorder);
        let now = self.transport.sockets().now();
        self.meter.gap(Nanos::ZERO, now);
        if let Pace::Closed { .. } | Pace::OneAtATime { .. } = self.dispatcher.pace {
            // A late start must not count as wait time for connections that are already open.
            self.dispatcher.eligible_since = now;
        }
        let ended = self.run_to_end(control, counter).unwrap_or_else(|error| {
            let now = self.transport.sockets().now().min(self.end);
            self.sink.sockets_failed = Some((now, error.to_string()));
            now
        });
        counter.publish(&mut self.sink.recorder, ended, &self.meter);
        let mut result = self.finish(ended);
        counter.finish(&mut result.sink.recorder, result.utilization);
        result
    }

    /// Runs until the load, or the current part of a slice, ends. Returns the time at which it
    /// ended.
    fn run_to_end(&mut self, control: &Control, counter: &Counter) -> io::Result<Nanos> {
        let mut now = self.transport.sockets().now();
        let mut polled = now;
        loop {
            self.meter.begin_if_due(now);
            if now >= self.end || control.is_stopped() {
                return Ok(now.min(self.end));
            }
            if self.gives_up(control, now) {
                return Ok(now);
            }
            // Deadlines are compared with the time at which the sockets were last polled. If this
            // thread has not had a core since then, a response may have arrived in time without
            // being handled.
            self.run_timers(polled);
            if self.ramp.is_some() {
                self.end_ramp_if_due(now);
            }
            if self.are_users_controlled {
                self.end_think_times(now);
                self.reopen_receivers(now);
            }
            if let Some(book) = &mut self.addresses
                && book.take_changes(&self.targets, &mut self.sink.addresses)
            {
                self.replace_gone_addresses(now);
            }
            if self.dispatcher.has_deferred() {
                self.resume_deferred(now);
            }
            if self.start_due(now, STARTS_MAX) > 0 {
                let before = std::mem::replace(&mut now, self.transport.sockets().now());
                self.meter.gap(before, now);
            }
            if self.is_done() {
                return Ok(now);
            }
            self.send_dirty();
            #[cfg(test)]
            self.assert_sound();
            // Publishing may take a fraction of a millisecond, so all due requests are started
            // first.
            if counter.publish(&mut self.sink.recorder, polled, &self.meter) {
                let before = std::mem::replace(&mut now, self.transport.sockets().now());
                self.meter.gap(before, now);
            }
            let until = self.wake_at(now);
            self.wait(until)?;
            let woke = self.transport.sockets().cached_now();
            polled = woke;
            self.meter.waited(now, until, woke);
            let mut turn = self.reap(woke);
            now = self.transport.sockets().now();
            turn.stalled = turn.stalled + self.meter.gap(turn.read, now);
            self.meter.worked(woke, now, turn);
        }
    }

    /// Returns true if the load ends because every connection attempt fails.
    #[inline]
    fn gives_up(&mut self, control: &Control, now: Nanos) -> bool {
        if self.sink.refusals.may_end_load() && self.connections.has_secured(now) {
            self.sink.refusals.rule_out();
        }
        self.sink.refusals.ends_load(control)
    }

    /// Handles up to [`COMPLETIONS_MAX`] completions. The clock was last read at `woke`.
    fn reap(&mut self, woke: Nanos) -> LoopTurn {
        let ended_before = self.sink.recorder.ended_count();
        let mut turn = LoopTurn {
            cut_short: true,
            read: woke,
            ..LoopTurn::default()
        };
        let mut last = None;
        for count in 1..=COMPLETIONS_MAX {
            let Some(completion) = self.transport.sockets_mut().next() else {
                turn.cut_short = false;
                break;
            };
            // A `Sent` needs no timestamp, so the clock is not read.
            if let Completion::Sent(key, buffer) = completion {
                self.sent(key, buffer);
                continue;
            }
            let now = self.transport.sockets().cached_now();
            turn.stalled = turn.stalled + self.meter.gap(turn.read, now);
            turn.read = now;
            // Requests that start in a slice may end after the slice.
            if now >= self.end && self.course == LoadCourse::Whole {
                break;
            }
            let index = completion.key().index;
            match completion {
                Completion::Received(_) => turn.bytes += self.transport.received_bytes() as u64,
                // A second completion of the same connection, such as its close after a response,
                // is not counted.
                _ => turn.found += u32::from(last != Some(index)),
            }
            last = Some(index);
            let pending = self.dispatcher.pending_count;
            self.on_completion(completion, now);
            // One completion may end dozens of exchanges.
            let ended = pending.saturating_sub(self.dispatcher.pending_count);
            self.start_due(now, ended.max(STARTS_PER_COMPLETION));
            if count % COMPLETIONS_PER_FLUSH == 0 {
                self.send_dirty();
            }
        }
        turn.found += (self.sink.recorder.ended_count() - ended_before) as u32;
        turn
    }

    fn is_done(&self) -> bool {
        let is_exhausted = self.dispatcher.is_exhausted(self.spec) || self.have_users_left();
        let journeys = self.journeys.as_ref();
        is_exhausted
            && self.dispatcher.pending_count == 0
            && !journeys.is_some_and(|journeys| journeys.are_active())
    }

    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        let in_flight = self.dispatcher.pending_count;
        match self.coalescing.batch(in_flight) {
            Some(batch) => self.transport.sockets_mut().wait_coalesced(until, batch),
            None => self.transport.sockets_mut().wait(until),
        }
    }

    fn wake_at(&self, now: Nanos) -> Nanos {
        if self.can_start(now) {
            return now;
        }
        let other = self.wake_without_starts_at(now);
        if self.replay.is_some() {
            return self.next_replayed(now).min(self.end).min(other);
        }
        let next_due = match &self.journeys {
            Some(journeys) if journeys.has_idle() => self.dispatcher.next_scheduled(),
            Some(_) | None => self.dispatcher.next_due(),
        };
        next_due.min(self.end).min(other)
    }

    /// Time at which the worker next has something to do other than starting requests.
    fn wake_without_starts_at(&self, now: Nanos) -> Nanos {
        let ramp = self.ramp.as_ref();
        let ramp = ramp.map_or(Nanos::MAX, |ramp| ramp.wake_at(now));
        let redirects = self.redirects.as_ref();
        let sleep = if redirects.is_some_and(|redirects| redirects.is_looking_up) {
            LOOKUP_POLL_INTERVAL
        } else {
            SLEEP_MAX
        };
        // Publishing at the end of each half second, rather than with the next request, seldom
        // delays a request.
        let news = self.sink.recorder.next_news();
        ramp.min(self.timers.next()).min(news).min(now + sleep)
    }

    /// Returns the dispatcher's view of the connections.
    #[inline]
    fn view(&self) -> ConnectionView<'_> {
        ConnectionView {
            connections: &self.connections,
            ramp: self.ramp.as_ref(),
        }
    }

    /// Closes the connection of an entry, if it has one. The caller must end its requests.
    fn close(&mut self, index: u32, how: Close) {
        self.timers.connects.clear(index);
        self.timers.drains.clear(index);
        if self.spec.transport.connection_lifetime.is_some() {
            self.timers.lifetimes.clear(index);
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.settle(index, self.transport.sockets().cached_now());
        }
        if let Some(key) = self.connections.close(index) {
            self.transport.sockets_mut().close(key, how);
        }
    }
}
