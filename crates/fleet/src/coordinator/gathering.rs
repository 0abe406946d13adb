//! What agents send of a run, until all of it is there or it is clear that no more comes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use prony_record::{Outcome, SLICE};

use super::feed::{AgentState, Feed, QUIET};
use super::lease::{Lease, Patience, Sign};
use super::server_contact::{Outage, ServerContact};
use super::{Going, Stop, Told, orders, runs};
use crate::claims;
use crate::ledger::Ledger;
use crate::link::{Link, Message, Replay};
use crate::messages::{Manifest, PartEnd, ResultMessage, What};
use crate::names::AgentName;

/// How long messages are taken before it is looked at what else there is.
const LOOK_UP: Duration = Duration::from_millis(100);
/// A wait of [`LOOK_UP`] that takes so long says that this process was stopped, or its machine.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// How much longer than planned the measured part of a load may seem to be, in seconds.
const OVERTIME_S: f64 = 60.0;
/// How far a calendar may be off, where nothing else says how long a load can have been.
const A_CALENDARS_ERROR: Duration = Duration::from_secs(24 * 3600);
/// No run takes longer: a century, in nanoseconds, fits into 64 bits.
const RUN_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How often it is told how far the load is.
const TELL: Duration = Duration::from_secs(5);

/// Why an agent's part is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It was not heard of any more.
    Silent,
    /// It was started anew.
    Restarted,
    /// It goes on and on.
    Endless,
    /// It was told to stop and didn't say that it did.
    Unstopped,
    /// The server was away for too long.
    ServerAway,
    /// It ended, and messages of it are missing.
    Missing,
    /// Nothing more of it is stored.
    NothingMore,
    /// Nobody wanted to wait for its end.
    LeftBehind,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::Silent => f.write_str("was not heard of any more"),
            Lost::Restarted => f.write_str("was started anew"),
            Lost::Endless => f.write_str("did not end when the load was to be over"),
            Lost::Unstopped => f.write_str("was told to stop and did not say that it did"),
            Lost::ServerAway => {
                f.write_str("could not be heard: the NATS server did not come back")
            }
            Lost::Missing => f.write_str("ended, and some of what it sent did not come"),
            Lost::LeftBehind => f.write_str("was not waited for"),
            Lost::NothingMore => f.write_str("sent no end of its part"),
        }
    }
}

/// One agent's part.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// What it said at its end.
    pub(super) end: Option<PartEnd>,
    /// Why it is not whole.
    pub(super) lost: Option<Lost>,
    /// Messages that could not be counted.
    pub(super) refused: u64,
    heard: Option<Instant>,
    ended: Option<Instant>,
}

/// All parts of a run.
#[derive(Debug)]
pub(super) struct Gathering {
    /// What was sent.
    pub(super) ledger: Ledger,
    /// Who sent it.
    pub(super) parts: BTreeMap<AgentName, Part>,
    /// A coordinator told the agents to stop.
    pub(super) is_stopped: bool,
    /// What others see of it meanwhile.
    feed: Option<Arc<Feed>>,
    /// The longest time for which the server was away, if it was.
    pub(super) outage: Option<Outage>,
    /// Half seconds that the measured part can have.
    slices: usize,
    /// The latest moment since the load's start that anything of it can have had, in nanoseconds.
    latest_ns: u64,
}

/// A run that goes on.
pub(super) struct Following<'a> {
    pub(super) link: &'a Link,
    pub(super) manifest: &'a Manifest,
    pub(super) lease: &'a Lease,
    pub(super) patience: Patience,
    pub(super) told: &'a dyn Fn(Told<'_>),
    pub(super) stop: &'a Stop,
    /// When it will be over, where that is known.
    pub(super) until: Option<Instant>,
    /// When it began, or will.
    pub(super) began: Instant,
    /// Whether another coordinator leads the run; a stop then only ends the following of it.
    pub(super) is_only_watched: &'a dyn Fn() -> bool,
}

/// How the following of a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Followed {
    /// Every part is whole or lost.
    ToTheEnd,
    /// The user stopped watching a run that another coordinator leads.
    Detached,
}

impl Gathering {
    /// Nothing yet of a run.
    pub(super) fn new(manifest: &Manifest) -> Gathering {
        let names = manifest.parts.keys();
        let longest = longest_measured(manifest);
        let warmup = Duration::try_from_secs_f64(manifest.load.warmup_s).unwrap_or_default();
        Gathering {
            ledger: Ledger::new(names.clone().map(AgentName::to_string)),
            parts: names.map(|name| (name.clone(), Part::default())).collect(),
            slices: (longest.as_secs_f64() / SLICE.as_secs_f64()) as usize,
            latest_ns: (longest + warmup).as_nanos() as u64,
            is_stopped: manifest.stopped,
            feed: None,
            outage: None,
        }
    }

    /// Lets others see what comes.
    pub(super) fn seen_by(mut self, feed: Option<&Arc<Feed>>) -> Gathering {
        self.feed = feed.cloned();
        self
    }

