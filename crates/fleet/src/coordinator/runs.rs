//! The runs that the server knows, and which of them is meant where none is named.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Fleet;
use super::error::FleetError;
use crate::link::Link;
use crate::messages::Manifest;
use crate::names::{AgentName, RUNS, RunId};

/// A registration that is older doesn't say that the agent is there.
const FRESH: Duration = Duration::from_secs(9);

/// Agents by the run that they have to do with.
#[derive(Debug, Default)]
pub(super) struct Engaged {
    /// They are part of it.
    pub(super) busy: BTreeMap<RunId, BTreeSet<AgentName>>,
    /// They have results of it that the server has not stored yet.
    pub(super) sending: BTreeMap<RunId, BTreeSet<AgentName>>,
}

/// A run that the server knows.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRun {
    /// What is kept of it.
    pub manifest: Manifest,
    /// How many messages with its results are stored.
    pub stored: u64,
    /// How many agents say that they are busy with it.
    pub busy: usize,
    /// How many agents say that they have yet to send what they measured in it.
    pub sending: usize,
}

impl KnownRun {
    /// Whether there is anything to be had of it: it began, and something is stored or still to come.
    pub fn is_worth_having(&self) -> bool {
        self.manifest.start.is_some() && (self.stored > 0 || self.busy > 0 || self.sending > 0)
    }
}

/// Notes with the run that a coordinator told its agents to stop, so that parts which end for that
/// reason are not taken for incomplete by those who make the record.
pub(super) fn store_stopped(link: &Link, manifest: &Manifest) {
    let stopped = Manifest {
        stopped: true,
        ..manifest.clone()
    };
    if let Ok(json) = serde_json::to_vec(&stopped) {
        // Without it another coordinator's record says that the parts are incomplete.
        let _ = link.store(&format!("$KV.{RUNS}.{}", manifest.run), None, json);
    }
}

impl Fleet {
    /// A run by name; or else the newest of which there is something to be had, or the newest.
    ///
    /// # Errors
    ///
    /// [`FleetError::NoRun`], and see [`crate::link::LinkError`].
    pub fn run(&self, run: Option<&RunId>) -> Result<Manifest, FleetError> {
        let none = || FleetError::NoRun(run.cloned());
        let Some(run) = run else {
            let mut runs = self.runs()?;
            let worth = runs.iter().position(KnownRun::is_worth_having).unwrap_or(0);
            return match runs.is_empty() {
                true => Err(none()),
                false => Ok(runs.swap_remove(worth).manifest),
            };
        };
        let entry = self.link.entry(RUNS, run.as_str())?;
        entry
            .and_then(|entry| serde_json::from_slice(&entry).ok())
            .ok_or_else(none)
    }

    /// The runs that the server knows, the newest first.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn runs(&self) -> Result<Vec<KnownRun>, FleetError> {
        let entries = self.link.entries(RUNS)?.into_iter();
        let read = entries.filter_map(|(_, value)| serde_json::from_slice::<Manifest>(&value).ok());
        let stored = self.stored()?;
        let Engaged { busy, sending } = self.engaged()?;
        let mut runs: Vec<KnownRun> = read
            .map(|manifest| KnownRun {
                stored: stored.get(manifest.run.as_str()).copied().unwrap_or(0),
                busy: members(&busy, &manifest).len(),
                sending: members(&sending, &manifest).len(),
                manifest,
            })
            .collect();
        runs.sort_by(|one, other| other.manifest.run.cmp(&one.manifest.run));
        Ok(runs)
    }

    /// How many messages are stored of each run that has any.
    fn stored(&self) -> Result<BTreeMap<String, u64>, FleetError> {
        let mut stored = BTreeMap::new();
        for (subject, count) in self.link.stored()? {
            if let Some((_, run)) = subject.rsplit_once('.') {
                *stored.entry(run.to_owned()).or_default() += count;
            }
        }
        Ok(stored)
    }

    /// What agents that are there say of the runs that they have to do with.
    pub(super) fn engaged(&self) -> Result<Engaged, FleetError> {
        let mut engaged = Engaged::default();
        for one in self.agents()?.into_iter().filter(|one| one.age < FRESH) {
            let name = one.agent.name;
            if let Some(run) = one.agent.busy_with {
                engaged.busy.entry(run).or_default().insert(name.clone());
            }
            for run in one.agent.sending {
                engaged.sending.entry(run).or_default().insert(name.clone());
            }
        }
        Ok(engaged)
    }
}

/// The agents among those listed for a run that have a part in it: any agent can name any run.
pub(super) fn members<'a>(
    listed: &'a BTreeMap<RunId, BTreeSet<AgentName>>,
    manifest: &Manifest,
) -> Vec<&'a AgentName> {
    let of_run = listed.get(&manifest.run).into_iter().flatten();
    of_run
        .filter(|name| manifest.parts.contains_key(*name))
        .collect()
}
