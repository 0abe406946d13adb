//! What is known of a run while it goes on, for whoever looks at it: a live view, a page of numbers.
//!
//! The coordinator adds each message to it once, when it comes, and does nothing more for it. Whoever
//! looks merges on a thread of his own, and holds nobody up with it.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_load::findings_so_far;
use prony_record::{Counted, Delta, Finding, FindingId, FleetUse, LoadInfo, Nanos, Packed, Record};

use crate::messages::Manifest;
use crate::names::AgentName;

/// An agent sends something each second. One that has sent nothing for so long is not waited for.
pub(super) const QUIET: Duration = Duration::from_secs(3);

/// A run under way, as far as its agents have told.
#[derive(Debug, Default)]
pub struct Feed {
    /// Somebody takes what comes, slice by slice.
    is_followed: AtomicBool,
    told: Mutex<Told>,
    gathered: Mutex<Gathered>,
}

/// What the coordinator told.
#[derive(Debug, Default)]
struct Told {
    run: String,
    load: LoadInfo,
    begun: Option<Begun>,
    is_stopped: bool,
    agents: BTreeMap<AgentName, Seen>,
    /// What has come since somebody looked, if anything has.
    fresh: Option<Box<Delta>>,
    /// Memory for the next one.
    spare: Option<Box<Delta>>,
}

/// What whoever looks has picked up.
#[derive(Debug, Default)]
struct Gathered {
    so_far: Delta,
    untaken: Delta,
}

/// When a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// The moment; of a run that was gone on with, as it follows from what comes.
    pub at: Instant,
    /// How long it is to take, warm-up included, where that is known.
    pub planned: Option<Duration>,
}

/// One agent's part of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    state: AgentState,
    /// Its share of the load, 0 to 1.
    share: f64,
    /// The end of what has come of it, since the load's start.
    until: Nanos,
    /// Requests that ended, warm-up included.
    ended: u64,
    /// Requests that had begun and not ended then.
    in_flight: u64,
    heard: Option<Instant>,
}

/// What an agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// It gets ready.
    Preparing,
    /// It loads.
    Loading,
    /// It loads, and has not been heard of for so long.
    Quiet(Duration),
    /// Its part is over, and all of it has come.
    Ended,
    /// Its part will not become whole.
    Lost,
}

/// Everything that has come of a run so far.
#[derive(Debug, Clone)]
pub struct SoFar {
    /// What was recorded, but for the time series.
    pub delta: Delta,
    /// How far that reaches since the load's start: each agent's moment by its share of the load.
    pub reaches: Nanos,
    /// Requests under way at the agents that are not lost.
    pub in_flight: u64,
}

impl Feed {
    /// A run was divided, and its agents get ready.
    pub(super) fn prepare(&self, manifest: &Manifest) {
        let agents = manifest.parts.iter().map(|(name, part)| {
            let seen = Seen {
                state: AgentState::Preparing,
                share: f64::from(part.stretch.workers) / f64::from(part.stretch.of.max(1)),
                until: Nanos::ZERO,
                ended: 0,
                in_flight: 0,
                heard: None,
            };
            (name.clone(), seen)
        });
        *self.told() = Told {
            run: manifest.run.to_string(),
            load: manifest.load.clone(),
            agents: agents.collect(),
            ..Told::default()
        };
        *lock(&self.gathered) = Gathered::default();
    }

    /// All agents are ready, and begin at a moment; the load is as they read it.
    pub(super) fn begin(&self, load: &LoadInfo, at: Instant, planned: Option<Duration>) {
        let mut told = self.told();
        told.load = load.clone();
        told.begun = Some(Begun { at, planned });
        for seen in told.agents.values_mut() {
            seen.state = AgentState::Loading;
        }
    }

    /// Something new came of an agent, of which `all` is what has come.
    pub(super) fn add(&self, name: &AgentName, packed: &Packed, all: &Counted, now: Instant) {
        let mut told = self.told();
        let told = &mut *told;
        let Some(seen) = told.agents.get_mut(name) else {
            return;
        };
        let spare = &mut told.spare;
        let fresh = told
            .fresh
            .get_or_insert_with(|| spare.take().unwrap_or_default());
        // It was plausible when it was counted, and is so again.
        let _ = packed.add_to(fresh);
        if !self.is_followed() {
            // It alone grows with the load's length.
            fresh.drop_series();
        }
        seen.until = all.span.map_or(Nanos::ZERO, |(_, end)| end);
        seen.ended = all.ended();
        seen.in_flight = all.in_flight();
        seen.heard = Some(now);
        if let Some(begun) = &mut told.begun
            && let Some(at) = now.checked_sub(seen.until.into())
        {
            begun.at = begun.at.min(at);
        }
    }

    /// An agent does something else now.
    pub(super) fn is_now(&self, name: &AgentName, state: AgentState) {
        if let Some(seen) = self.told().agents.get_mut(name) {
            seen.state = state;
        }
    }

