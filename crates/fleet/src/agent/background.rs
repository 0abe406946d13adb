//! Carries out slow orders, which resolve names, connect to a target, or open connections.
//!
//! Each task runs on its own thread and has a deadline. The agent's loop polls for the outcome, so
//! that it can handle other orders at the same time, in particular renewals of leases.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_record::number;

use super::load_part::LoadPart;
use super::outbox::Outbox;
use super::prepare::{self, FilePaths};
use super::responder::Responder;
use super::settings::AgentSettings;
use super::spool;
use crate::names::RunId;
use crate::wire::{LoadOrder, Reply};

/// Timeout for resolving names and connecting to targets.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(25);
/// Timeout for starting workers and opening connections, after names have been resolved.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of concurrent threads. A task whose deadline has passed occupies its thread until
/// the system's resolver gives up.
const THREADS_MAX: usize = 8;

/// State of a task. The first side that leaves `Open` decides how the task ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum TaskState {
    #[default]
    Open,
    /// The thread has sent the result or is about to send it.
    Done,
    /// The agent's loop ignores the result.
    Abandoned,
}

/// State of a task, shared by its thread and the agent's loop.
#[derive(Debug, Default)]
struct SharedTaskState(Mutex<TaskState>);

impl SharedTaskState {
    /// Changes the state of an open task. Returns false if the other side has changed it before.
    fn leave_open(&self, to: TaskState) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = *state == TaskState::Open;
        if is_open {
            *state = to;
        }
        is_open
    }

    fn is_abandoned(&self) -> bool {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) == TaskState::Abandoned
    }
}

/// Message from a task's thread to the agent's loop.
enum TaskEvent {
    /// Names have been resolved, and workers are starting.
    Resolved,
    /// Reply to a check.
    Checked(Reply),
    /// Result of a preparation.
    Prepared(Result<Box<LoadPart>, Reply>),
}

/// Result of a slow order.
pub(super) enum TaskOutcome {
    /// A reply that completes the order.
    Reply(Reply),
    /// Part of a load that is ready to start.
    Part(Box<LoadPart>),
}

/// A slow order in progress.
pub(super) struct BackgroundTask {
    run: RunId,
    order: LoadOrder,
    is_preparation: bool,
    /// Responders of the order and of its repetitions. All of them send the same reply.
    responders: Vec<Responder>,
    reports: Receiver<TaskEvent>,
    state: Arc<SharedTaskState>,
    is_resolved: bool,
    deadline: Instant,
}

/// Starts tasks, up to a maximum number.
pub(super) struct BackgroundTasks {
    settings: Arc<AgentSettings>,
    outbox: Arc<Outbox>,
    /// Count of running threads: each thread holds a clone.
    threads: Arc<()>,
}

impl BackgroundTasks {
    /// Creates an empty set of tasks.
    pub(super) fn new(settings: Arc<AgentSettings>, outbox: Arc<Outbox>) -> BackgroundTasks {
        BackgroundTasks {
            settings,
            outbox,
            threads: Arc::new(()),
        }
    }

    /// Starts checking a load. The check sends at most one request to the target.
    ///
    /// # Errors
    ///
    /// Returns the reply if no thread can be started.
    pub(super) fn check(
        &self,
        run: &RunId,
        load: LoadOrder,
        files: FilePaths,
    ) -> Result<BackgroundTask, Reply> {
        let (settings, of_thread) = (self.settings.clone(), load.clone());
        self.begin(run, load, false, move |reports, state| {
            let checked = prepare::resolve(&of_thread, &files, &settings)
                .map(|spec| prepare::check_target(&spec))
                .map_or_else(Reply::from, Reply::Checked);
            if state.leave_open(TaskState::Done) {
                let _ = reports.send(TaskEvent::Checked(checked));
            }
        })
    }

    /// Starts preparing this agent's share of a load.
    ///
    /// # Errors
    ///
    /// Returns the reply if no thread can be started.
    pub(super) fn prepare(
        &self,
        run: &RunId,
        load: LoadOrder,
        files: FilePaths,
    ) -> Result<BackgroundTask, Reply> {
        let (settings, outbox) = (self.settings.clone(), self.outbox.clone());
        let (of_run, of_thread) = (run.clone(), load.clone());
        self.begin(run, load, true, move |reports, state| {
            let prepared = match prepare::resolve(&of_thread, &files, &settings) {
                Err(rejection) => Err(rejection.into()),
                Ok(spec) => {
                    let forecast = prepare::forecast(&spec);
                    // Sending fails if the task was abandoned and its receiver dropped.
                    let _ = reports.send(TaskEvent::Resolved);
                    let is_abandoned = || state.is_abandoned();
                    let order = (&of_run, &of_thread);
                    LoadPart::prepare(order, spec, forecast, &settings, &outbox, &is_abandoned)
                        .map_err(Reply::environment)
                }
            };
            match (state.leave_open(TaskState::Done), prepared) {
                (true, prepared) => {
                    let _ = reports.send(TaskEvent::Prepared(prepared.map(Box::new)));
                }
                (false, Ok(part)) => discard(part, &of_run, &settings, &outbox),
                (false, Err(_)) => {}
            }
        })
    }

