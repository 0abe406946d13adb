//! Runs a load on its threads: takes a load spec and returns a record.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use prony_record::finding::{IoFallback, SocketsFailed};
use prony_record::{Finding, Nanos, Record, RecordError, Recorder, ReplayUse, Severity};

use crate::carrier::{ByteTransport, StreamTransport, Transport};
use crate::engine::findings;
use crate::engine::idle::{EndIdleOnDrop, IdleConnections, quic_sockets};
use crate::engine::progress::{Control, Counter};
use crate::engine::reasons::Reasons;
use crate::engine::replay::{ReplayFeed, ReplayQueues, ReplayReader};
use crate::engine::slices::{CurrentSlice, EndOnDrop, LoadSlice, SliceReport, Slices};
use crate::engine::worker::{ScriptRunner, SliceFeed, Worker, WorkerResult};
use crate::request::script::{Director, Users};
use crate::server_check::reach;
use crate::socket::{Backend, PollSockets, QuicSockets, UdpDatagrams, system};
use crate::socket::{UringSockets, XdpLink, XdpSockets};
use crate::spec::LoadSpec;
use crate::target::addresses::{Lookups, RunningLookups};
use crate::tls;
use crate::values::shard::Shard;
use crate::values::url::Url;

/// Reason why a load has no record.
#[derive(Debug)]
pub enum RunError {
    /// The operating system refused something that the engine itself needs.
    Environment(String),
    /// The counts in the record are inconsistent.
    Accounting(RecordError),
    /// A script can't be created.
    Script(String),
    /// The load was canceled before it began.
    Canceled,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Environment(text) | RunError::Script(text) => f.write_str(text),
            RunError::Canceled => f.write_str("the load was canceled before it began"),
            RunError::Accounting(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RunError {}

/// Result of a load.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// The record to be stored. For a shard of a load, it has that shard's rate and connections.
    pub record: Record,
    /// The recorder, which holds the complete distributions.
    pub recorder: Recorder,
    /// Time from the load's start to the first request; `None` if there was no request.
    pub first_start: Option<Nanos>,
    /// Start and end of the measured part, relative to the load's start.
    pub span: (Nanos, Nanos),
}

/// Runs a load until it ends or `control` stops it, and returns its record.
///
/// # Errors
///
/// See [`RunError`]; failures of requests are results, not errors.
pub fn run(spec: &LoadSpec, control: &Control) -> Result<Record, RunError> {
    run_with(spec, control, None).map(|loaded| loaded.record)
}

/// Like [`run`], with a script for each worker, and with complete distributions in the result.
///
/// # Errors
///
/// Those of [`run`], and [`RunError::Script`] if a script can't be created.
pub fn run_with(
    spec: &LoadSpec,
    control: &Control,
    director: Option<&dyn Director>,
) -> Result<RunResult, RunError> {
    run_at(spec, control, director, &|| Some(Instant::now()))
}

/// Like [`run_with`], but begins at the time that `begin` returns. The function is called once,
/// when all workers are ready, and may block. If it returns `None`, the load is canceled. Workers
/// of a load that opens its connections before the start ([`LoadSpec::open_before_start`]) are
/// ready when they have opened them, or have tried for five seconds.
///
/// # Errors
///
/// Those of [`run_with`], and [`RunError::Canceled`].
pub fn run_at(
    spec: &LoadSpec,
    control: &Control,
    director: Option<&dyn Director>,
    begin: &dyn Fn() -> Option<Instant>,
) -> Result<RunResult, RunError> {
    run_on_course(spec, control, director, begin, None)
}

/// Runs a load in slices. Returns after [`Slices::end`] was called or the load has failed. If
/// `control` stops the load during a slice, this function returns immediately; otherwise it returns
/// when the next slice begins.
///
/// Each slice lasts until its last request has finished, so the load should have a request timeout.
///
/// # Errors
///
/// Those of [`run`].
pub fn run_in_slices(
    spec: &LoadSpec,
    control: &Control,
    slices: &Slices,
) -> Result<Record, RunError> {
    let _end = EndOnDrop(slices);
    let obstacle = match (spec.span.requests, spec.info.stages.is_empty()) {
        // A worker that has sent its share would be idle until the other workers have sent theirs.
        (Some(_), _) => Some("a load in slices can't end after a number of requests"),
        _ if spec.replay.is_some() => Some("a log can't be replayed in slices"),
        // The settling parts and the drains would distort the profile.
        (None, false) => Some("the rate of a load in slices can't change over time"),
        (None, true) => None,
    };
    if let Some(text) = obstacle {
        return Err(RunError::Environment(text.to_owned()));
    }
    let begin = || Some(Instant::now());
    run_on_course(spec, control, None, &begin, Some(slices)).map(|loaded| loaded.record)
}

/// Checks that a load with a script has a director, and that it has none of the settings that
/// scripts replace.
fn check_director(spec: &LoadSpec, director: Option<&dyn Director>) -> Result<(), RunError> {
    if director.is_some() && spec.has_cookies {
        let text = "cookies can't be combined with a script, which has its own";
        return Err(RunError::Script(text.to_owned()));
    }
    match (&spec.script, director) {
        (Some(script), None) => {
            let file = script.file.display();
            let text = format!("{file}: this program does not support scripts");
            Err(RunError::Script(text))
        }
        _ => Ok(()),
    }
}

fn run_on_course(
    spec: &LoadSpec,
    control: &Control,
    director: Option<&dyn Director>,
    begin: &dyn Fn() -> Option<Instant>,
    slices: Option<&Slices>,
) -> Result<RunResult, RunError> {
    check_director(spec, director)?;
    if spec.transport.protocols.is_http3() {
        // Over UDP, a missing server may simply not respond. One failed connection gives a
        // clearer error than timeouts of all connections.
        let reached = reach(spec, QUIC_TIMEOUT);
        reached.map_err(|error| RunError::Environment(error.to_string()))?;
    }
    let link = bypass_link(spec)?;
    let lookups = lookups(spec)?;
    let lookups = lookups.as_ref();
    let idle = IdleConnections::of(spec);
    let idle = idle.as_ref();
    let workers = spec.placement.shards.workers;
    let queues = spec.replay.as_ref().map(|_| ReplayQueues::new(workers));
    let queues = queues.as_ref();
    let (worked, started_at, idle, log) = std::thread::scope(|scope| {
        let end_idle = EndIdleOnDrop(idle);
        let (ready, prepared) = mpsc::channel();
        let idle = idle.map(|idle| {
            let ready = ready.clone();
            let thread = std::thread::Builder::new().name("load-idle".to_owned());
            thread
                .spawn_scoped(scope, move || idle.run(control, ready))
                .map_err(|error| RunError::Environment(format!("starting a thread: {error}")))
        });
        let idle = idle.transpose()?;
        let end_reader = queues.map(ReplayQueues::end_on_drop);
        let (begin_reading, reader_gate) = mpsc::channel();
        let reader = match (&spec.replay, queues) {
            (Some(replay), Some(queues)) => {
                let reader = ReplayReader {
                    replay,
                    queues,
                    control,
                    ready: ready.clone(),
                    gate: reader_gate,
                };
                let thread = std::thread::Builder::new().name("load-log".to_owned());
                let thread = thread.spawn_scoped(scope, move || reader.run(spec));
                let failed = |error| RunError::Environment(format!("starting a thread: {error}"));
                Some(thread.map_err(failed)?)
            }
            _ => None,
        };
        let mut workers = Vec::new();
        for worker in 0..u64::from(spec.placement.shards.workers) {
            let (go, gate) = mpsc::channel();
            let ready = ready.clone();
            let link = link.clone();
            // Returning early drops the gates, which ends the other workers.
            let thread = std::thread::Builder::new()
                .name(format!("load-{worker}"))
                .spawn_scoped(scope, move || {
                    let _end = slices.map(EndOnDrop);
                    let gate = &gate;
                    let sync = WorkerSync {
                        gate,
                        ready,
                        slices,
                    };
                    let starting = StartingWorker {
                        number: worker,
                        link,
                        lookups: lookups.map(|running| running.0.clone()),
                        feed: (spec.replay.as_ref())
                            .zip(queues)
                            .map(|(replay, all)| all.feed(worker as usize, replay.timing())),
                    };
                    one_worker(spec, director, starting, control, sync)
                })
                .map_err(|error| RunError::Environment(format!("starting a thread: {error}")))?;
            workers.push((go, thread));
        }
        drop(ready);
        let threads = workers.len() + usize::from(idle.is_some()) + usize::from(reader.is_some());
        let all_ready = prepared.iter().count() == threads;
        let epoch = all_ready.then(begin).flatten();
        let started_at = SystemTime::now() + epoch.map_or(Duration::ZERO, until);
        if let Some(epoch) = epoch {
            // A reader that has read the whole log needs no start time.
            let _ = begin_reading.send(epoch);
        }
        drop(begin_reading);
        let worked: Vec<_> = workers
            .into_iter()
            .map(|(go, thread)| {
                if let Some(epoch) = epoch {
                    // The error of a worker that has ended is returned when the worker is joined.
                    let _ = go.send(epoch);
                }
                thread
            })
            .collect();
        let worked = worked.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let worked = worked.collect::<Result<Vec<_>, _>>()?;
        drop(end_reader);
        let log = reader.map(|reader| match reader.join() {
            Ok(log) => log,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        drop(end_idle);
        let idle = idle.map(|idle| match idle.join() {
            Ok(result) => result.map_err(|error| {
                RunError::Environment(format!("can't open idle connections: {error}"))
            }),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        match epoch {
            None if all_ready => Err(RunError::Canceled),
            _ => Ok((worked, started_at, idle.transpose()?, log)),
        }
    })?;
    let mut loaded = merge(spec, worked.into_iter().flatten().collect(), started_at)?;
    loaded.record.idle = idle;
    if let (Some(log), Some(used)) = (log, &mut loaded.record.replay) {
        findings::add_log(used, &log);
        loaded.record.findings.extend(findings::of_log(used));
    }
    Ok(loaded)
}

/// Time left until `moment`; zero if it has passed.
fn until(moment: Instant) -> Duration {
    moment.saturating_duration_since(Instant::now())
}

/// Maximum expected delay in waking a sleeping thread. The thread spins for this last part of the
/// wait. A larger value would take CPU time from other workers on machines with few cores.
const WAKE_DELAY_MAX: Duration = Duration::from_micros(200);

/// Time limit for opening the first QUIC connection to a server.
const QUIC_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which connections that were opened before the load are serviced until the load
/// begins.
const SERVICE_INTERVAL: Duration = Duration::from_millis(50);
/// Time before the start at which the servicing of connections ends. Servicing thousands of
/// connections takes time, and no worker may begin late.
const SERVICE_END_BEFORE_START: Duration = Duration::from_millis(20);

/// Waits until `moment` with microsecond precision.
fn wait_until(moment: Instant) {
    std::thread::sleep(until(moment).saturating_sub(WAKE_DELAY_MAX));
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}

/// Channels and slices that synchronize a worker with the other workers of its load.
struct WorkerSync<'a> {
    /// Receives the start time of the load, from which all workers measure time.
    gate: &'a mpsc::Receiver<Instant>,
    /// Reports that the worker is ready.
    ready: mpsc::Sender<()>,
    /// The slices of an interleaved load.
    slices: Option<&'a Slices>,
}

/// A worker's index in this process, and the objects that it shares with the other workers.
struct StartingWorker<'a> {
    number: u64,
    link: Option<Arc<XdpLink>>,
    lookups: Option<Arc<Lookups>>,
    /// The worker's requests of the log, if the load replays one.
    feed: Option<ReplayFeed<'a>>,
}

/// Starts to look up the load's names again, if the load does so.
fn lookups(spec: &LoadSpec) -> Result<Option<RunningLookups>, RunError> {
    let Some(every) = spec.addresses.resolve_every else {
        return Ok(None);
    };
    let names = spec
        .targets
        .iter()
        .map(|target| target.named.as_deref().cloned());
    let writer = spec.writer();
    let look_up = move |url: &Url, in_use: &[SocketAddr]| writer.addresses_again(url, in_use);
    Lookups::start(names.collect(), every, look_up)
        .map(Some)
        .map_err(|error| RunError::Environment(format!("starting a thread: {error}")))
}

/// Attaches the program of a load over AF_XDP. Returns `None` for other loads.
fn bypass_link(spec: &LoadSpec) -> Result<Option<Arc<XdpLink>>, RunError> {
    let Some(bypass) = &spec.placement.bypass else {
        return Ok(None);
    };
    let link = XdpLink::attach(&bypass.setup, spec.placement.shards.workers);
    link.map(Some)
        .map_err(|error| RunError::Environment(error.to_string()))
}

/// Runs one worker's thread. The worker prepares, reports that it is ready, and begins when the
/// gate opens. Returns `None` if the gate closes instead.
fn one_worker<'run>(
    spec: &'run LoadSpec,
    director: Option<&'run dyn Director>,
    starting: StartingWorker<'run>,
    control: &Control,
    sync: WorkerSync<'_>,
) -> Result<Option<WorkerResult>, RunError> {
    let worker = starting.number;
    let shard = spec.shard(worker);
    if let Some(&core) = spec
        .placement
        .cores
        .get(worker as usize % spec.placement.cores.len().max(1))
    {
        system::pin_thread(core).map_err(RunError::Environment)?;
    }
    if spec.info.is_open() {
        system::request_short_slice();
    }
    if spec.tls.is_some() {
        tls::seed_random_numbers();
    }
    let slots = spec.connections_max(shard) as usize;
    let scripted = match director {
        Some(director) => Some(script(spec, director, shard)?),
        None => None,
    };
    let start = Start {
        shard,
        scripted,
        lookups: starting.lookups,
        feed: starting.feed,
        sync,
    };
    if spec.transport.protocols.is_http3() {
        let set_clock = |sockets: &mut QuicSockets<UdpDatagrams>, epoch| {
            sockets.datagrams_mut().start_clock(epoch);
        };
        let transport = quic_sockets(spec, slots).map(StreamTransport);
        return start.run(spec, control, transport, set_clock);
    }
    match spec.placement.backend {
        Backend::Uring => {
            let set_clock = UringSockets::start_clock;
            let transport = UringSockets::new(slots).map(ByteTransport);
            start.run(spec, control, transport, set_clock)
        }
        Backend::Poll => {
            let set_clock = PollSockets::start_clock;
            let transport = PollSockets::new(slots).map(ByteTransport);
            start.run(spec, control, transport, set_clock)
        }
        Backend::Xdp => {
            let transport = match starting.link {
                Some(link) => Ok(ByteTransport(XdpSockets::new(link, worker as u32, slots))),
                // Not reached: the load attached its program before its workers started.
                None => Err(io::ErrorKind::Unsupported.into()),
            };
            start.run(spec, control, transport, XdpSockets::start_clock)
        }
    }
}

/// Creates the script of a worker's users.
fn script<'d>(
    spec: &LoadSpec,
    director: &'d dyn Director,
    shard: Shard,
) -> Result<ScriptRunner<'d>, RunError> {
    let streams = spec.transport.protocols.streams;
    let users = Users {
        worker: shard.worker as u32,
        first: shard.items_before(u64::from(spec.connections)) as u32 * streams,
        count: spec.connections_of(shard) * streams,
    };
    let script = director.script(users).map_err(RunError::Script)?;
    Ok(ScriptRunner::new(script, director.capture(), users.first))
}

