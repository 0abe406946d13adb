//! Lists stored runs, and selects the default run of a command.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::error::FleetError;
use super::fleet::Fleet;
use super::stop::StopRequest;
use crate::link::NatsLink;
use crate::names::{AgentName, RUNS_BUCKET, RunId};
use crate::wire::RunManifest;

/// Maximum age of a connected agent's registration. If the registration is older, the agent is
/// considered disconnected.
const REGISTRATION_AGE_MAX: Duration = Duration::from_secs(9);

/// Runs that agents are working on.
#[derive(Debug, Default)]
pub(super) struct AgentWork {
    /// For each run, the agents that take part in it.
    pub(super) busy: BTreeMap<RunId, BTreeSet<AgentName>>,
    /// For each run, the agents that still have unsent results of this run.
    pub(super) sending: BTreeMap<RunId, BTreeSet<AgentName>>,
}

/// A run that is stored on the server.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRun {
    /// Manifest of the run.
    pub manifest: RunManifest,
    /// Number of stored result messages for the run.
    pub stored: u64,
    /// Number of agents that take part in the run.
    pub busy: usize,
    /// Number of agents that are still sending results of the run.
    pub sending: usize,
}

impl StoredRun {
    /// Returns true if the run was started, and has results or may still receive some.
    pub fn has_results(&self) -> bool {
        self.manifest.start.is_some() && (self.stored > 0 || self.busy > 0 || self.sending > 0)
    }
}

/// Records on the server that a coordinator ordered the run to stop, and the condition that caused
/// the order, if any. Records that are built later then don't report the parts as incomplete.
pub(super) fn store_stopped(link: &NatsLink, manifest: &RunManifest, stop: &StopRequest) {
    let stopped = RunManifest {
        stopped: true,
        aborted: stop.aborted().cloned(),
        ..manifest.clone()
    };
    if let Ok(json) = serde_json::to_vec(&stopped) {
        // If this fails, the records of other coordinators report the parts as incomplete.
        let _ = link.store(&format!("$KV.{RUNS_BUCKET}.{}", manifest.run), None, json);
    }
}

impl Fleet {
    /// Returns the run with this ID. By default, returns the newest run with results or, if no run
    /// has any, the newest run.
    ///
    /// # Errors
    ///
    /// Returns [`FleetError::NoRun`], or an error of the [link](crate::link::LinkError).
    pub fn run(&self, run: Option<&RunId>) -> Result<RunManifest, FleetError> {
        let none = || FleetError::NoRun(run.cloned());
        let Some(run) = run else {
            let mut runs = self.runs()?;
            let worth = runs.iter().position(StoredRun::has_results).unwrap_or(0);
            return if runs.is_empty() {
                Err(none())
            } else {
                Ok(runs.swap_remove(worth).manifest)
            };
        };
        let entry = self.link.entry(RUNS_BUCKET, run.as_str())?;
        entry
            .and_then(|entry| serde_json::from_slice(&entry).ok())
            .ok_or_else(none)
    }

    /// Returns all stored runs, newest first.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn runs(&self) -> Result<Vec<StoredRun>, FleetError> {
        let entries = self.link.entries(RUNS_BUCKET)?.into_iter();
        let read =
            entries.filter_map(|(_, value)| serde_json::from_slice::<RunManifest>(&value).ok());
        let stored = self.stored()?;
        let AgentWork { busy, sending } = self.agent_work()?;
        let mut runs: Vec<StoredRun> = read
            .map(|manifest| StoredRun {
                stored: stored.get(manifest.run.as_str()).copied().unwrap_or(0),
                busy: members(&busy, &manifest).len(),
                sending: members(&sending, &manifest).len(),
                manifest,
            })
            .collect();
        runs.sort_by(|one, other| other.manifest.run.cmp(&one.manifest.run));
        Ok(runs)
    }

    /// Returns the number of stored messages for each run.
    fn stored(&self) -> Result<BTreeMap<String, u64>, FleetError> {
        let mut stored = BTreeMap::new();
        for (subject, count) in self.link.stored()? {
            if let Some((_, run)) = subject.rsplit_once('.') {
                *stored.entry(run.to_owned()).or_default() += count;
            }
        }
        Ok(stored)
    }

    /// Returns the runs that connected agents are working on, according to their registrations.
    pub(super) fn agent_work(&self) -> Result<AgentWork, FleetError> {
        let mut agent_work = AgentWork::default();
        for one in self
            .agents()?
            .into_iter()
            .filter(|one| one.age < REGISTRATION_AGE_MAX)
        {
            let name = one.agent.name;
            if let Some(run) = one.agent.busy_with {
                agent_work.busy.entry(run).or_default().insert(name.clone());
            }
            for run in one.agent.sending {
                agent_work
                    .sending
                    .entry(run)
                    .or_default()
                    .insert(name.clone());
            }
        }
        Ok(agent_work)
    }
}

/// Returns the listed agents that have a part in the run. A registration alone doesn't prove this,
/// because an agent can claim to take part in any run.
pub(super) fn members<'a>(
    listed: &'a BTreeMap<RunId, BTreeSet<AgentName>>,
    manifest: &RunManifest,
) -> Vec<&'a AgentName> {
    let of_run = listed.get(&manifest.run).into_iter().flatten();
    of_run
        .filter(|name| manifest.parts.contains_key(*name))
        .collect()
}
