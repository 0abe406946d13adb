//! Handles orders of runs. An agent takes part in one run at a time. Repeating an order has no
//! further effect, and the repetition gets the same reply.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::background::{BackgroundTask, BackgroundTasks, TaskOutcome};
use super::load_part::LoadPart;
use super::outbox::Outbox;
use super::prepare::FilePaths;
use super::received_files::ReceivedFiles;
use super::responder::Responder;
use super::settings::AgentSettings;
use super::spool::{self, SpoolError};
use super::status::{AgentSnapshot, LoadStatus};
use crate::names::RunId;
use crate::wire::{
    AgentOrder, Command, FileChunk, LEASE_RANGE_MS, LoadOrder, OrderHeader, Reply, Reservation,
    SenderVersion,
};

/// Maximum time by which an order to start may arrive before the ordered start time.
const START_AHEAD_MAX: Duration = Duration::from_secs(60);
/// Maximum time by which an order to start may arrive after the ordered start time.
const START_LATE_MAX: Duration = Duration::from_secs(3);
/// Time for which received files keep the agent busy if no load is prepared.
const FILES_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which background tasks are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Timeout for a load to stop when the agent exits.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Handles orders of runs.
pub(super) struct OrderHandler<'a> {
    settings: Arc<AgentSettings>,
    outbox: Arc<Outbox>,
    stop: &'a AtomicBool,
    files: Option<RunFiles>,
    tasks: BackgroundTasks,
    /// Checks and preparations in progress.
    running: Vec<BackgroundTask>,
    /// The current part of a load, or the last one.
    part: Option<LoadPart>,
    /// Run whose results must be deleted as soon as its load is over.
    unwanted: Option<RunId>,
}

/// Files received for a run.
struct RunFiles {
    run: RunId,
    files: ReceivedFiles,
    last_received: Instant,
}

/// Returns the reply to an order that is valid but must wait until another run is over.
fn busy(run: &RunId) -> Reply {
    Reply::Busy {
        text: format!("busy with run {run}"),
    }
}

fn wrong(text: impl Into<String>) -> Reply {
    Reply::Wrong { text: text.into() }
}

/// Parses an order. Rejects orders of other versions.
fn parse_order(message: &[u8]) -> Result<AgentOrder, Reply> {
    let invalid = |error| wrong(format!("not an order: {error}"));
    let header: OrderHeader = serde_json::from_slice(message).map_err(invalid)?;
    if !header.sender.is_own() {
        return Err(wrong(format!(
            "this agent is prony {}, but the order is from prony {}; both must have the same version",
            SenderVersion::own(),
            header.sender
        )));
    }
    serde_json::from_slice(message).map_err(invalid)
}