/// Synchronizes a worker's start with the other workers of its load.
struct Start<'run, 'a> {
    shard: Shard,
    scripted: Option<ScriptRunner<'run>>,
    lookups: Option<Arc<Lookups>>,
    feed: Option<ReplayFeed<'run>>,
    sync: WorkerSync<'a>,
}

impl<'run> Start<'run, '_> {
    /// See [`one_worker`].
    fn run<T: Transport<'run>>(
        mut self,
        spec: &'run LoadSpec,
        control: &Control,
        transport: io::Result<T>,
        set_clock: fn(&mut T::Sockets, Instant),
    ) -> Result<Option<WorkerResult>, RunError> {
        let waiting =
            |error| RunError::Environment(format!("can't wait for socket events: {error}"));
        let WorkerSync {
            gate,
            ready,
            slices,
        } = self.sync;
        let transport = transport
            .map_err(|error| RunError::Environment(format!("can't set up socket I/O: {error}")))?;
        let worker = match slices {
            None => Worker::new(spec, self.shard, transport),
            Some(_) => Worker::in_slices(spec, self.shard, transport),
        };
        let worker = worker.with_script(self.scripted.take());
        let mut worker = worker.with_lookups(self.lookups.take());
        worker.preconnect(control).map_err(waiting)?;
        // The receiver waits for all workers, and then opens or closes the gates.
        let _ = ready.send(());
        drop(ready);
        let Some(epoch) = at_gate(&mut worker, gate).map_err(waiting)? else {
            return Ok(None);
        };
        let mut worker = worker.restart().with_replay(self.feed.take());
        wait_until(epoch);
        worker.start_clock(|sockets| set_clock(sockets, epoch));
        let unwatched = Counter::default();
        let counter = control
            .counter(spec.number_here(self.shard))
            .unwrap_or(&unwatched);
        let worked = match slices {
            None => Ok(worker.run(control, counter)),
            Some(slices) => {
                let mut feed = ClockedSlices {
                    slices,
                    last: 0,
                    set_clock,
                };
                worker.run_in_slices(control, counter, &mut feed)
            }
        };
        worked.map(Some).map_err(waiting)
    }
}

