//! Where orders are taken: one run at a time, each order once, however often it comes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use prony_load::LoadSpec;
use prony_record::Finding;
use serde::Deserialize;

use super::files::Files;
use super::outbox::Outbox;
use super::prepare::{self, No, Whole};
use super::running::Running;
use super::{Settings, spool};
use crate::messages::{Checked, Load, Order, Piece, Reply, VERSION, What};
use crate::names::RunId;

/// The furthest ahead that a load may begin, and how long an agent may be held by nothing but files.
const FURTHEST: Duration = Duration::from_secs(60);
/// The latest that it may begin after its moment.
const LATEST: Duration = Duration::from_secs(3);
/// Leases that make sense, in milliseconds: a shorter one ends by a hiccup of the network.
const LEASE_MS: std::ops::RangeInclusive<u64> = 200..=120_000;
/// How long it may take to look at an order's load: names are looked up, and targets connected to.
const LOOK: Duration = Duration::from_secs(25);
/// How soon it is noticed that the agent is to end.
const NOTICE: Duration = Duration::from_millis(50);
/// How long a load may take to end with the agent.
const LEAVE: Duration = Duration::from_secs(5);

/// What an agent has to do with runs.
pub(super) struct Desk<'a> {
    settings: Arc<Settings>,
    outbox: Arc<Outbox>,
    stop: &'a AtomicBool,
    files: Option<Sent>,
    /// The part that is made, or was made last.
    part: Option<Running>,
    /// Nobody wants what is measured in this run: it is forgotten as soon as it is over.
    unwanted: Option<RunId>,
}

/// Files that came for a run.
struct Sent {
    run: RunId,
    files: Files,
    at: Instant,
}

/// What every order of every version has.
#[derive(Deserialize)]
struct AnyOrder {
    version: String,
}

/// Nothing is wrong with what was asked: later it may be done.
fn busy(run: &RunId) -> Reply {
    Reply::Environment {
        text: format!("it is busy with run {run}"),
    }
}

fn wrong(text: impl Into<String>) -> Reply {
    Reply::Wrong { text: text.into() }
}