    /// Takes a message of the run; what is none is counted, where it can be told whose it is.
    pub(super) fn take(&mut self, manifest: &Manifest, message: &Message) {
        // Only the subject says for certain who sent it: the server sees to that.
        let name = message.subject.split('.').nth(2).unwrap_or_default();
        let Some((name, part)) = name
            .parse::<AgentName>()
            .ok()
            .and_then(|name| Some((name.clone(), self.parts.get_mut(&name)?)))
        else {
            return;
        };
        let read = serde_json::from_slice::<ResultMessage>(&message.payload).ok();
        let read = read.filter(|it| {
            let is_of_it = it.agent == name && it.run == manifest.run;
            // Each half second takes memory: only so many are believed as there can have been.
            let (slices, latest_ns) = (it.packed.slices(), it.packed.latest_ns());
            is_of_it && slices <= self.slices && latest_ns <= self.latest_ns
        });
        let Some(read) = read else {
            part.refused += 1;
            return;
        };
        let now = Instant::now();
        part.heard = Some(now);
        let taken = self.ledger.take(name.as_str(), read.sequence, &read.packed);
        if let (Ok(true), Some(feed)) = (&taken, &self.feed)
            && let Some(all) = self.ledger.agent(name.as_str())
        {
            feed.add(&name, &read.packed, all, now);
        }
        let taken = taken.is_ok();
        let ended = match read.end {
            Some(end) if taken => {
                let counted = self.ledger.end(name.as_str(), read.sequence + 1).is_ok();
                let (end, is_believed) = claims::part_end(*end, self.latest_ns);
                if counted && part.end.is_none() {
                    (part.end, part.ended) = (Some(end), Some(now));
                }
                counted && is_believed
            }
            _ => true,
        };
        part.refused += u64::from(!(taken && ended));
        if self.is_whole(&name)
            && let Some(part) = self.parts.get_mut(&name)
        {
            part.lost = None;
            self.show(&name, AgentState::Ended);
        }
    }

    fn show(&self, name: &AgentName, state: AgentState) {
        if let Some(feed) = &self.feed {
            feed.is_now(name, state);
        }
    }

    /// Whether all of an agent's part is there.
    pub(super) fn is_whole(&self, name: &AgentName) -> bool {
        let ended = self.parts.get(name).is_some_and(|part| part.end.is_some());
        ended && self.ledger.is_whole(name.as_str())
    }

    /// Whether an agent's counts agree with each other, too, so that it need not keep them.
    pub(super) fn agrees(&self, name: &AgentName) -> bool {
        self.is_whole(name)
            && self.ledger.agent(name.as_str()).is_some_and(|all| {
                let outcomes = &all.outcomes;
                let ended = outcomes.get(Outcome::Ok)
                    + outcomes.failed()
                    + outcomes.get(Outcome::Unfinished);
                all.started == all.unmeasured + ended
            })
    }

    /// Those whose part is neither whole nor lost.
    pub(super) fn open(&self) -> Vec<AgentName> {
        let open = |(name, part): &(&AgentName, &Part)| part.lost.is_none() && !self.is_whole(name);
        let parts = self.parts.iter().filter(open);
        parts.map(|(name, _)| name.clone()).collect()
    }

    /// Those whose results are waited for and have not come for a while, of a load that began then.
    fn quiet(&self, began: Instant) -> Vec<AgentName> {
        let mut open = self.open();
        open.retain(|name| {
            let heard = self.parts.get(name).and_then(|part| part.heard);
            heard.unwrap_or(began).elapsed() > QUIET
        });
        open
    }

    /// Hears what comes until every part is whole or lost, or the user detaches.
    pub(super) fn follow(&mut self, going: &Following<'_>, mut replay: Replay) -> Followed {
        let mut server = ServerContact::new(going.link, going.patience);
        let mut teller = Teller::new(going.began);
        let mut stopped = None;
        while !self.open().is_empty() {
            let before = Instant::now();
            let has_come = self.hear(going.manifest, &mut replay);
            if before.elapsed() > STOOD_STILL {
                server.was_unheard();
            }
            server.look(going, has_come);
            if server.is_deaf() {
                // What was heard before is passed over.
                if let Ok(again) = going.link.replay(&going.manifest.run.all_results()) {
                    replay = again;
                    server.hears_again();
                }
            }
            if stopped.is_none() && going.stop.is_wanted() {
                if (going.is_only_watched)() {
                    return Followed::Detached;
                }
                stopped = Some(Instant::now());
                (going.told)(Told::Step(
                    "agents are told to stop; asked once more, this ends with what has come by then",
                ));
                self.stop(going);
            }
            if going.stop.is_wanted_at_once() {
                self.leave_behind();
                return Followed::ToTheEnd;
            }
            self.judge(going, &server, stopped);
            teller.tell(self, going);
            self.outage = server.longest_outage();
        }
        Followed::ToTheEnd
    }

