//! One part of a load: ready, under way, over.
//!
//! The load has its own threads and never waits for anything here. Beside it one thread takes what was
//! recorded each second, writes it down and hands it to the [outbox](super::outbox); the same thread
//! ends the load when nothing was heard of the coordinator for too long. Neither touches the network.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use prony_load::{Control, LoadSpec, RunError, RunResult, run_at, stall_text};
use prony_record::{Delta, Finding, FindingId, Generator, Negotiated, Packed, Severity};

use super::Settings;
use super::outbox::Outbox;
use super::spool::Spool;
use crate::clock::Clock;
use crate::messages::{Because, Load, PartEnd, Ready, ResultMessage};
use crate::names::{AgentName, RunId};

/// How long workers may take to get ready; they open connections for five seconds at most.
const READY: Duration = Duration::from_secs(10);
/// How often something is sent.
const EVERY: Duration = Duration::from_secs(1);
/// How soon the end of a lease is noticed.
const LOOK: Duration = Duration::from_millis(100);
/// How long before the load begins its workers are told; until then it can be called off.
const AHEAD: Duration = Duration::from_millis(200);
/// Buckets of distributions in one message: written out they are half of what a server takes.
const BUCKETS: usize = 20_000;

/// What the load's own thread waits for.
enum Go {
    /// Begin at this moment.
    At(Instant),
    /// Don't begin.
    Off,
}

/// What is told to the thread beside it.
enum News {
    /// It begins then, on the agent's clock and on this machine's.
    Starts(i64),
    /// It is over.
    Over(Box<Result<RunResult, RunError>>),
}

/// What all that have to do with the part share.
struct Shared {
    control: Arc<Control>,
    go: Sender<Go>,
    lease: Duration,
    /// When the coordinator was heard of last.
    heard: Mutex<Instant>,
    /// Why it ends before its time.
    because: OnceLock<Because>,
    is_over: AtomicBool,
}

impl Shared {
    /// The coordinator was heard of. A lease that is over stays so: where this machine slept, what is
    /// heard now was said long ago.
    fn hear(&self) {
        let mut heard = self.lock();
        if heard.elapsed() <= self.lease {
            *heard = Instant::now();
        }
    }

    fn is_lease_over(&self) -> bool {
        self.lock().elapsed() > self.lease
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, because: Because) {
        // The first reason is the one.
        let _ = self.because.set(because);
        self.control.stop();
        // A load that runs waits for nothing any more.
        let _ = self.go.send(Go::Off);
    }
}

/// A part of a load, from the moment when it is ready.
pub(super) struct Running {
    run: RunId,
    load: Load,
    ready: Ready,
    starts: Option<i64>,
    shared: Arc<Shared>,
    news: Sender<News>,
    beside: Option<JoinHandle<()>>,
}

impl Running {
    /// Makes the workers of a load and waits until they are ready, or nobody waits for that any more.
    ///
    /// # Errors
    ///
    /// In words, what this machine refuses.
    pub(super) fn begin(
        (run, load): (&RunId, &Load),
        spec: LoadSpec,
        forecast: Vec<Finding>,
        settings: &Settings,
        outbox: &Arc<Outbox>,
        is_abandoned: &dyn Fn() -> bool,
    ) -> Result<Running, String> {
        let control = Arc::new(Control::new(load.stretch.workers));
        control.watch();
        let ready = Ready {
            connections: load.stretch.part(u64::from(spec.info().connections)),
            forecast,
            load: Box::new(spec.info().clone()),
        };
        let (go, gate) = channel();
        let (news, told) = channel();
        let (is_ready, wait) = channel();
        let shared = Arc::new(Shared {
            control: control.clone(),
            go,
            lease: Duration::from_millis(load.lease_ms),
            heard: Mutex::new(Instant::now()),
            because: OnceLock::new(),
            is_over: AtomicBool::new(false),
        });
        let over = news.clone();
        spawn("load", move || {
            let begin = || {
                // Whoever waited may have given up.
                let _ = is_ready.send(());
                until_told(&gate)
            };
            // A fault of the engine's is told like any other failure.
            let run = AssertUnwindSafe(|| run_at(&spec, &control, None, &begin));
            let loaded = catch_unwind(run)
                .unwrap_or_else(|_| Err(RunError::Environment("the engine failed".to_owned())));
            drop(is_ready);
            let _ = over.send(News::Over(Box::new(loaded)));
        })?;
        match until_ready(&wait, is_abandoned) {
            Ok(()) => {}
            Err(NotReady::Failed) => return Err(why_not_ready(&told)),
            Err(NotReady::Waited(why)) => {
                shared.end(Because::Stopped);
                return Err(why);
            }
        }
        let spool = Spool::begin(&settings.runs(), run, &settings.name);
        let spool = spool.inspect_err(|_| shared.end(Because::Stopped))?;
        let pump = Pump {
            run: run.clone(),
            agent: settings.name.clone(),
            shared: shared.clone(),
            spool,
            outbox: outbox.clone(),
            next: 0,
            starts: None,
            sent: Delta::default(),
            failed: None,
        };
        *shared.lock() = Instant::now();
        let beside = spawn("results", move || pump.work(&told))
            .inspect_err(|_| shared.end(Because::Stopped))?;
        Ok(Running {
            run: run.clone(),
            load: load.clone(),
            ready,
            starts: None,
            shared,
            news,
            beside: Some(beside),
        })
    }

