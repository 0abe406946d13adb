//! Where orders are taken: one run at a time, each order once, however often it comes.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::files::Files;
use super::host::Answering;
use super::lookups::{Found, Lookup, Lookups};
use super::outbox::Outbox;
use super::prepare::Whole;
use super::running::Running;
use super::status::{Snapshot, StatusLoad};
use super::{Settings, spool};
use crate::messages::{LEASE_MS, Load, Order, Piece, Reply, Reservation, VERSION, What};
use crate::names::RunId;

/// The furthest ahead that a load may begin, and how long an agent may be held by nothing but files.
const FURTHEST: Duration = Duration::from_secs(60);
/// The latest that it may begin after its moment.
const LATEST: Duration = Duration::from_secs(3);
/// How often lookups that run are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a load may take to end with the agent.
const LEAVE: Duration = Duration::from_secs(5);

/// What an agent has to do with runs.
pub(super) struct Desk<'a> {
    settings: Arc<Settings>,
    outbox: Arc<Outbox>,
    stop: &'a AtomicBool,
    files: Option<Sent>,
    lookups: Lookups,
    /// Checks and preparations that run.
    running: Vec<Lookup>,
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

/// Nothing is wrong with the order: it can be carried out later.
fn busy(run: &RunId) -> Reply {
    Reply::Busy {
        text: format!("it is busy with run {run}"),
    }
}

fn wrong(text: impl Into<String>) -> Reply {
    Reply::Wrong { text: text.into() }
}

/// Reads an order of this version.
fn read(message: &[u8]) -> Result<Order, Reply> {
    let no_order = |error| wrong(format!("this is no order: {error}"));
    let any: AnyOrder = serde_json::from_slice(message).map_err(no_order)?;
    if any.version != VERSION {
        return Err(wrong(format!(
            "this agent is prony {VERSION}, and the order is from prony {}; both have to be the same",
            any.version
        )));
    }
    serde_json::from_slice(message).map_err(no_order)
}

impl<'a> Desk<'a> {
    /// A desk without any run.
    pub(super) fn new(
        settings: Arc<Settings>,
        outbox: Arc<Outbox>,
        stop: &'a AtomicBool,
    ) -> Desk<'a> {
        Desk {
            lookups: Lookups::new(settings.clone(), outbox.clone()),
            running: Vec::new(),
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
        let preparing = self.running.iter().find_map(Lookup::preparing);
        let files = self.files.as_ref().map(|sent| &sent.run);
        part.map(Running::run).or(preparing).or(files)
    }

    /// Enters the part that is made, or was made last.
    pub(super) fn show(&self, now: &mut Snapshot) {
        let Some(part) = &self.part else { return };
        let is_over = part.is_over();
        match &mut now.load {
            Some(load) if Arc::ptr_eq(&load.control, part.control()) => load.is_over = is_over,
            load => {
                now.loads += 1;
                *load = Some(StatusLoad {
                    info: (*part.ready().load).clone(),
                    control: part.control().clone(),
                    is_over,
                });
            }
        }
    }

    /// How soon lookups that run have to be polled; none where none runs.
    pub(super) fn poll_interval(&self) -> Option<Duration> {
        (!self.running.is_empty()).then_some(POLL_INTERVAL)
    }

    /// Carries out an order, unless the agent is reserved for another experiment. What may take long is
    /// done on another thread, and responded to later.
    pub(super) fn take(
        &mut self,
        message: &[u8],
        reserved: Option<&Reservation>,
        answer: Answering,
    ) {
        let order = match read(message) {
            Ok(order) => order,
            Err(reply) => return answer(reply),
        };
        self.tidy();
        if let Some(part) = self.part_of(&order.run) {
            part.hear();
        }
        let is_new = matches!(order.what, What::Check(_) | What::Put(_) | What::Prepare(_));
        let reserved = reserved.filter(|it| is_new && order.experiment.as_ref() != Some(&it.run));
        if let Some(reservation) = reserved {
            return answer(Reply::Busy {
                text: format!("it is {reservation}"),
            });
        }
        let run = &order.run;
        match order.what {
            What::Check(load) => self.check(run, load, answer),
            What::Prepare(load) => self.prepare(run, load, answer),
            What::Put(piece) => answer(self.put(run, &piece)),
            What::Start { at } => answer(self.start(run, at)),
            What::Renew => answer(self.renew(run)),
            What::Stop => answer(self.stop_run(run)),
            What::Forget => answer(self.forget(run)),
            What::Host(_) => answer(wrong("calls to the machine are taken elsewhere")),
        }
    }

