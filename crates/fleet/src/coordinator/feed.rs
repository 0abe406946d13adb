//! Provides the results of a run in progress to viewers, such as the live view and the metrics
//! server.
//!
//! The coordinator adds each message once. Viewers merge the results on their own threads, so that
//! they never delay the coordinator.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_load::findings_so_far;
use prony_record::{
    Delta, DeltaTotals, EncodedDelta, Finding, FindingId, FleetUse, LoadInfo, Nanos, RecentDeltas,
    Record,
};

use crate::names::AgentName;
use crate::wire::RunManifest;

/// Time without a message after which an agent is shown as quiet. Agents send one message per
/// second.
pub(super) const QUIET_AFTER: Duration = Duration::from_secs(3);

/// Results of a run in progress that have arrived so far.
#[derive(Debug, Default)]
pub struct Feed {
    /// True if a viewer takes new results with [`Feed::take`].
    is_followed: AtomicBool,
    /// True if [`Feed::so_far`] includes the time series.
    keeps_series: AtomicBool,
    state: Mutex<FeedState>,
    gathered: Mutex<MergedTotals>,
}

/// State that the coordinator updates.
#[derive(Debug, Default)]
struct FeedState {
    run: String,
    load: LoadInfo,
    begun: Option<RunStart>,
    is_stopped: bool,
    agents: BTreeMap<AgentName, AgentProgress>,
    /// Results that the viewers have not merged yet.
    fresh: Option<Box<Delta>>,
    /// Allocated memory to reuse for the next results.
    spare: Option<Box<Delta>>,
}

/// Results that viewers have merged.
#[derive(Debug, Default)]
struct MergedTotals {
    so_far: Delta,
    untaken: Delta,
    /// Results of the most recent seconds, if a viewer requested them.
    recent: Option<RecentDeltas>,
}

/// Start and planned duration of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunStart {
    /// Start of the load. For a run that was taken over, it is derived from the results.
    pub at: Instant,
    /// Planned duration including the warm-up, if the load has a time limit.
    pub planned: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct AgentProgress {
    state: AgentState,
    /// The agent's share of the load, 0 to 1.
    share: f64,
    /// Time since the start of the load up to which the agent's results have arrived.
    until: Nanos,
    /// Number of requests that finished, including the warm-up.
    ended: u64,
    /// Requests in flight at the time `until`.
    in_flight: u64,
    last_message: Option<Instant>,
}

/// State of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentState {
    /// The agent is preparing its load.
    Preparing,
    /// The agent is generating load.
    Loading,
    /// The agent should be generating load, but has been silent for this long.
    Quiet(Duration),
    /// The agent has finished, and all its results have arrived.
    Ended,
    /// The agent is lost, so its share of the load will stay incomplete.
    Lost,
}

/// All results of a run so far.
#[derive(Debug, Clone)]
pub struct RunTotals {
    /// Sum of the results, without the time series.
    pub delta: Delta,
    /// Time since the start of the load up to which results have arrived. This is the mean over the
    /// agents, weighted by their shares of the load.
    pub reaches: Nanos,
    /// Requests in flight at agents that are not lost.
    pub in_flight: u64,
}

impl Feed {
    /// Records that the load was divided and its agents are preparing.
    pub(super) fn prepare(&self, manifest: &RunManifest) {
        let agents = manifest.parts.iter().map(|(name, part)| {
            let seen = AgentProgress {
                state: AgentState::Preparing,
                share: f64::from(part.shard.workers) / f64::from(part.shard.of.max(1)),
                until: Nanos::ZERO,
                ended: 0,
                in_flight: 0,
                last_message: None,
            };
            (name.clone(), seen)
        });
        *self.state() = FeedState {
            run: manifest.run.to_string(),
            load: manifest.load.clone(),
            agents: agents.collect(),
            ..FeedState::default()
        };
        let mut gathered = lock(&self.gathered);
        *gathered = MergedTotals {
            recent: gathered.recent.take().map(RecentDeltas::emptied),
            ..MergedTotals::default()
        };
    }

    /// Records the start of the load and its settings as the agents resolved them.
    pub(super) fn begin(&self, load: &LoadInfo, at: Instant, planned: Option<Duration>) {
        let mut state = self.state();
        state.load = load.clone();
        state.begun = Some(RunStart { at, planned });
        for seen in state.agents.values_mut() {
            seen.state = AgentState::Loading;
        }
    }

    /// Adds new results of an agent; `all` contains the agent's total counts.
    pub(super) fn add(
        &self,
        name: &AgentName,
        packed: &EncodedDelta,
        all: &DeltaTotals,
        now: Instant,
    ) {
        let mut state = self.state();
        let state = &mut *state;
        let Some(seen) = state.agents.get_mut(name) else {
            return;
        };
        let spare = &mut state.spare;
        let fresh = state
            .fresh
            .get_or_insert_with(|| spare.take().unwrap_or_default());
        // The results were checked when they were counted, so this can't fail.
        let _ = packed.add_to(fresh);
        if !self.is_followed() && !self.keeps_series() {
            // The time series is dropped, because it grows with the duration of the load.
            fresh.drop_series();
        }
        seen.until = all.span.map_or(Nanos::ZERO, |(_, end)| end);
        seen.ended = all.ended();
        seen.in_flight = all.in_flight();
        seen.last_message = Some(now);
        if let Some(begun) = &mut state.begun
            && let Some(at) = now.checked_sub(seen.until.into())
        {
            begun.at = begun.at.min(at);
        }
    }

    pub(super) fn is_now(&self, name: &AgentName, state: AgentState) {
        if let Some(seen) = self.state().agents.get_mut(name) {
            seen.state = state;
        }
    }

    /// Records that the load was asked to stop.
    pub(super) fn stop(&self) {
        self.state().is_stopped = true;
    }

