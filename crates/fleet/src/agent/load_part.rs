//! An agent's share of a load (its part), from its preparation to its end.
//!
//! The load has its own threads and never waits for the network. A separate thread, the
//! [`ResultWriter`](super::result_writer), writes the results of each second to disk and passes
//! them to the [outbox](super::outbox). It also stops the load when the lease expires.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prony_load::{Control, LoadSpec, RunError, run_at};
use prony_record::Finding;

use super::outbox::Outbox;
use super::part_state::{PartEvent, PartState, StartSignal};
use super::result_writer::ResultWriter;
use super::settings::AgentSettings;
use super::spool::{Spool, SpoolError};
use crate::clock::Clock;
use crate::names::RunId;
use crate::wire::{EndReason, LoadOrder, ReadyReport};

/// Timeout for workers to become ready. Opening connections takes at most five seconds of it.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a preparation checks whether it was abandoned.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Length of the period before the start in which a load can no longer be canceled, because the
/// workers have already been given the start time.
const CANCEL_MARGIN: Duration = Duration::from_millis(200);

/// Part of a load that is ready, running or over.
pub(super) struct LoadPart {
    run: RunId,
    order: LoadOrder,
    ready: ReadyReport,
    /// Ordered start time on the agent's clock, in nanoseconds.
    start_at: Option<i64>,
    state: Arc<PartState>,
    events: Sender<PartEvent>,
    writer: Option<JoinHandle<()>>,
}

impl LoadPart {
    /// Starts the workers of a load, and waits until they are ready or the preparation is
    /// abandoned.
    ///
    /// # Errors
    ///
    /// This machine can't generate the load.
    pub(super) fn prepare(
        (run, order): (&RunId, &LoadOrder),
        spec: LoadSpec,
        forecast: Vec<Finding>,
        settings: &AgentSettings,
        outbox: &Arc<Outbox>,
        is_abandoned: &dyn Fn() -> bool,
    ) -> Result<LoadPart, PartError> {
        let control = Arc::new(Control::new(order.shard.workers));
        control.watch();
        let ready = ReadyReport {
            connections: order.shard.part(u64::from(spec.info().connections)),
            forecast,
            load: Box::new(spec.info().clone()),
        };
        let (start, start_signals) = channel();
        let (events, received) = channel();
        let (is_ready, wait) = channel();
        let state = Arc::new(PartState {
            control: control.clone(),
            start,
            lease: Duration::from_millis(order.lease_ms),
            last_contact: Mutex::new(Instant::now()),
            early_end: OnceLock::new(),
            is_over: AtomicBool::new(false),
        });
        let over = events.clone();
        spawn("load", move || {
            let begin = || {
                // Sending fails if the preparation was abandoned.
                let _ = is_ready.send(());
                wait_for_start(&start_signals)
            };
            // A panic in the engine is handled like any other failure.
            let run = AssertUnwindSafe(|| run_at(&spec, &control, None, &begin));
            let loaded = catch_unwind(run).unwrap_or_else(|_| {
                Err(RunError::Environment("the load engine failed".to_owned()))
            });
            drop(is_ready);
            let _ = over.send(PartEvent::Over(Box::new(loaded)));
        })?;
        wait_until_ready(&wait, &received, is_abandoned)
            .inspect_err(|_| state.end(EndReason::Stopped))?;
        let spool = Spool::begin(&settings.results_folder(), run, &settings.name);
        let spool = spool
            .inspect_err(|_| state.end(EndReason::Stopped))
            .map_err(PartError::Spool)?;
        let writer = ResultWriter::new((run, &settings.name), state.clone(), spool, outbox.clone());
        *state.lock_last_contact() = Instant::now();
        let writer = spawn("results", move || writer.work(&received))
            .inspect_err(|_| state.end(EndReason::Stopped))?;
        Ok(LoadPart {
            run: run.clone(),
            order: order.clone(),
            ready,
            start_at: None,
            state,
            events,
            writer: Some(writer),
        })
    }

    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    pub(super) fn order(&self) -> &LoadOrder {
        &self.order
    }

    /// Returns the reply to the order to prepare this part.
    pub(super) fn ready(&self) -> &ReadyReport {
        &self.ready
    }