/// The slices of a worker that runs in real time.
struct ClockedSlices<'a, S> {
    slices: &'a Slices,
    /// One-based index of the current slice or, between two slices, of the last one.
    last: u64,
    set_clock: fn(&mut S, Instant),
}

impl<S> SliceFeed<S> for ClockedSlices<'_, S> {
    fn next(&mut self, sockets: &mut S) -> Result<LoadSlice, Nanos> {
        let CurrentSlice { number, slice, at } = self.slices.next(self.last)?;
        self.last = number;
        wait_until(at);
        // The subtraction can't fail: the clock of the operating system counts from boot, which was
        // before the start of the load.
        let epoch = at.checked_sub(slice.begin().into()).unwrap_or(at);
        (self.set_clock)(sockets, epoch);
        Ok(slice)
    }

    fn ended(&mut self, report: SliceReport) {
        self.slices.ended(report);
    }
}

/// Waits until the gate sends the start time, and services the open connections until shortly
/// before the start.
fn at_gate<'run, T: Transport<'run>>(
    worker: &mut Worker<'run, T>,
    gate: &mpsc::Receiver<Instant>,
) -> io::Result<Option<Instant>> {
    if !worker.is_preconnecting() {
        return Ok(gate.recv().ok());
    }
    let epoch = loop {
        match gate.recv_timeout(SERVICE_INTERVAL) {
            Ok(epoch) => break epoch,
            Err(RecvTimeoutError::Timeout) => {
                worker.maintain(Nanos::ZERO)?;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    };
    loop {
        let left = until(epoch).saturating_sub(SERVICE_END_BEFORE_START);
        if left.is_zero() {
            return Ok(Some(epoch));
        }
        std::thread::sleep(left.min(SERVICE_INTERVAL));
        worker.maintain(Nanos::ZERO)?;
    }
}

/// Merges the workers' results into one record.
pub(crate) fn merge(
    spec: &LoadSpec,
    worked: Vec<WorkerResult>,
    started_at: SystemTime,
) -> Result<RunResult, RunError> {
    let mut workers = worked.into_iter();
    let Some(mut whole) = workers.next() else {
        return Err(RunError::Environment("a load needs a worker".to_owned()));
    };
    for worker in workers {
        whole.sink.merge(worker.sink);
        whole.ended = whole.ended.max(worker.ended);
        whole.utilization = whole.utilization.merge(worker.utilization);
    }
    let WorkerResult {
        sink,
        ended,
        utilization,
    } = whole;
    let outcomes = sink.recorder.outcomes();
    let unstarted = outcomes.get(prony_record::Outcome::Unstarted);
    let due = sink.recorder.started_count() + unstarted;
    let offered = spec.info.is_open().then_some(due);
    let span = (spec.span.warmup.min(ended), ended);
    let mut record = Record::build(spec.info_here(), sink.recorder.total(), span, offered);
    record.totals.check().map_err(RunError::Accounting)?;
    record.keep_entry_histograms(&sink.recorder.total().entries);
    record.started_at = humantime::format_rfc3339_seconds(started_at).to_string();
    record.seed = spec.seed;
    record.sources = sink.sources.summary(&spec.sources);
    record.addresses = sink.addresses.summary(spec.addresses.order);
    record.negotiated = sink.negotiated.unwrap_or_default();
    record.quic = sink.quic;
    record.replay = spec.replay.as_ref().map(|_| ReplayUse {
        handovers: sink.handovers,
        ..ReplayUse::default()
    });
    record.websocket = spec.websocket.is_some().then_some(sink.websocket);
    utilization.write_to(&mut record.generator);
    record.generator.xdp = sink.xdp;
    record.generator.max_rss_bytes = system::peak_memory_bytes();
    let reasons = Reasons::by_count(&sink.reasons);
    record.findings = findings::findings_of(&record, &reasons, sink.unsolicited, sink.closed);
    let limited = sink.streams_limit;
    record
        .findings
        .extend(limited.map(|limit| findings::streams_limited(&record, limit)));
    record.findings.extend(sink.preconnect.finding());
    if let Some((at, error)) = &sink.sockets_failed {
        let figures = SocketsFailed {
            at_s: at.as_secs_f64(),
            error: error.to_string(),
        };
        let finding = Finding::of(Severity::Error, &figures);
        record.findings.push(finding);
    }
    record.findings.extend(sink.refusals.finding(spec));
    record.findings.extend(sink.connects.finding());
    let ok = record.totals.ok;
    record.findings.extend(sink.body_waits.finding(ok));
    record.findings.extend_from_slice(&spec.forecast);
    if let Some(error) = &spec.placement.io_uring_error {
        let error = error.clone();
        record
            .findings
            .push(Finding::of(Severity::Note, &IoFallback { error }));
    }
    Ok(RunResult {
        record,
        recorder: sink.recorder,
        first_start: sink.first_start,
        span,
    })
}