    /// Returns the settings of the load. They are unresolved until the agents are ready.
    pub fn load(&self) -> LoadInfo {
        self.state().load.clone()
    }

    /// Returns the start of the run, if it is known.
    pub fn begun(&self) -> Option<RunStart> {
        self.state().begun
    }

    /// Returns true if the load was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Returns the number of requests that finished, including the warm-up.
    pub fn ended(&self) -> u64 {
        self.state().agents.values().map(|seen| seen.ended).sum()
    }

    /// Returns the agents and their states.
    pub fn agents(&self) -> Vec<(AgentName, AgentState)> {
        self.agents_at(Instant::now())
    }

    fn agents_at(&self, now: Instant) -> Vec<(AgentName, AgentState)> {
        let state = self.state();
        let agents = state.agents.iter();
        let state = |seen: &AgentProgress| seen.state_at(now, state.begun);
        agents
            .map(|(name, seen)| (name.clone(), state(seen)))
            .collect()
    }

    /// Returns the time since the start of the load up to which the results of all agents have
    /// arrived; zero before the first results of the measured part. Agents that are lost, quiet or
    /// finished are ignored.
    pub fn complete_until(&self) -> Nanos {
        self.complete_at(Instant::now())
    }

    fn complete_at(&self, now: Instant) -> Nanos {
        let state = self.state();
        let agents = state.agents.values();
        let loading = agents.clone().filter(|seen| {
            let state = seen.state_at(now, state.begun);
            matches!(state, AgentState::Preparing | AgentState::Loading)
        });
        let least = loading.map(|seen| seen.until).min();
        let most = || agents.map(|seen| seen.until).max();
        least.or_else(most).unwrap_or_default()
    }

    /// Enables [`Feed::take`]. Must be called before the run starts.
    pub fn follow(&self) {
        self.is_followed.store(true, Ordering::Relaxed);
    }

    fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed)
    }

    /// Makes [`Feed::so_far`] include the time series. Must be called before the run starts.
    pub fn keep_series(&self) {
        self.keeps_series.store(true, Ordering::Relaxed);
    }

    fn keeps_series(&self) -> bool {
        self.keeps_series.load(Ordering::Relaxed)
    }

    /// Returns the results since the previous call, if [enabled](Feed::follow). Over a whole run,
    /// the returned results add up to what the agents sent. Only one caller may use this method;
    /// any number of viewers may use [`Feed::so_far`].
    pub fn take(&self) -> Delta {
        mem::take(&mut self.gather().untaken)
    }

    /// Enables [`Feed::recent`] for a window of this length. Must be called before the run starts.
    pub fn keep_recent(&self, length: Nanos) {
        lock(&self.gathered).recent = Some(RecentDeltas::new(length));
    }

    /// Returns the results of the window that ends at `until`, without the time series. Returns
    /// `None` if there are none.
    pub fn recent(&self, until: Nanos) -> Option<Delta> {
        self.gather().recent.as_ref()?.before(until)
    }

    /// Returns all results so far.
    pub fn so_far(&self) -> RunTotals {
        let delta = self.gather().so_far.clone();
        let state = self.state();
        let agents = || state.agents.values();
        let there = agents().filter(|seen| seen.state != AgentState::Lost);
        let reaches = agents().map(|seen| seen.until.as_secs_f64() * seen.share);
        RunTotals {
            delta,
            reaches: Nanos::from_secs_f64(reaches.sum()),
            in_flight: there.map(|seen| seen.in_flight).sum(),
        }
    }

    /// Returns the record of the run so far, without the facts that
    /// agents send at the end. All values are zero until the measured part begins. Returns `None`
    /// before the start of the run.
    pub fn record_so_far(&self) -> Option<Record> {
        self.begun()?;
        let all = self.so_far().delta;
        let span = all.span.unwrap_or((Nanos::ZERO, Nanos::ZERO));
        let mut record = Record::build(self.load(), &all, span, None);
        // The `fleet` entry marks the record as one of a load on agents, which explains the missing
        // data about the generator.
        record.fleet = Some(FleetUse {
            run: self.state().run.clone(),
            ..FleetUse::default()
        });
        Some(record)
    }

    /// Returns the findings that can be determined from the counts so far.
    pub fn findings(&self) -> Vec<Finding> {
        let record = self
            .record_so_far()
            .filter(|record| record.totals.elapsed_s > 0.0);
        let mut findings = record.map_or_else(Vec::new, |record| findings_so_far(&record));
        findings.retain(|finding| finding.id != FindingId::PortExhaustion);
        findings
    }

    /// Merges the results that have arrived since the last call.
    fn gather(&self) -> MutexGuard<'_, MergedTotals> {
        let mut gathered = lock(&self.gathered);
        let fresh = self.state().fresh.take();
        if let Some(mut fresh) = fresh {
            if self.is_followed() {
                gathered.untaken.merge(&fresh);
            }
            if !self.keeps_series() {
                fresh.drop_series();
            }
            gathered.so_far.merge(&fresh);
            if let Some(recent) = &mut gathered.recent {
                recent.add(&fresh);
            }
            fresh.clear();
            self.state().spare = Some(fresh);
        }
        gathered
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        lock(&self.state)
    }
}

impl AgentProgress {
    fn state_at(&self, now: Instant, begun: Option<RunStart>) -> AgentState {
        let since = self.last_message.max(begun.map(|begun| begun.at));
        let quiet = since.map(|since| now.saturating_duration_since(since));
        match (self.state, quiet) {
            (AgentState::Loading, Some(quiet)) if quiet > QUIET_AFTER => AgentState::Quiet(quiet),
            (state, _) => state,
        }
    }
}

/// Locks the mutex even if it is poisoned: a panic elsewhere loses at most one message.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