    /// Returns the live counts of the load.
    pub(super) fn control(&self) -> &Arc<Control> {
        &self.state.control
    }

    /// Returns the ordered start time on the agent's clock, in nanoseconds.
    pub(super) fn start_at(&self) -> Option<i64> {
        self.start_at
    }

    /// Returns true once the last message is on disk, which is before it is sent. An agent whose
    /// last message has arrived is therefore always free.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_over.load(Ordering::Acquire)
    }

    /// Returns true if an early end was requested.
    pub(super) fn is_ending(&self) -> bool {
        self.state.early_end().is_some()
    }

    /// Waits until the outbox contains all messages of a part that [is over](LoadPart::is_over).
    pub(super) fn join_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            // A writer that panicked writes no more messages.
            let _ = writer.join();
        }
    }

    /// Records contact with the coordinator.
    pub(super) fn note_coordinator(&self) {
        self.state.note_coordinator();
    }

    /// Starts the load at this time of the agent's clock, in nanoseconds.
    pub(super) fn start(&mut self, at: i64, clock: &Clock) {
        self.start_at = Some(at);
        let moment = clock.moment(at);
        // Sending fails if the load is already over.
        let _ = self.events.send(PartEvent::Starts(at));
        let _ = self.state.start.send(StartSignal::At(moment));
    }

    /// Stops the load. Its results so far are sent.
    pub(super) fn stop(&self) {
        self.state.end(EndReason::Stopped);
    }

    /// Stops the load because the agent is exiting, and waits for its results.
    pub(super) fn stop_for_exit(&mut self, within: Duration) {
        self.state.end(EndReason::AgentEnded);
        let until = Instant::now() + within;
        while !self.is_over() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        if self.is_over() {
            self.join_writer();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, PartError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(PartError::Thread)
}

/// Reason why this machine can't generate its part of a load.
#[derive(Debug)]
pub(super) enum PartError {
    /// A thread can't be started.
    Thread(io::Error),
    /// The engine failed.
    Engine(RunError),
    /// The load ended before its start.
    EndedEarly,
    /// The thread of the load failed.
    ThreadFailed,
    /// The coordinator abandoned the preparation.
    Abandoned,
    /// The workers were not ready in time.
    Slow,
    /// The result file can't be created.
    Spool(SpoolError),
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartError::Thread(error) => write!(f, "can't start a thread: {error}"),
            PartError::Engine(error) => error.fmt(f),
            PartError::EndedEarly => f.write_str("the load ended before it started"),
            PartError::ThreadFailed => f.write_str("the load's thread failed"),
            PartError::Abandoned => f.write_str("the preparation was abandoned"),
            PartError::Slow => write!(f, "the workers were not ready within {READY_TIMEOUT:?}"),
            PartError::Spool(error) => error.fmt(f),
        }
    }
}

fn wait_until_ready(
    wait: &Receiver<()>,
    events: &Receiver<PartEvent>,
    is_abandoned: &dyn Fn() -> bool,
) -> Result<(), PartError> {
    let until = Instant::now() + READY_TIMEOUT;
    loop {
        match wait.recv_timeout(POLL_INTERVAL) {
            Ok(()) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(engine_error(events)),
            Err(RecvTimeoutError::Timeout) if is_abandoned() => return Err(PartError::Abandoned),
            Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                return Err(PartError::Slow);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Returns the error of an engine that ended before its workers were ready.
fn engine_error(events: &Receiver<PartEvent>) -> PartError {
    match events.recv_timeout(READY_TIMEOUT) {
        Ok(PartEvent::Over(over)) => match *over {
            Ok(_) => PartError::EndedEarly,
            Err(error) => PartError::Engine(error),
        },
        _ => PartError::ThreadFailed,
    }
}

/// Waits for the order to start, and then until shortly before the start. Returns `None` if the
/// load is canceled.
fn wait_for_start(signals: &Receiver<StartSignal>) -> Option<Instant> {
    let Ok(StartSignal::At(moment)) = signals.recv() else {
        return None;
    };
    let left = moment.saturating_duration_since(Instant::now());
    match signals.recv_timeout(left.saturating_sub(CANCEL_MARGIN)) {
        Err(RecvTimeoutError::Timeout) => Some(moment),
        _ => None,
    }
}