    /// The run.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// What was ordered.
    pub(super) fn load(&self) -> &Load {
        &self.load
    }

    /// What was answered to that.
    pub(super) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// What it has done so far.
    pub(super) fn control(&self) -> &Arc<Control> {
        &self.shared.control
    }

    /// When it begins, on the agent's clock, if that was said.
    pub(super) fn starts(&self) -> Option<i64> {
        self.starts
    }

    /// Whether its last message is written down. It is so before anybody else can have that message,
    /// so that whoever does finds the agent free.
    pub(super) fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }

    /// Waits until the outbox has all that is written down, once that is [all](Running::is_over).
    pub(super) fn hand_over(&mut self) {
        if let Some(beside) = self.beside.take() {
            // One that panicked has nothing more to hand over.
            let _ = beside.join();
        }
    }

    /// Whether it was told to end.
    pub(super) fn is_ending(&self) -> bool {
        self.shared.because.get().is_some()
    }

    /// The coordinator is there.
    pub(super) fn hear(&self) {
        self.shared.hear();
    }

    /// Begins at a moment of the agent's clock.
    pub(super) fn start(&mut self, at: i64, clock: &Clock) {
        self.starts = Some(at);
        // Where nobody receives, it is over already.
        let moment = clock.moment(at);
        let _ = self.news.send(News::Starts(at));
        let _ = self.shared.go.send(Go::At(moment));
    }

    /// Ends soon; what was measured is sent.
    pub(super) fn stop(&self) {
        self.shared.end(Because::Stopped);
    }

    /// Ends because the agent does, and waits for that.
    pub(super) fn leave(&mut self, within: Duration) {
        self.shared.end(Because::AgentEnded);
        let until = Instant::now() + within;
        while !self.is_over() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        if self.is_over() {
            self.hand_over();
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| format!("starting a thread: {error}"))
}

/// Why workers are not ready.
enum NotReady {
    /// They say why themselves.
    Failed,
    /// It is no longer waited for.
    Waited(String),
}