    /// The load was told to end.
    pub(super) fn stop(&self) {
        self.told().is_stopped = true;
    }

    /// What is to be loaded; as typed until the agents have read it.
    pub fn load(&self) -> LoadInfo {
        self.told().load.clone()
    }

    /// When it began, as soon as that is agreed on.
    pub fn begun(&self) -> Option<Begun> {
        self.told().begun
    }

    /// Whether it was told to end.
    pub fn is_stopped(&self) -> bool {
        self.told().is_stopped
    }

    /// Requests that ended, warm-up included, as far as that has come.
    pub fn ended(&self) -> u64 {
        self.told().agents.values().map(|seen| seen.ended).sum()
    }

    /// Who has a part in it, and what each does.
    pub fn agents(&self) -> Vec<(AgentName, AgentState)> {
        self.agents_at(Instant::now())
    }

    fn agents_at(&self, now: Instant) -> Vec<(AgentName, AgentState)> {
        let told = self.told();
        let agents = told.agents.iter();
        let state = |seen: &Seen| seen.state_at(now, told.begun);
        agents
            .map(|(name, seen)| (name.clone(), state(seen)))
            .collect()
    }

    /// The moment, since the load's start, up to which all agents that load have told; of those that
    /// are lost, or quiet, nothing is waited for. Zero until the first of the measured part has come.
    pub fn complete_until(&self) -> Nanos {
        self.complete_at(Instant::now())
    }

    fn complete_at(&self, now: Instant) -> Nanos {
        let told = self.told();
        let agents = told.agents.values();
        let loading = agents.clone().filter(|seen| {
            let state = seen.state_at(now, told.begun);
            matches!(state, AgentState::Preparing | AgentState::Loading)
        });
        let least = loading.map(|seen| seen.until).min();
        let most = || agents.map(|seen| seen.until).max();
        least.or_else(most).unwrap_or_default()
    }

    /// Asks for what [`Feed::take`] gives; to be called before the run begins.
    pub fn follow(&self) {
        self.is_followed.store(true, Ordering::Relaxed);
    }

    fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed)
    }

    /// What came since the last call, where somebody [follows](Feed::follow). All that a run's calls
    /// give, the last made after its end, adds up to what the agents sent. It is for one caller; any
    /// number may ask for [`Feed::so_far`].
    pub fn take(&self) -> Delta {
        mem::take(&mut self.gather().untaken)
    }

    /// All that has come.
    pub fn so_far(&self) -> SoFar {
        let delta = self.gather().so_far.clone();
        let told = self.told();
        let agents = || told.agents.values();
        let there = agents().filter(|seen| seen.state != AgentState::Lost);
        let reaches = agents().map(|seen| seen.until.as_secs_f64() * seen.share);
        SoFar {
            delta,
            reaches: Nanos::from_secs_f64(reaches.sum()),
            in_flight: there.map(|seen| seen.in_flight).sum(),
        }
    }

    /// What the run's record would be if nothing more came, but for the time series and for what agents
    /// tell at their end; all zero before the measured part. None before the run begins.
    pub fn record_so_far(&self) -> Option<Record> {
        self.begun()?;
        let all = self.so_far().delta;
        let span = all.span.unwrap_or((Nanos::ZERO, Nanos::ZERO));
        let mut record = Record::build(self.load(), &all, span, None);
        // That there are agents says why nothing is known of the generator.
        record.fleet = Some(FleetUse {
            run: self.told().run.clone(),
            ..FleetUse::default()
        });
        Some(record)
    }

    /// What already qualifies the figures, as far as counts show it.
    pub fn findings(&self) -> Vec<Finding> {
        let record = self
            .record_so_far()
            .filter(|record| record.totals.elapsed_s > 0.0);
        let mut findings = record.map_or_else(Vec::new, |record| findings_so_far(&record));
        // Its text describes the ports of the machine that computes it, not the agents'.
        findings.retain(|finding| finding.id != FindingId::PortExhaustion);
        findings
    }

    /// Picks up what has come.
    fn gather(&self) -> MutexGuard<'_, Gathered> {
        let mut gathered = lock(&self.gathered);
        let fresh = self.told().fresh.take();
        if let Some(mut fresh) = fresh {
            if self.is_followed() {
                gathered.untaken.merge(&fresh);
                fresh.drop_series();
            }
            gathered.so_far.merge(&fresh);
            fresh.clear();
            self.told().spare = Some(fresh);
        }
        gathered
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        lock(&self.told)
    }
}

impl Seen {
    fn state_at(&self, now: Instant, begun: Option<Begun>) -> AgentState {
        let since = self.heard.max(begun.map(|begun| begun.at));
        let quiet = since.map(|since| now.saturating_duration_since(since));
        match (self.state, quiet) {
            (AgentState::Loading, Some(quiet)) if quiet > QUIET => AgentState::Quiet(quiet),
            (state, _) => state,
        }
    }
}

/// A panic elsewhere leaves at worst a message in neither place.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
