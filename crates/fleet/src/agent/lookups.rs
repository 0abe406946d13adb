//! Orders that may take long: names are looked up, a target is connected to, connections are opened.
//!
//! Each runs on a thread of its own and has a deadline. The agent's loop only polls for results, so that
//! other orders, and above all renewals of leases, are taken meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::host::Answering;
use super::outbox::Outbox;
use super::prepare::{self, Whole};
use super::running::Running;
use super::{Settings, spool};
use crate::messages::{Load, Reply};
use crate::names::RunId;

/// Deadline for looking up names and connecting to targets.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(25);
/// Deadline for what follows: workers are started, and connections opened.
const READY_TIMEOUT: Duration = Duration::from_secs(15);
/// Threads that may run at the same time. A lookup that passed its deadline keeps its thread until the
/// system's resolver gives up.
const THREADS_MAX: usize = 8;

/// Nobody knows yet how it ends.
const OPEN: u8 = 0;
/// Its result was sent, or is about to be.
const DONE: u8 = 1;
/// Nobody waits for its result.
const ABANDONED: u8 = 2;

/// What a thread reports.
enum Report {
    /// Names are known; workers are started now.
    Resolved,
    /// The end, of a check.
    Checked(Reply),
    /// The end, of a preparation.
    Prepared(Result<Box<Running>, Reply>),
}

/// An order's result.
pub(super) enum Found {
    /// The response to it.
    Reply(Reply),
    /// A part that is ready to begin.
    Part(Box<Running>),
}

/// An order that is carried out on a thread.
pub(super) struct Lookup {
    run: RunId,
    load: Load,
    is_preparation: bool,
    /// Those who wait for the response: an order may come twice.
    waiting: Vec<Answering>,
    reports: Receiver<Report>,
    state: Arc<AtomicU8>,
    is_resolved: bool,
    deadline: Instant,
}

/// Starts lookups, of which there is a bounded number.
pub(super) struct Lookups {
    settings: Arc<Settings>,
    outbox: Arc<Outbox>,
    /// Each thread holds a clone.
    threads: Arc<()>,
}

impl Lookups {
    /// No thread runs.
    pub(super) fn new(settings: Arc<Settings>, outbox: Arc<Outbox>) -> Lookups {
        Lookups {
            settings,
            outbox,
            threads: Arc::new(()),
        }
    }

    /// Checks a load, whose target is asked once.
    ///
    /// # Errors
    ///
    /// The response, where no thread can be started.
    pub(super) fn check(&self, run: &RunId, load: Load, files: Whole) -> Result<Lookup, Reply> {
        let (settings, of_thread) = (self.settings.clone(), load.clone());
        self.begin(run, load, false, move |reports, state| {
            let checked = prepare::resolve(&of_thread, &files, &settings)
                .map(|spec| prepare::check(&spec))
                .map_or_else(Reply::from, Reply::Checked);
            // Otherwise nobody waits for it any more.
            if finish(state) {
                let _ = reports.send(Report::Checked(checked));
            }
        })
    }

    /// Prepares a part of a load.
    ///
    /// # Errors
    ///
    /// The response, where no thread can be started.
    pub(super) fn prepare(&self, run: &RunId, load: Load, files: Whole) -> Result<Lookup, Reply> {
        let (settings, outbox) = (self.settings.clone(), self.outbox.clone());
        let (of_run, of_thread) = (run.clone(), load.clone());
        self.begin(run, load, true, move |reports, state| {
            let prepared = match prepare::resolve(&of_thread, &files, &settings) {
                Err(no) => Err(no.into()),
                Ok(spec) => {
                    let forecast = prepare::forecast(&spec);
                    // Where nobody receives it, the state says so.
                    let _ = reports.send(Report::Resolved);
                    let is_abandoned = || state.load(Ordering::Acquire) == ABANDONED;
                    let order = (&of_run, &of_thread);
                    Running::begin(order, spec, forecast, &settings, &outbox, &is_abandoned)
                        .map_err(|text| Reply::Environment { text })
                }
            };
            match (finish(state), prepared) {
                (true, prepared) => {
                    let _ = reports.send(Report::Prepared(prepared.map(Box::new)));
                }
                (false, Ok(part)) => discard(part, &of_run, &settings, &outbox),
                (false, Err(_)) => {}
            }
        })
    }

