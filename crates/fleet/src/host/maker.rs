//! Trials' loads made by agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prony_experiment::runner::{AskedLoad, LoadMaker};
use prony_record::Record;

use crate::coordinator::{Choice, Feed, Fleet, FleetError, Stop, Told, Wanted, Watcher};

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
    /// The error of an agent's clock that is borne.
    pub clock_bound: Duration,
    /// Hears warnings.
    pub warn: &'a (dyn Fn(&str) + Sync),
    /// For each load, where somebody looks.
    pub show: Option<Shower<'a>>,
}

impl LoadMaker for AgentLoads<'_> {
    fn make(&mut self, asked: &AskedLoad<'_>) -> Result<Record, String> {
        let wanted = Wanted {
            url: Some(asked.url.to_owned()),
            words: asked.words.to_vec(),
            choice: asked.agents.parse::<Choice>()?,
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
            let made = self.when_free(&wanted, &stop, asked);
            over.store(true, Ordering::Relaxed);
            made.map_err(|error| error.to_string())
        })
    }
}

impl AgentLoads<'_> {
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
                Err(FleetError::Agents(_)) if began.elapsed() < FREE && !stop.is_wanted() => {
                    thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