impl<'a> Desk<'a> {
    /// A desk without any run.
    pub(super) fn new(
        settings: Arc<Settings>,
        outbox: Arc<Outbox>,
        stop: &'a AtomicBool,
    ) -> Desk<'a> {
        Desk {
            settings,
            outbox,
            stop,
            files: None,
            part: None,
            unwanted: None,
        }
    }

    /// The run that the agent is part of.
    pub(super) fn busy_with(&self) -> Option<&RunId> {
        let part = self.part.as_ref().filter(|part| !part.is_over());
        let files = self.files.as_ref().map(|sent| &sent.run);
        part.map(Running::run).or(files)
    }

    /// Does what a message asks for, and says what came of it.
    pub(super) fn take(&mut self, message: &[u8]) -> Reply {
        let any: AnyOrder = match serde_json::from_slice(message) {
            Ok(any) => any,
            Err(error) => return wrong(format!("this is no order: {error}")),
        };
        if any.version != VERSION {
            return wrong(format!(
                "this agent is prony {VERSION}, and the order is from prony {}; both have to be the \
                 same",
                any.version
            ));
        }
        let order: Order = match serde_json::from_slice(message) {
            Ok(order) => order,
            Err(error) => return wrong(format!("this is no order: {error}")),
        };
        self.tidy();
        if let Some(part) = self.part_of(&order.run) {
            part.hear();
        }
        match order.what {
            What::Check(load) => self.check(&order.run, &load),
            What::Put(piece) => self.put(&order.run, &piece),
            What::Prepare(load) => self.prepare(&order.run, &load),
            What::Start { at } => self.start(&order.run, at),
            What::Renew => self.renew(&order.run),
            What::Stop => self.stop_run(&order.run),
            What::Forget => self.forget(&order.run),
            What::Host(_) => wrong("calls to the machine are taken elsewhere"),
        }
    }

    /// Lets go of what is over.
    pub(super) fn tidy(&mut self) {
        let is_over = |part: &Running, run: &RunId| part.run() == run && part.is_over();
        let part = self.part.as_ref();
        self.files.take_if(|sent| match part {
            Some(part) if part.run() == &sent.run => is_over(part, &sent.run),
            _ => sent.at.elapsed() > FURTHEST,
        });
        let is_unwanted = self.unwanted.as_ref().is_some_and(|run| {
            let part = self.part_of(run);
            part.is_none_or(Running::is_over)
        });
        if is_unwanted && let Some(run) = self.unwanted.take() {
            // What can't be removed goes with those that are too old.
            let _ = self.let_go(&run);
        }
    }

    /// The agent ends: so does what it makes.
    pub(super) fn leave(&mut self) {
        match &mut self.part {
            Some(part) if part.is_over() => part.hand_over(),
            Some(part) => part.leave(&self.settings.name, LEAVE),
            None => {}
        }
        self.files = None;
    }

    fn part_of(&self, run: &RunId) -> Option<&Running> {
        self.part.as_ref().filter(|part| part.run() == run)
    }

    /// Whether another run is in the way.
    fn hindrance(&self, run: &RunId) -> Option<Reply> {
        let other = self.busy_with().filter(|other| *other != run)?;
        Some(busy(other))
    }

    fn put(&mut self, run: &RunId, piece: &Piece) -> Reply {
        if let Some(hindrance) = self.hindrance(run) {
            return hindrance;
        }
        if self.files.as_ref().is_none_or(|sent| sent.run != *run) {
            let folder = self.settings.files().join(run.as_str());
            match Files::new(folder) {
                Ok(files) => {
                    self.files = Some(Sent {
                        run: run.clone(),
                        files,
                        at: Instant::now(),
                    });
                }
                Err(text) => return Reply::Environment { text },
            }
        }
        let Some(sent) = &mut self.files else {
            return wrong("there is no place for files");
        };
        sent.at = Instant::now();
        match sent.files.take(piece) {
            Ok(()) => Reply::Done,
            Err(text) => Reply::Wrong { text },
        }
    }

    fn check(&mut self, run: &RunId, load: &Load) -> Reply {
        let under_way = self.part_of(run).filter(|part| !part.is_over());
        if under_way.is_some() {
            return busy(run);
        }
        if let Some(hindrance) = self.hindrance(run) {
            return hindrance;
        }
        match self.look(run, load, |spec| prepare::check(&spec)) {
            Ok(checked) => Reply::Checked(Checked::clone(&checked)),
            Err(no) => no.into(),
        }
    }

    fn prepare(&mut self, run: &RunId, load: &Load) -> Reply {
        if let Some(hindrance) = self.hindrance(run) {
            return hindrance;
        }
        if let Some(part) = self.part_of(run) {
            return match part.load() == load {
                _ if part.is_over() || part.is_ending() => wrong(format!("run {run} is over here")),
                true => Reply::Ready(part.ready().clone()),
                false => wrong(format!("run {run} was prepared here with another load")),
            };
        }
        let settings = self.settings.clone();
        if spool::is_there(&settings.runs(), run, &settings.name) {
            return wrong(format!(
                "this agent had a part in run {run} already, before it was started again"
            ));
        }
        if !LEASE_MS.contains(&load.lease_ms) {
            let (least, most) = LEASE_MS.into_inner();
            let lease = load.lease_ms;
            return wrong(format!(
                "a lease of {lease} ms; it is from {least} to {most} ms"
            ));
        }
        let looked = self.look(run, load, |spec| {
            let forecast = prepare::forecast(&spec);
            (spec, forecast)
        });
        let (spec, forecast): (LoadSpec, Vec<Finding>) = match looked {
            Ok(looked) => looked,
            Err(no) => return no.into(),
        };
        let outbox = &self.outbox;
        match Running::begin(run, load, spec, forecast, &settings, outbox, self.stop) {
            Ok(part) => {
                let ready = part.ready().clone();
                self.part = Some(part);
                Reply::Ready(ready)
            }
            Err(text) => Reply::Environment { text },
        }
    }

    /// Reads a load and does something with it, on a thread of its own: a name that nobody resolves must
    /// not keep the agent from ending, nor nonsense end it.
    fn look<T: Send + 'static>(
        &self,
        run: &RunId,
        load: &Load,
        then: impl FnOnce(LoadSpec) -> T + Send + 'static,
    ) -> Result<T, No> {
        let sent = self.files.as_ref().filter(|sent| sent.run == *run);
        let files: Whole = sent.map(|sent| sent.files.whole()).unwrap_or_default();
        let (settings, load) = (self.settings.clone(), load.clone());
        let (done, is_done) = channel();
        let spawned = thread::Builder::new()
            .name("look".to_owned())
            .spawn(move || {
                let looked = prepare::resolve(&load, &files, &settings).map(then);
                // Nobody waits for it any more, where that took too long.
                let _ = done.send(looked);
            });
        if let Err(error) = spawned {
            return Err(No::Environment(format!("starting a thread: {error}")));
        }
        let until = Instant::now() + LOOK;
        loop {
            match is_done.recv_timeout(NOTICE) {
                Ok(looked) => return looked,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(No::Environment("reading the load failed".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if self.stop.load(Ordering::Relaxed) => {
                    return Err(No::Environment("the agent is being ended".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    return Err(No::Environment(format!(
                        "looking the load's names up took longer than {LOOK:?}"
                    )));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn start(&mut self, run: &RunId, at: i64) -> Reply {
        let clock = &self.settings.clock;
        let Some(part) = self.part.as_mut().filter(|part| part.run() == run) else {
            return wrong(format!("run {run} was not prepared here"));
        };
        match part.starts() {
            Some(said) if said == at => return Reply::Done,
            Some(_) => return wrong(format!("run {run} was started at another moment already")),
            None => {}
        }
        if part.is_over() || part.is_ending() {
            return wrong(format!("run {run} is over here"));
        }
        let ahead = i128::from(at) - i128::from(clock.now());
        // Somewhat late is late, and is told; the others count from the same moment.
        if -ahead > LATEST.as_nanos() as i128 {
            let past = -ahead as f64 / 1e9;
            return Reply::Environment {
                text: format!("it heard of the start {past:.1} s too late"),
            };
        }
        if ahead > FURTHEST.as_nanos() as i128 {
            let ahead = ahead as f64 / 1e9;
            return wrong(format!(
                "the moment to start is {ahead:.0} s ahead, and {} s is the most",
                FURTHEST.as_secs()
            ));
        }
        part.start(at, clock);
        Reply::Done
    }

    fn renew(&self, run: &RunId) -> Reply {
        match self.part_of(run) {
            Some(part) if !part.is_over() => Reply::Done,
            Some(_) => wrong(format!("run {run} is over here")),
            None => wrong(format!("this agent has no part in run {run}")),
        }
    }

    fn stop_run(&mut self, run: &RunId) -> Reply {
        match self.part_of(run) {
            Some(part) => part.stop(),
            None => {
                self.files.take_if(|sent| sent.run == *run);
            }
        }
        Reply::Done
    }

    fn forget(&mut self, run: &RunId) -> Reply {
        match self.part_of(run).filter(|part| !part.is_over()) {
            // It was called off a moment ago.
            Some(part) if part.is_ending() => {
                self.unwanted = Some(run.clone());
                return Reply::Done;
            }
            Some(_) => return wrong(format!("run {run} is still under way here")),
            None => {}
        }
        self.files.take_if(|sent| sent.run == *run);
        match self.let_go(run) {
            Ok(()) => Reply::Done,
            Err(text) => Reply::Environment { text },
        }
    }

    /// Keeps nothing more of what was measured in a run.
    fn let_go(&mut self, run: &RunId) -> Result<(), String> {
        if let Some(part) = self.part.as_mut().filter(|part| part.run() == run) {
            part.hand_over();
        }
        self.outbox.forget(run);
        spool::forget(&self.settings.runs(), run, &self.settings.name)
    }
}

/// Removes what an earlier start of this agent left of files that were sent to it.
pub(super) fn sweep(settings: &Settings) {
    // What can't be removed is in nobody's way.
    let _ = fs::remove_dir_all(settings.files());
}
