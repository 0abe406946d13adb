//! Trials' loads made by agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prony_experiment::runner::{AskedLoad, LoadMaker};
use prony_record::{Finding, FindingId, Record};

use crate::coordinator::{Choice, Feed, Fleet, FleetError, Stop, Told, Wanted, Watcher};
use crate::names::AgentName;

/// How soon it is noticed that a load is to end.
const LOOK_UP: Duration = Duration::from_millis(50);
/// How long agents may take to be free again after a load before this one.
const FREE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// Is given what there is to see of a load, before it begins.
pub type Shower<'a> = &'a (dyn Fn(&Arc<Feed>) + Sync);

/// The agents as makers of loads.
pub struct AgentLoads<'a> {
    /// Who commands them.
    pub fleet: Fleet,
    /// Largest error of an agent's clock to accept.
    pub clock_bound: Duration,
    /// Hears warnings.
    pub warn: &'a (dyn Fn(&str) + Sync),
    /// For each load, where somebody looks.
    pub show: Option<Shower<'a>>,
    /// Who made the load before, by what the plan says of its agents: the same make the next one, so
    /// that trials differ in nothing else.
    pub before: BTreeMap<String, Vec<AgentName>>,
}

impl LoadMaker for AgentLoads<'_> {
    fn make(&mut self, asked: &AskedLoad<'_>) -> Result<Record, String> {
        let choice = asked.agents.parse::<Choice>()?;
        let same = self.before.get(asked.agents).cloned().map(Choice::Names);
        let mut wanted = Wanted {
            url: Some(asked.url.to_owned()),
            words: asked.words.to_vec(),
            choice: same.clone().unwrap_or_else(|| choice.clone()),
            clock_bound: self.clock_bound,
        };
        let (stop, over) = (Stop::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            // What stops a load of this process stops one of agents.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if asked.control.is_stopped() {
                        stop.soon();
                    }
                    thread::sleep(LOOK_UP);
                }
            });
            let mut made = self.when_free(&wanted, &stop, asked);
            let is_unavailable = |error: &FleetError| {
                matches!(error, FleetError::Agents(_) | FleetError::Busy { .. })
            };
            if made.as_ref().is_err_and(is_unavailable) && same.is_some() {
                // One of them is gone: others may be there.
                wanted.choice = choice;
                made = self.when_free(&wanted, &stop, asked);
            }
            over.store(true, Ordering::Relaxed);
            self.remember(asked.agents, made.as_ref().ok());
            made.map_err(|error| error.to_string())
        })
    }
}

impl AgentLoads<'_> {
    /// Whoever made this load makes the next one, unless one of them was lost.
    fn remember(&mut self, agents: &str, record: Option<&Record>) {
        let Some((record, fleet)) = record.and_then(|it| Some((it, it.fleet.as_ref()?))) else {
            return;
        };
        let is_lost = |finding: &Finding| finding.id == FindingId::AgentLost;
        if record.findings.iter().any(is_lost) {
            self.before.remove(agents);
            return;
        }
        let names = fleet.agents.iter().map(|it| it.name.parse());
        if let Ok(names) = names.collect() {
            self.before.insert(agents.to_owned(), names);
        }
    }

    /// Makes the load as soon as the agents are free: those of the trial before have just become so,
    /// and may not have said it yet.
    fn when_free(
        &self,
        wanted: &Wanted,
        stop: &Stop,
        asked: &AskedLoad<'_>,
    ) -> Result<Record, FleetError> {
        let told = |told: Told<'_>| {
            if let Told::Warning(text) = told {
                (self.warn)(text);
            }
        };
        let feed = self.show.map(|show| {
            let feed = Arc::default();
            show(&feed);
            feed
        });
        let watcher = Watcher {
            told: &told,
            stop,
            feed: feed.as_ref(),
        };
        let began = Instant::now();
        loop {
            match self.fleet.load_from(wanted, watcher, asked.measured_from) {
                Ok(finished) => return Ok(finished.record),
                Err(FleetError::Agents(_) | FleetError::Busy { .. })
                    if began.elapsed() < FREE && !stop.is_wanted() =>
                {
                    thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
