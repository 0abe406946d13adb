//! Runs the loads of trials on agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use prony_experiment::abort::{self, AbortableLoad};
use prony_experiment::runner::{AgentLoadRequest, AgentLoadRunner};
use prony_record::{Delta, Finding, FindingId, LoadAbort, LoadInfo, Nanos, Record};

use super::reservations::Reservations;
use crate::coordinator::{
    AgentChoice, Feed, Fleet, FleetError, FleetEvent, LoadObserver, LoadRequest, StopRequest,
};
use crate::names::AgentName;

/// Interval at which the runner checks for a request to stop the load.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time for which to wait until agents are free after the previous load.
const BUSY_GRACE: Duration = Duration::from_secs(10);
/// Pause between attempts to start a load.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Function that receives the feed of each load before the load starts.
pub type FeedObserver<'a> = &'a (dyn Fn(&Arc<Feed>) + Sync);

/// Runs the loads of trials on agents.
pub struct AgentLoads<'a> {
    /// Coordinator that commands the agents.
    pub fleet: Fleet,
    /// Reservations of the experiment. Agents that replace lost ones are added.
    pub reservations: Option<Arc<Reservations>>,
    /// Maximum accepted error of an agent's clock.
    pub clock_bound: Duration,
    /// Function that receives warnings.
    pub warn: &'a (dyn Fn(&str) + Sync),
    /// Function that receives the feed of each load, if there is a viewer.
    pub show: Option<FeedObserver<'a>>,
    /// Agents that generated the previous load, for each selector of the plan. They also generate
    /// the next load, so that all trials use the same agents.
    pub previous: BTreeMap<String, Vec<AgentName>>,
}

impl AgentLoadRunner for AgentLoads<'_> {
    fn make(&mut self, asked: &AgentLoadRequest<'_>) -> Result<Record, String> {
        let choice = asked.agents.parse::<AgentChoice>();
        let choice = choice.map_err(|error| error.to_string())?;
        let previous = self.previous.get(asked.agents).cloned();
        let (stop, over) = (StopRequest::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            // This thread passes on a request to stop, which also stops the agents' load.
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if asked.control.is_stopped() {
                        stop.soon();
                    }
                    thread::sleep(POLL_INTERVAL);
                }
            });
            let made = match previous {
                None => self.load_by_free_agents(&choice, asked, &stop),
                Some(names) => match self.load_by(names, asked, &stop) {
                    // A previous agent is lost, so the agents are selected again.
                    Err(error) if is_unavailable(&error) => {
                        self.load_by_free_agents(&choice, asked, &stop)
                    }
                    made => made,
                },
            };
            over.store(true, Ordering::Relaxed);
            self.remember(asked.agents, made.as_ref().ok());
            made.map_err(|error| error.to_string())
        })
    }
}

impl AbortableLoad for Feed {
    fn info(&self) -> LoadInfo {
        self.load()
    }

    fn keep_recent(&self, length: Nanos) {
        Feed::keep_recent(self, length);
    }

    fn complete_until(&self) -> Nanos {
        Feed::complete_until(self)
    }

    fn recent(&self, until: Nanos) -> Option<Delta> {
        Feed::recent(self, until)
    }

    fn is_stopped(&self) -> bool {
        Feed::is_stopped(self)
    }
}

/// Returns true if an agent is missing or busy.
fn is_unavailable(error: &FleetError) -> bool {
    matches!(error, FleetError::Agents(_) | FleetError::Busy { .. })
}

/// Returns true if an agent is busy and may become free.
fn is_busy(error: &FleetError) -> bool {
    match error {
        FleetError::Agents(error) => error.is_busy(),
        FleetError::Busy { .. } => true,
        _ => false,
    }
}

impl AgentLoads<'_> {
    /// Stores the agents of this load for the next one, unless one of them was lost.
    fn remember(&mut self, agents: &str, record: Option<&Record>) {
        let Some((record, fleet)) = record.and_then(|it| Some((it, it.fleet.as_ref()?))) else {
            return;
        };
        let is_loss = |finding: &Finding| finding.id == FindingId::AgentLost;
        if record.findings.iter().any(is_loss) {
            self.previous.remove(agents);
            return;
        }
        let names = fleet.agents.iter().map(|it| it.name.parse());
        if let Ok(names) = names.collect() {
            self.previous.insert(agents.to_owned(), names);
        }
    }

    /// Generates the load with these agents.
    fn load_by(
        &self,
        names: Vec<AgentName>,
        asked: &AgentLoadRequest<'_>,
        stop: &StopRequest,
    ) -> Result<Record, FleetError> {
        let is_seen = self.show.is_some() || asked.abort_rules.is_some();
        let feed = is_seen.then(Arc::<Feed>::default);
        if let (Some(show), Some(feed)) = (self.show, &feed) {
            show(feed);
        }
        let load = || {
            self.retry_while_busy(stop, feed.as_ref(), |observer| {
                let request = LoadRequest {
                    url: Some(asked.url.to_owned()),
                    settings: asked.settings.clone(),
                    choice: AgentChoice::Names(names.clone()),
                    clock_bound: self.clock_bound,
                };
                let finished = self
                    .fleet
                    .load_from(&request, observer, asked.measured_from)?;
                Ok(finished.record)
            })
        };
        let (Some(rules), Some(feed)) = (asked.abort_rules, &feed) else {
            return load();
        };
        let abort = |abort: &LoadAbort| stop.abort(abort.clone());
        abort::watch(rules, &**feed, &abort, load).0
    }

    /// Picks free agents, reserves them for the experiment, and generates the load with them.
    fn load_by_free_agents(
        &self,
        choice: &AgentChoice,
        asked: &AgentLoadRequest<'_>,
        stop: &StopRequest,
    ) -> Result<Record, FleetError> {
        let names =
            self.retry_while_busy(stop, None, |observer| self.fleet.pick(choice, observer))?;
        if let Some(reservations) = &self.reservations {
            for agent in &names {
                reservations
                    .reserve(agent)
                    .map_err(|error| FleetError::Agent {
                        agent: agent.clone(),
                        text: format!("can't be reserved: {error}"),
                    })?;
            }
        }
        self.load_by(names, asked, stop)
    }

    /// Retries an attempt while agents are busy. After a trial, it takes agents a moment to
    /// register as free.
    fn retry_while_busy<T>(
        &self,
        stop: &StopRequest,
        feed: Option<&Arc<Feed>>,
        attempt: impl Fn(LoadObserver<'_>) -> Result<T, FleetError>,
    ) -> Result<T, FleetError> {
        let on_event = |event: FleetEvent<'_>| {
            if let FleetEvent::Warning(text) = event {
                (self.warn)(text);
            }
        };
        let observer = LoadObserver {
            on_event: &on_event,
            stop,
            feed,
        };
        let began = Instant::now();
        loop {
            match attempt(observer) {
                Err(error)
                    if is_busy(&error) && began.elapsed() < BUSY_GRACE && !stop.is_wanted() =>
                {
                    thread::sleep(RETRY_INTERVAL);
                }
                result => return result,
            }
        }
    }
}