    fn begin(
        &self,
        run: &RunId,
        load: Load,
        is_preparation: bool,
        work: impl FnOnce(&Sender<Report>, &AtomicU8) + Send + 'static,
    ) -> Result<Lookup, Reply> {
        let environment = |text: String| Reply::Environment { text };
        if Arc::strong_count(&self.threads) > THREADS_MAX {
            return Err(environment(format!(
                "{THREADS_MAX} lookups of names still run; try again in a moment"
            )));
        }
        let (sender, reports) = channel();
        let state = Arc::new(AtomicU8::new(OPEN));
        let (counted, of_thread) = (self.threads.clone(), state.clone());
        let thread = thread::Builder::new().name("lookup".to_owned());
        let spawned = thread.spawn(move || {
            work(&sender, &of_thread);
            drop(counted);
        });
        spawned.map_err(|error| environment(format!("starting a thread: {error}")))?;
        Ok(Lookup {
            run: run.clone(),
            load,
            is_preparation,
            waiting: Vec::new(),
            reports,
            state,
            is_resolved: false,
            deadline: Instant::now() + LOOKUP_TIMEOUT,
        })
    }
}

/// Claims the end of a lookup for its thread; false where nobody waits for it any more.
fn finish(state: &AtomicU8) -> bool {
    let claimed = state.compare_exchange(OPEN, DONE, Ordering::AcqRel, Ordering::Acquire);
    claimed.is_ok()
}

/// Ends a part that nobody wants, and keeps nothing of it.
fn discard(mut part: Running, run: &RunId, settings: &Settings, outbox: &Outbox) {
    part.stop();
    part.hand_over();
    outbox.forget(run);
    // What can't be removed goes with those that are too old.
    let _ = spool::forget(&settings.runs(), run, &settings.name);
}

impl Lookup {
    /// The run that gets ready; none for a check, which keeps the agent from nothing.
    pub(super) fn preparing(&self) -> Option<&RunId> {
        self.is_preparation.then_some(&self.run)
    }

    /// What was ordered.
    pub(super) fn load(&self) -> &Load {
        &self.load
    }

    /// Responds to one more when it is over.
    pub(super) fn wait(&mut self, answer: Answering) {
        self.waiting.push(answer);
    }

    /// The result, if it is there, or the deadline has passed.
    pub(super) fn poll(&mut self) -> Option<Found> {
        loop {
            match self.reports.try_recv() {
                Ok(Report::Resolved) => {
                    self.is_resolved = true;
                    self.deadline = Instant::now() + READY_TIMEOUT;
                }
                Ok(Report::Checked(reply) | Report::Prepared(Err(reply))) => {
                    return Some(Found::Reply(reply));
                }
                Ok(Report::Prepared(Ok(part))) => return Some(Found::Part(part)),
                Err(TryRecvError::Disconnected) => {
                    let text = "reading the load failed".to_owned();
                    return Some(Found::Reply(Reply::Environment { text }));
                }
                Err(TryRecvError::Empty) if Instant::now() > self.deadline => {
                    let text = match self.is_resolved {
                        false => format!(
                            "looking up the load's names took longer than {LOOKUP_TIMEOUT:?}"
                        ),
                        true => format!("its workers were not ready within {READY_TIMEOUT:?}"),
                    };
                    return Some(self.abandon(text));
                }
                Err(TryRecvError::Empty) => return None,
            }
        }
    }

    /// Gives it up for this reason, unless it has just ended.
    pub(super) fn abandon(&self, why: String) -> Found {
        let open = OPEN;
        let gave_up =
            self.state
                .compare_exchange(open, ABANDONED, Ordering::AcqRel, Ordering::Acquire);
        if gave_up.is_err() {
            // Its thread sends the result right now, or has ended.
            while let Ok(report) = self.reports.recv() {
                if let Report::Prepared(Ok(part)) = report {
                    return Found::Part(part);
                }
            }
        }
        Found::Reply(Reply::Environment { text: why })
    }

    /// Sends everybody who waits the response.
    pub(super) fn answer(self, reply: &Reply) {
        for answer in self.waiting {
            answer(reply.clone());
        }
    }
}