    /// Takes what comes within a moment; tells whether anything did.
    pub(super) fn hear(&mut self, manifest: &Manifest, replay: &mut Replay) -> bool {
        let until = Instant::now() + LOOK_UP;
        let mut has_come = false;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match replay.next(left.max(Duration::from_millis(1))) {
                Some(message) => {
                    self.take(manifest, &message);
                    has_come = true;
                }
                None => return has_come,
            }
            if left.is_zero() {
                return has_come;
            }
        }
    }

    fn stop(&mut self, going: &Following<'_>) {
        if let Some(feed) = &self.feed {
            feed.stop();
        }
        self.is_stopped = true;
        runs::store_stopped(going.link, going.manifest);
        let open = self.open();
        let open: Vec<&AgentName> = open.iter().collect();
        let run = &going.manifest.run;
        // Who doesn't hear it ends with its lease.
        let orders = open.into_iter().map(|name| (name, What::Stop)).collect();
        let _ = orders::give(going.link, run, orders, Duration::from_secs(2), &|_| {
            going.stop.is_wanted_at_once()
        });
    }

    /// Waits for nobody any more.
    fn leave_behind(&mut self) {
        for name in self.open() {
            if let Some(part) = self.parts.get_mut(&name) {
                part.lost = Some(Lost::LeftBehind);
            }
        }
    }

    /// Decides whose part will not become whole.
    fn judge(&mut self, going: &Following<'_>, server: &ServerContact, stopped: Option<Instant>) {
        let (now, patience) = (Instant::now(), going.patience);
        let is_server_lost = server.away_for().is_some_and(|away| away > patience.away());
        if is_server_lost {
            (going.told)(Told::Warning(&server.given_up()));
        }
        for name in self.open() {
            let seen = going.lease.seen(&name);
            let Some(part) = self.parts.get_mut(&name) else {
                continue;
            };
            let since = |moment: Instant| now.saturating_duration_since(moment.max(server.back()));
            let there = seen.map_or(going.began, |seen| seen.there);
            let heard = part.heard.map_or(there, |heard| heard.max(there));
            let is_stranger = seen.is_some_and(|seen| {
                seen.sign == Sign::Stranger && since(seen.since) > patience.restart()
            });
            let quiet = |than: Duration| part.heard.is_none_or(|heard| since(heard) > than);
            part.lost = if is_server_lost {
                Some(Lost::ServerAway)
            } else if stopped.is_some_and(|stopped| since(stopped) > patience.rest()) {
                Some(Lost::Unstopped)
            } else if server.away_for().is_some() {
                // Nobody can be heard: that says nothing about any agent.
                None
            } else if let Some(ended) = part.ended {
                (since(ended) > patience.rest() && quiet(patience.restart()))
                    .then_some(Lost::Missing)
            } else if is_stranger && quiet(patience.restart()) {
                Some(Lost::Restarted)
            } else if since(heard) > patience.silence() {
                Some(Lost::Silent)
            } else if going
                .until
                .is_some_and(|until| since(until) > patience.overtime())
            {
                Some(Lost::Endless)
            } else {
                None
            };
            if let Some(lost) = part.lost {
                going.lease.release(&name);
                (going.told)(Told::Warning(&format!("agent {name} {lost}")));
                self.show(&name, AgentState::Lost);
            }
        }
        for (name, part) in &self.parts {
            if part.end.is_some() {
                going.lease.release(name);
            }
        }
    }
}

/// The longest time that the measured part of a run can have taken by now.
fn longest_measured(manifest: &Manifest) -> Duration {
    let made = humantime::parse_rfc3339(&manifest.made_at).unwrap_or(SystemTime::UNIX_EPOCH);
    // Calendars may be set.
    let since = made.elapsed().unwrap_or_default() + A_CALENDARS_ERROR;
    let planned = manifest.load.duration_s.map(|planned| planned + OVERTIME_S);
    let planned = planned.and_then(|planned| Duration::try_from_secs_f64(planned).ok());
    planned.unwrap_or(since).min(RUN_MAX)
}

/// Says now and then how far the load is.
struct Teller {
    last: Instant,
    ended: u64,
}

impl Teller {
    fn new(began: Instant) -> Teller {
        Teller {
            last: began.max(Instant::now()),
            ended: 0,
        }
    }

    fn tell(&mut self, gathering: &Gathering, going: &Following<'_>) {
        let span = self.last.elapsed();
        if span < TELL {
            return;
        }
        let agents = gathering.parts.keys();
        let all = agents.filter_map(|name| gathering.ledger.agent(name.as_str()));
        let (mut ended, mut failed) = (0, 0);
        for delta in all {
            ended += delta.ended();
            failed += delta.outcomes.failed();
        }
        (going.told)(Told::Going(Going {
            elapsed: going.began.elapsed(),
            ended_per_s: ended.saturating_sub(self.ended) as f64 / span.as_secs_f64(),
            ended,
            failed,
            agents: gathering.open().len(),
            quiet: gathering.quiet(going.began),
        }));
        (self.last, self.ended) = (Instant::now(), ended);
    }
}