    /// Lets go of what is over.
    pub(super) fn tidy(&mut self) {
        self.poll_lookups();
        let preparing = self.running.iter().find_map(Lookup::preparing);
        let is_over = |part: &Running, run: &RunId| part.run() == run && part.is_over();
        let part = self.part.as_ref();
        self.files.take_if(|sent| match part {
            Some(part) if part.run() == &sent.run => is_over(part, &sent.run),
            _ if preparing == Some(&sent.run) => false,
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

    /// Ends the load under way because the agent ends; tells whether there was one.
    pub(super) fn leave(&mut self) -> bool {
        self.poll_lookups();
        self.files = None;
        match &mut self.part {
            Some(part) if part.is_over() => {
                part.hand_over();
                false
            }
            Some(part) => {
                part.leave(LEAVE);
                true
            }
            None => false,
        }
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

    /// The files that came whole for a run.
    fn sent(&self, run: &RunId) -> Whole {
        let sent = self.files.as_ref().filter(|sent| sent.run == *run);
        sent.map(|sent| sent.files.whole()).unwrap_or_default()
    }

    fn check(&mut self, run: &RunId, load: Load, answer: Answering) {
        if let Some(other) = self.busy_with().filter(|_| !self.has_only_files(run)) {
            return answer(busy(other));
        }
        let lookup = self.lookups.check(run, load, self.sent(run));
        self.follow(lookup, answer);
    }

    /// Whether nothing but files of this run keeps the agent.
    fn has_only_files(&self, run: &RunId) -> bool {
        let is_over = self.part.as_ref().is_none_or(Running::is_over);
        let is_preparing = self.running.iter().any(|it| it.preparing().is_some());
        is_over && !is_preparing && self.busy_with() == Some(run)
    }

    fn prepare(&mut self, run: &RunId, load: Load, answer: Answering) {
        if let Some(hindrance) = self.hindrance(run) {
            return answer(hindrance);
        }
        let other_load = || wrong(format!("run {run} was prepared here with another load"));
        if let Some(part) = self.part_of(run) {
            return answer(match part.load() == &load {
                _ if part.is_over() || part.is_ending() => wrong(format!("run {run} is over here")),
                true => Reply::Ready(part.ready().clone()),
                false => other_load(),
            });
        }
        let mut running = self.running.iter_mut();
        if let Some(lookup) = running.find(|it| it.preparing() == Some(run)) {
            return match lookup.load() == &load {
                true => lookup.wait(answer),
                false => answer(other_load()),
            };
        }
        if let Err(reply) = self.may_prepare(run, &load) {
            return answer(reply);
        }
        let lookup = self.lookups.prepare(run, load, self.sent(run));
        self.follow(lookup, answer);
    }

    /// Whether nothing in the order itself is wrong.
    fn may_prepare(&self, run: &RunId, load: &Load) -> Result<(), Reply> {
        if spool::is_there(&self.settings.runs(), run, &self.settings.name) {
            return Err(wrong(format!(
                "this agent had a part in run {run} already, before it was started again"
            )));
        }
        if !LEASE_MS.contains(&load.lease_ms) {
            let (least, most) = LEASE_MS.into_inner();
            let lease = load.lease_ms;
            return Err(wrong(format!(
                "a lease of {lease} ms; it is from {least} to {most} ms"
            )));
        }
        Ok(())
    }

    /// Has a lookup that was started answer when it is over.
    fn follow(&mut self, lookup: Result<Lookup, Reply>, answer: Answering) {
        match lookup {
            Ok(mut lookup) => {
                lookup.wait(answer);
                self.running.push(lookup);
            }
            Err(reply) => answer(reply),
        }
    }

    /// Takes the results of lookups that are over, or gives up those of an agent that ends.
    fn poll_lookups(&mut self) {
        let is_leaving = self.stop.load(Ordering::Relaxed);
        for mut lookup in std::mem::take(&mut self.running) {
            let found = match is_leaving {
                true => Some(lookup.abandon("the agent is being ended".to_owned())),
                false => lookup.poll(),
            };
            match found {
                Some(found) => self.settle(lookup, found),
                None => self.running.push(lookup),
            }
        }
    }

    fn settle(&mut self, lookup: Lookup, found: Found) {
        let reply = match found {
            Found::Reply(reply) => reply,
            Found::Part(part) => {
                let reply = Reply::Ready(part.ready().clone());
                self.part = Some(*part);
                reply
            }
        };
        lookup.answer(&reply);
    }

    /// Gives up getting ready for a run.
    fn abandon(&mut self, run: &RunId) {
        let place = self
            .running
            .iter()
            .position(|it| it.preparing() == Some(run));
        if let Some(place) = place {
            let lookup = self.running.swap_remove(place);
            let found = lookup.abandon("it was told to stop before it was ready".to_owned());
            self.settle(lookup, found);
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
