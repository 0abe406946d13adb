//! Connects a coordinator to the agents of a NATS server.

use std::time::Duration;

use super::choice::ListedAgent;
use super::error::FleetError;
use super::lease::LeaseTimeouts;
use crate::clock::Clock;
use crate::credentials::FleetCredentials;
use crate::link::NatsLink;
use crate::names::{AGENTS_BUCKET, RUNS_BUCKET, RunId};
use crate::permissions::Role;
use crate::wire::{Registration, RunManifest};

/// The agents that are registered with a NATS server.
#[derive(Debug)]
pub struct Fleet {
    pub(super) link: NatsLink,
    pub(super) clock: Clock,
    pub(super) timeouts: LeaseTimeouts,
    /// Maximum time for which to wait for missing or busy agents.
    pub(super) wait: Duration,
    /// Experiment that the loads belong to. Agents that are reserved for it can be used.
    pub(super) experiment: Option<RunId>,
}

impl Fleet {
    /// Connects to this server or, by default, to those in the credentials. Creates the buckets and
    /// streams that a fleet needs on the server.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn connect(
        server: Option<&str>,
        credentials: &FleetCredentials,
    ) -> Result<Fleet, FleetError> {
        let link = NatsLink::connect(server, credentials, &Role::Coordinator)?;
        link.prepare_server()?;
        Ok(Fleet {
            link,
            clock: Clock::new(),
            timeouts: LeaseTimeouts::default(),
            wait: Duration::ZERO,
            experiment: None,
        })
    }

    /// Assigns loads to this experiment: agents that it has reserved count as free.
    #[must_use]
    pub fn for_experiment(mut self, run: RunId) -> Fleet {
        self.experiment = Some(run);
        self
    }

    /// Sets the lease, which is how long agents continue without contact with the coordinator; 10 s
    /// by default. It also determines the timeouts after which agents count as lost.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Fleet {
        self.timeouts = LeaseTimeouts { lease };
        self
    }

    /// Sets the maximum time to wait for missing or busy agents before a load.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Fleet {
        self.wait = wait;
        self
    }

    /// Returns the registered agents, sorted by name. Omits registrations that can't be read.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn agents(&self) -> Result<Vec<ListedAgent>, FleetError> {
        let entries = self.link.entries_with_age(AGENTS_BUCKET)?;
        let read = entries.into_iter().filter_map(|(key, age, value)| {
            let agent = Registration::of_entry(&key, &value)?;
            Some(ListedAgent { agent, age })
        });
        let mut listed: Vec<ListedAgent> = read.collect();
        listed.sort_by(|one, other| one.agent.name.cmp(&other.agent.name));
        Ok(listed)
    }

    /// Stores a run's manifest on the server.
    pub(super) fn store(&self, manifest: &RunManifest) -> Result<(), FleetError> {
        let json = serde_json::to_vec(manifest).expect("strings, numbers and maps of them");
        let key = format!("$KV.{RUNS_BUCKET}.{}", manifest.run);
        Ok(self.link.store(&key, None, json)?)
    }
}