fn until_ready(wait: &Receiver<()>, is_abandoned: &dyn Fn() -> bool) -> Result<(), NotReady> {
    let until = Instant::now() + READY;
    loop {
        match wait.recv_timeout(LOOK) {
            Ok(()) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(NotReady::Failed),
            Err(RecvTimeoutError::Timeout) if is_abandoned() => {
                return Err(NotReady::Waited("nobody waits for it any more".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                let why = format!("its workers were not ready within {READY:?}");
                return Err(NotReady::Waited(why));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn why_not_ready(told: &Receiver<News>) -> String {
    match told.recv_timeout(READY) {
        Ok(News::Over(over)) => match *over {
            Ok(_) => "it ended before it began".to_owned(),
            Err(error) => error.to_string(),
        },
        _ => "the load's thread failed".to_owned(),
    }
}

/// Waits for the word to begin, and then until shortly before.
fn until_told(gate: &Receiver<Go>) -> Option<Instant> {
    let Ok(Go::At(moment)) = gate.recv() else {
        return None;
    };
    let left = moment.saturating_duration_since(Instant::now());
    match gate.recv_timeout(left.saturating_sub(AHEAD)) {
        Err(RecvTimeoutError::Timeout) => Some(moment),
        _ => None,
    }
}

/// The thread beside the load.
struct Pump {
    run: RunId,
    agent: AgentName,
    shared: Arc<Shared>,
    spool: Spool,
    outbox: Arc<Outbox>,
    /// The next message's number.
    next: u64,
    /// When the load begins, once that is said.
    starts: Option<i64>,
    /// All that was sent, added up.
    sent: Delta,
    /// What could not be written down.
    failed: Option<String>,
}

impl Pump {
    fn work(mut self, told: &Receiver<News>) {
        let mut due = Instant::now();
        let over = loop {
            match told.recv_timeout(LOOK) {
                Ok(News::Starts(at)) => {
                    self.starts = Some(at);
                    due = Instant::now() + EVERY;
                }
                Ok(News::Over(over)) => break Some(*over),
                // The load's thread is gone without a word.
                Err(RecvTimeoutError::Disconnected) => break None,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.shared.because.get().is_none() && self.shared.is_lease_over() {
                self.shared.end(Because::LeaseEnded);
            }
            if self.starts.is_some() && Instant::now() >= due {
                due = (due + EVERY).max(Instant::now());
                let delta = self.shared.control.take();
                self.send(&delta, None);
            }
        };
        let delta = self.shared.control.take();
        let end = self.end(over, &delta);
        self.send(&delta, Some(end));
    }

    /// Writes a message down, and has it sent.
    fn send(&mut self, delta: &Delta, mut end: Option<PartEnd>) {
        let pieces = Packed::of(delta).split(BUCKETS);
        let last = pieces.len() - 1;
        for (number, packed) in pieces.into_iter().enumerate() {
            let end = end.take_if(|_| number == last);
            let is_last = end.is_some();
            let message = ResultMessage {
                run: self.run.clone(),
                agent: self.agent.clone(),
                sequence: self.next,
                packed,
                end: end.map(Box::new),
            };
            self.next += 1;
            // The same numbers as whoever adds up the messages.
            let _ = message.packed.add_to(&mut self.sent);
            if let Err(error) = self.spool.keep(&message) {
                self.failed.get_or_insert(error);
            }
            if is_last {
                self.shared.is_over.store(true, Ordering::Release);
            }
            if let Err(error) = self.outbox.push(&message) {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// What belongs to the whole; `rest` is what is sent with it.
    fn end(&self, over: Option<Result<RunResult, RunError>>, rest: &Delta) -> PartEnd {
        let because = self.shared.because.get().copied();
        let mut end = PartEnd {
            because: because.unwrap_or(Because::Failed),
            began: None,
            span: (0, 0),
            generator: Generator::default(),
            response_time_us: None,
            negotiated: Negotiated::default(),
            sources: None,
            findings: Vec::new(),
            started_at: String::new(),
        };
        match over {
            Some(Ok(loaded)) => {
                end.because = because.unwrap_or(Because::Done);
                self.tell_of(loaded, rest, &mut end);
            }
            Some(Err(RunError::CalledOff)) if because.is_some() => {}
            Some(Err(error)) => end.findings.push(failed(&self.agent, &error.to_string())),
            None => end.findings.push(failed(&self.agent, "its thread ended")),
        }
        if end.because == Because::AgentEnded {
            let text = format!(
                "Agent {} was told to exit on its own machine in the middle of the load, as by \
                 SIGTERM. Its figures end there.",
                self.agent
            );
            let finding = Finding::new(FindingId::AgentLost, Severity::Error, text);
            end.findings.push(finding);
        }
        let failed = self.failed.clone().or_else(|| self.spool.unflushed());
        end.findings.extend(failed.map(|error| {
            let text = format!(
                "Agent {} could not keep a copy of all that it measured ({error}): what the server \
                 loses is lost.",
                self.agent
            );
            Finding::new(FindingId::SpoolFailed, Severity::Warning, text)
        }));
        end
    }

    fn tell_of(&self, loaded: RunResult, rest: &Delta, end: &mut PartEnd) {
        let mut sum = self.sent.clone();
        let _ = Packed::of(rest).add_to(&mut sum);
        if sum != *loaded.recorder.total() {
            let text = format!(
                "What agent {} sent is not what it measured: a fault of prony's. Its own file has \
                 what it sent.",
                self.agent
            );
            let finding = Finding::new(FindingId::AccountingMismatch, Severity::Error, text);
            end.findings.push(finding);
        }
        let first = loaded.first_start.map(|first| first.0);
        end.began = self.starts.zip(first).map(|(at, first)| {
            let first = i64::try_from(first).unwrap_or(i64::MAX);
            (at, at.saturating_add(first))
        });
        end.span = (loaded.span.0.0, loaded.span.1.0);
        end.generator = loaded.record.generator;
        end.response_time_us = Some(loaded.record.response_time_us);
        end.negotiated = loaded.record.negotiated;
        end.sources = loaded.record.sources;
        let findings = loaded.record.findings.into_iter();
        end.findings
            .extend(findings.map(|it| self.in_own_name(it, &end.generator)));
        end.started_at = loaded.record.started_at;
    }

    /// A finding of this agent's part. That the generator stood still is told of the agent by its name,
    /// as the others did not.
    fn in_own_name(&self, finding: Finding, generator: &Generator) -> Finding {
        match generator.stalls {
            Some(stalls) if finding.id == FindingId::GeneratorStalled => {
                let subject = format!("Agent {}", self.agent);
                let text = stall_text(&subject, &stalls);
                Finding::new(FindingId::AgentStalled, finding.severity, text)
            }
            _ => finding,
        }
    }
}

fn failed(agent: &AgentName, why: &str) -> Finding {
    let text = format!("Agent {agent} could not make its part of the load: {why}.");
    Finding::new(FindingId::AgentFailed, Severity::Error, text)
}