    fn begin(
        &self,
        run: &RunId,
        load: LoadOrder,
        is_preparation: bool,
        work: impl FnOnce(&Sender<TaskEvent>, &SharedTaskState) + Send + 'static,
    ) -> Result<BackgroundTask, Reply> {
        let environment = |text: String| Reply::Environment { text };
        if Arc::strong_count(&self.threads) > THREADS_MAX {
            return Err(environment(format!(
                "{THREADS_MAX} name lookups are still running; try again in a moment"
            )));
        }
        let (sender, reports) = channel();
        let state = Arc::<SharedTaskState>::default();
        let (counted, of_thread) = (self.threads.clone(), state.clone());
        let thread = thread::Builder::new().name("task".to_owned());
        let spawned = thread.spawn(move || {
            work(&sender, &of_thread);
            drop(counted);
        });
        spawned.map_err(|error| environment(format!("can't start a thread: {error}")))?;
        Ok(BackgroundTask {
            run: run.clone(),
            order: load,
            is_preparation,
            responders: Vec::new(),
            reports,
            state,
            is_resolved: false,
            deadline: Instant::now() + LOOKUP_TIMEOUT,
        })
    }
}

/// Stops a part whose preparation was abandoned, and deletes its results.
fn discard(mut part: LoadPart, run: &RunId, settings: &AgentSettings, outbox: &Outbox) {
    part.stop();
    part.join_writer();
    outbox.forget(run);
    // A file that can't be removed now is removed when it reaches the maximum age.
    let _ = spool::delete(&settings.results_folder(), run, &settings.name);
}

impl BackgroundTask {
    /// Returns the run that is being prepared, or `None` for a check, which doesn't make the agent
    /// busy.
    pub(super) fn preparing(&self) -> Option<&RunId> {
        self.is_preparation.then_some(&self.run)
    }

    pub(super) fn order(&self) -> &LoadOrder {
        &self.order
    }

    /// Adds a responder, which gets the reply when the task ends.
    pub(super) fn add_responder(&mut self, responder: Responder) {
        self.responders.push(responder);
    }

    /// Returns the outcome if the task is done or past its deadline.
    pub(super) fn poll(&mut self) -> Option<TaskOutcome> {
        loop {
            match self.reports.try_recv() {
                Ok(TaskEvent::Resolved) => {
                    self.is_resolved = true;
                    self.deadline = Instant::now() + READY_TIMEOUT;
                }
                Ok(TaskEvent::Checked(reply) | TaskEvent::Prepared(Err(reply))) => {
                    return Some(TaskOutcome::Reply(reply));
                }
                Ok(TaskEvent::Prepared(Ok(part))) => return Some(TaskOutcome::Part(part)),
                Err(TryRecvError::Disconnected) => {
                    let text = "preparing the load failed".to_owned();
                    return Some(TaskOutcome::Reply(Reply::Environment { text }));
                }
                Err(TryRecvError::Empty) if Instant::now() > self.deadline => {
                    let text = if self.is_resolved {
                        let limit = number::span(READY_TIMEOUT.as_secs_f64());
                        format!("the workers were not ready within {limit}")
                    } else {
                        let limit = number::span(LOOKUP_TIMEOUT.as_secs_f64());
                        format!("resolving the load's names took longer than {limit}")
                    };
                    return Some(self.abandon(text));
                }
                Err(TryRecvError::Empty) => return None,
            }
        }
    }

    /// Abandons the task for this reason, unless it has just been completed.
    pub(super) fn abandon(&self, why: String) -> TaskOutcome {
        if !self.state.leave_open(TaskState::Abandoned) {
            // The thread has sent its result or is about to send it, so this wait is short.
            while let Ok(report) = self.reports.recv() {
                if let TaskEvent::Prepared(Ok(part)) = report {
                    return TaskOutcome::Part(part);
                }
            }
        }
        TaskOutcome::Reply(Reply::Environment { text: why })
    }

    /// Sends the reply to every responder.
    pub(super) fn respond(self, reply: &Reply) {
        for responder in self.responders {
            responder(reply.clone());
        }
    }
}