impl<'a> OrderHandler<'a> {
    /// Creates a handler that takes part in no run.
    pub(super) fn new(
        settings: Arc<AgentSettings>,
        outbox: Arc<Outbox>,
        stop: &'a AtomicBool,
    ) -> OrderHandler<'a> {
        OrderHandler {
            tasks: BackgroundTasks::new(settings.clone(), outbox.clone()),
            running: Vec::new(),
            settings,
            outbox,
            stop,
            files: None,
            part: None,
            unwanted: None,
        }
    }

    /// Returns the run that the agent takes part in.
    pub(super) fn busy_with(&self) -> Option<&RunId> {
        let part = self.part.as_ref().filter(|part| !part.is_over());
        let preparing = self.running.iter().find_map(BackgroundTask::preparing);
        let files = self.files.as_ref().map(|sent| &sent.run);
        part.map(LoadPart::run).or(preparing).or(files)
    }

    /// Adds the current or last part of a load to a snapshot of the agent's status.
    pub(super) fn show(&self, now: &mut AgentSnapshot) {
        let Some(part) = &self.part else { return };
        let is_over = part.is_over();
        match &mut now.load {
            Some(load) if Arc::ptr_eq(&load.control, part.control()) => load.is_over = is_over,
            load => {
                now.loads += 1;
                *load = Some(LoadStatus {
                    info: (*part.ready().load).clone(),
                    control: part.control().clone(),
                    is_over,
                });
            }
        }
    }

    /// Returns the interval for polling background tasks, if there are any.
    pub(super) fn poll_interval(&self) -> Option<Duration> {
        (!self.running.is_empty()).then_some(POLL_INTERVAL)
    }

    /// Carries out an order, unless another experiment has reserved the agent. Slow orders run on
    /// other threads, and their replies are sent later.
    pub(super) fn take(
        &mut self,
        message: &[u8],
        reserved: Option<&Reservation>,
        responder: Responder,
    ) {
        let order = match parse_order(message) {
            Ok(order) => order,
            Err(reply) => return responder(reply),
        };
        self.release_finished();
        if let Some(part) = self.part_of(&order.run) {
            part.note_coordinator();
        }
        let is_new = matches!(
            order.command,
            Command::Check(_) | Command::Put(_) | Command::Prepare(_)
        );
        let reserved = reserved.filter(|it| is_new && order.experiment.as_ref() != Some(&it.run));
        if let Some(reservation) = reserved {
            return responder(Reply::Busy {
                text: format!("{reservation}"),
            });
        }
        let run = &order.run;
        match order.command {
            Command::Check(load) => self.check(run, load, responder),
            Command::Prepare(load) => self.prepare(run, load, responder),
            Command::Put(chunk) => responder(self.put(run, &chunk)),
            Command::Start { at } => responder(self.start(run, at)),
            Command::Renew => responder(self.renew(run)),
            Command::Stop => responder(self.stop_run(run)),
            Command::Forget => responder(self.forget(run)),
            Command::Host(_) => responder(wrong("unexpected call to the machine")),
        }
    }

    /// Releases files and results that are no longer needed.
    pub(super) fn release_finished(&mut self) {
        self.poll_tasks();
        let preparing = self.running.iter().find_map(BackgroundTask::preparing);
        let part = self.part.as_ref();
        self.files.take_if(|sent| match part {
            Some(part) if part.run() == &sent.run => part.is_over(),
            _ if preparing == Some(&sent.run) => false,
            _ => sent.last_received.elapsed() > FILES_TIMEOUT,
        });
        let is_unwanted = self.unwanted.as_ref().is_some_and(|run| {
            let part = self.part_of(run);
            part.is_none_or(LoadPart::is_over)
        });
        if is_unwanted && let Some(run) = self.unwanted.take() {
            // A file that can't be removed now is removed when it reaches the maximum age.
            let _ = self.delete_results(&run);
        }
    }

    /// Stops a running load because the agent is exiting. Returns true if a load was running.
    pub(super) fn abort_for_exit(&mut self) -> bool {
        self.poll_tasks();
        self.files = None;
        match &mut self.part {
            Some(part) if part.is_over() => {
                part.join_writer();
                false
            }
            Some(part) => {
                part.stop_for_exit(EXIT_TIMEOUT);
                true
            }
            None => false,
        }
    }

    fn part_of(&self, run: &RunId) -> Option<&LoadPart> {
        self.part.as_ref().filter(|part| part.run() == run)
    }

    /// Returns the reply that rejects an order if the agent is busy with another run.
    fn busy_with_other(&self, run: &RunId) -> Option<Reply> {
        let other = self.busy_with().filter(|other| *other != run)?;
        Some(busy(other))
    }

    fn put(&mut self, run: &RunId, chunk: &FileChunk) -> Reply {
        if let Some(busy) = self.busy_with_other(run) {
            return busy;
        }
        if self.files.as_ref().is_none_or(|sent| sent.run != *run) {
            let folder = self.settings.received_folder().join(run.as_str());
            match ReceivedFiles::new(folder) {
                Ok(files) => {
                    self.files = Some(RunFiles {
                        run: run.clone(),
                        files,
                        last_received: Instant::now(),
                    });
                }
                Err(error) => return Reply::environment(error),
            }
        }
        let Some(sent) = &mut self.files else {
            return wrong("there is no folder for files");
        };
        sent.last_received = Instant::now();
        match sent.files.take(chunk) {
            Ok(()) => Reply::Done,
            Err(error) => wrong(error.to_string()),
        }
    }

    /// Returns the paths of the complete files of a run.
    fn files_of(&self, run: &RunId) -> FilePaths {
        let sent = self.files.as_ref().filter(|sent| sent.run == *run);
        sent.map(|sent| sent.files.complete()).unwrap_or_default()
    }

    fn check(&mut self, run: &RunId, load: LoadOrder, responder: Responder) {
        if let Some(other) = self.busy_with().filter(|_| !self.has_only_files(run)) {
            return responder(busy(other));
        }
        let task = self.tasks.check(run, load, self.files_of(run));
        self.follow(task, responder);
    }

    /// Returns true if the agent is busy only because it has received files for this run.
    fn has_only_files(&self, run: &RunId) -> bool {
        let is_over = self.part.as_ref().is_none_or(LoadPart::is_over);
        let is_preparing = self.running.iter().any(|it| it.preparing().is_some());
        is_over && !is_preparing && self.busy_with() == Some(run)
    }

    fn prepare(&mut self, run: &RunId, load: LoadOrder, responder: Responder) {
        if let Some(busy) = self.busy_with_other(run) {
            return responder(busy);
        }
        let other_load = || {
            wrong(format!(
                "run {run} was prepared on this agent with a different load"
            ))
        };
        if let Some(part) = self.part_of(run) {
            let is_same = part.order() == &load;
            return responder(if part.is_over() || part.is_ending() {
                wrong(format!("run {run} is over on this agent"))
            } else if is_same {
                Reply::Ready(part.ready().clone())
            } else {
                other_load()
            });
        }
        let mut running = self.running.iter_mut();
        if let Some(task) = running.find(|it| it.preparing() == Some(run)) {
            if task.order() == &load {
                task.add_responder(responder);
            } else {
                responder(other_load());
            }
            return;
        }
        if let Err(reply) = self.may_prepare(run, &load) {
            return responder(reply);
        }
        let task = self.tasks.prepare(run, load, self.files_of(run));
        self.follow(task, responder);
    }

    /// Checks whether an order to prepare a load can be accepted now.
    fn may_prepare(&self, run: &RunId, load: &LoadOrder) -> Result<(), Reply> {
        if spool::exists(&self.settings.results_folder(), run, &self.settings.name) {
            return Err(wrong(format!(
                "this agent already had a part in run {run} before it was restarted"
            )));
        }
        if !LEASE_RANGE_MS.contains(&load.lease_ms) {
            let (least, most) = LEASE_RANGE_MS.into_inner();
            return Err(wrong(format!(
                "a lease of {} ms is out of range; {least} to {most} ms are accepted",
                load.lease_ms
            )));
        }
        Ok(())
    }

    /// Tracks a task, whose reply is sent when the task is over. If the task could not be started,
    /// replies immediately.
    fn follow(&mut self, task: Result<BackgroundTask, Reply>, responder: Responder) {
        match task {
            Ok(mut task) => {
                task.add_responder(responder);
                self.running.push(task);
            }
            Err(reply) => responder(reply),
        }
    }

    /// Replies to the orders of finished tasks. If the agent is exiting, abandons the unfinished
    /// ones.
    fn poll_tasks(&mut self) {
        let is_exiting = self.stop.load(Ordering::Relaxed);
        for mut task in std::mem::take(&mut self.running) {
            let outcome = if is_exiting {
                Some(task.abandon("the agent is exiting".to_owned()))
            } else {
                task.poll()
            };
            match outcome {
                Some(outcome) => self.settle(task, outcome),
                None => self.running.push(task),
            }
        }
    }

    fn settle(&mut self, task: BackgroundTask, outcome: TaskOutcome) {
        let reply = match outcome {
            TaskOutcome::Reply(reply) => reply,
            TaskOutcome::Part(part) => {
                let reply = Reply::Ready(part.ready().clone());
                self.part = Some(*part);
                reply
            }
        };
        task.respond(&reply);
    }

    /// Abandons the preparation of a run.
    fn abandon(&mut self, run: &RunId) {
        let mut running = self.running.iter();
        if let Some(index) = running.position(|it| it.preparing() == Some(run)) {
            let task = self.running.swap_remove(index);
            let outcome = task.abandon("the load was stopped before it was ready".to_owned());
            self.settle(task, outcome);
        }
    }

    fn start(&mut self, run: &RunId, at: i64) -> Reply {
        let clock = &self.settings.clock;
        let Some(part) = self.part.as_mut().filter(|part| part.run() == run) else {
            return wrong(format!("run {run} was not prepared on this agent"));
        };
        match part.start_at() {
            Some(before) if before == at => return Reply::Done,
            Some(_) => {
                return wrong(format!(
                    "run {run} was already given a different start time"
                ));
            }
            None => {}
        }
        if part.is_over() || part.is_ending() {
            return wrong(format!("run {run} is over on this agent"));
        }
        let ahead = i128::from(at) - i128::from(clock.now());
        // A slightly late start is accepted and reported. Response times still count from the
        // ordered start.
        if -ahead > START_LATE_MAX.as_nanos() as i128 {
            let late = -ahead as f64 / 1e9;
            return Reply::Environment {
                text: format!("the order to start arrived {late:.1} s too late"),
            };
        }
        if ahead > START_AHEAD_MAX.as_nanos() as i128 {
            let ahead = ahead as f64 / 1e9;
            return wrong(format!(
                "the start is {ahead:.0} s ahead; at most {} s are accepted",
                START_AHEAD_MAX.as_secs()
            ));
        }
        part.start(at, clock);
        Reply::Done
    }

    fn renew(&self, run: &RunId) -> Reply {
        match self.part_of(run) {
            Some(part) if !part.is_over() => Reply::Done,
            Some(_) => wrong(format!("run {run} is over on this agent")),
            None if self.running.iter().any(|it| it.preparing() == Some(run)) => Reply::Done,
            None => wrong(format!("this agent has no part in run {run}")),
        }
    }

    fn stop_run(&mut self, run: &RunId) -> Reply {
        self.abandon(run);
        match self.part_of(run) {
            Some(part) => part.stop(),
            None => {
                self.files.take_if(|sent| sent.run == *run);
            }
        }
        Reply::Done
    }

    fn forget(&mut self, run: &RunId) -> Reply {
        self.abandon(run);
        match self.part_of(run).filter(|part| !part.is_over()) {
            // The load has just been canceled. Its results are deleted when it is over.
            Some(part) if part.is_ending() => {
                self.unwanted = Some(run.clone());
                return Reply::Done;
            }
            Some(_) => return wrong(format!("run {run} is still in progress on this agent")),
            None => {}
        }
        self.files.take_if(|sent| sent.run == *run);
        match self.delete_results(run) {
            Ok(()) => Reply::Done,
            Err(error) => Reply::environment(error),
        }
    }

    /// Deletes the results of a run.
    fn delete_results(&mut self, run: &RunId) -> Result<(), SpoolError> {
        if let Some(part) = self.part.as_mut().filter(|part| part.run() == run) {
            part.join_writer();
        }
        self.outbox.forget(run);
        spool::delete(&self.settings.results_folder(), run, &self.settings.name)
    }
}

/// Removes files that were received before this start of the agent.
pub(super) fn sweep(settings: &AgentSettings) {
    // Files that can't be removed do no harm.
    let _ = fs::remove_dir_all(settings.received_folder());
}
