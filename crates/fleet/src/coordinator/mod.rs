//! The coordinator: agents are found, a load is divided among them and begun at one moment, and what
//! they measured becomes one record.
//!
//! Enters: a load as it was typed, and which agents are to make it. Leaves: its record, as one machine
//! would have made it. Everything that a run is lies with the NATS server and the agents, so that
//! another coordinator can go on with it ([`Fleet::attach`], [`Fleet::collect`]). Whatever happens ends
//! in a bounded time, and no agent goes on for longer than its lease without a coordinator.

mod afterwards;
mod check;
mod choice;
mod error;
mod feed;
mod files;
mod findings;
mod gathering;
mod later;
mod leadership;
mod lease;
mod load;
mod merging;
mod orders;
mod purge;
mod runs;
mod schedule;
mod server_contact;
mod sources;
mod starts;
mod stop;
mod sums;
mod words;

use std::sync::Arc;
use std::time::Duration;

pub use check::{CheckedAgent, ClockCheck, TargetCheck};
pub use choice::{Choice, ChoiceError, Listed};
pub use error::FleetError;
pub use feed::{AgentState, Begun, Feed, SoFar};
use lease::Patience;
use prony_record::Record;
pub use runs::KnownRun;
pub use stop::Stop;

use crate::clock::Clock;
use crate::credentials::Credentials;
use crate::link::Link;
use crate::messages::{Manifest, Registration};
use crate::names::{AGENTS, AgentName, RUNS, RunId};
use crate::permissions::Role;

/// Largest error of an agent's clock to accept where nothing else is said.
pub const CLOCK_BOUND: Duration = Duration::from_millis(5);

/// All agents that are registered with a NATS server.
#[derive(Debug)]
pub struct Fleet {
    link: Link,
    clock: Clock,
    patience: Patience,
    /// How long agents that are missing or busy are waited for.
    wait: Duration,
    /// The experiment that loads belong to, for which agents may be reserved.
    beside: Option<RunId>,
}

/// A load for agents.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The URL, as `prony load` takes it.
    pub url: Option<String>,
    /// The load's options, each `--name=value` or `--name`.
    pub words: Vec<String>,
    /// Who is to make it.
    pub choice: Choice,
    /// Largest error of an agent's clock to accept.
    pub clock_bound: Duration,
}

/// What goes on, for whoever watches.
#[derive(Debug, Clone, PartialEq)]
pub enum Told<'a> {
    /// A step on the way.
    Step(&'a str),
    /// Something that everybody must see.
    Warning(&'a str),
    /// How far the load is.
    Going(Going),
}

/// How far a load is.
#[derive(Debug, Clone, PartialEq)]
pub struct Going {
    /// Since the moment at which it began.
    pub elapsed: Duration,
    /// Requests that ended, a second, since this was told last.
    pub ended_per_s: f64,
    /// Requests that ended.
    pub ended: u64,
    /// Failures of the measured part among them.
    pub failed: u64,
    /// Agents that still load.
    pub agents: usize,
    /// Those among them that have not been heard of for more than three seconds.
    pub quiet: Vec<AgentName>,
}

/// Whoever watches, and may stop it.
#[derive(Clone, Copy)]
pub struct Watcher<'a> {
    /// Is told what goes on.
    pub told: &'a dyn Fn(Told<'_>),
    /// Stops the load; what was measured until then is its result.
    pub stop: &'a Stop,
    /// Is given what comes while it comes, where somebody looks at it.
    pub feed: Option<&'a Arc<Feed>>,
}

/// A run that is over.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its name.
    pub run: RunId,
    /// What was measured.
    pub record: Record,
}

impl Fleet {
    /// Connects to the server, or else to those that the credentials name, and makes there what the fleet
    /// needs.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn connect(server: Option<&str>, credentials: &Credentials) -> Result<Fleet, FleetError> {
        let link = Link::connect(server, credentials, &Role::Coordinator)?;
        link.prepare_server()?;
        Ok(Fleet {
            link,
            clock: Clock::new(),
            patience: Patience::default(),
            wait: Duration::ZERO,
            beside: None,
        })
    }

    /// Takes agents for free that run services for this run, which the loads belong to.
    pub fn beside(mut self, run: RunId) -> Fleet {
        self.beside = Some(run);
        self
    }

    /// Lets agents go on for this long without a sign of the coordinator, instead of 10 s. All timeouts
    /// after which an agent counts as lost follow from it.
    pub fn with_lease(mut self, lease: Duration) -> Fleet {
        self.patience = Patience { lease };
        self
    }

    /// Waits for this long for agents that are not there yet, or are busy, before a load.
    pub fn with_wait(mut self, wait: Duration) -> Fleet {
        self.wait = wait;
        self
    }

    /// Who is registered, by name. What is registered that can't be read is left out.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn agents(&self) -> Result<Vec<Listed>, FleetError> {
        let entries = self.link.aged_entries(AGENTS)?;
        let read = entries.into_iter().filter_map(|(key, age, value)| {
            let agent = Registration::of_entry(&key, &value)?;
            Some(Listed { agent, age })
        });
        let mut listed: Vec<Listed> = read.collect();
        listed.sort_by(|one, other| one.agent.name.cmp(&other.agent.name));
        Ok(listed)
    }

    fn store(&self, manifest: &Manifest) -> Result<(), FleetError> {
        let json = serde_json::to_vec(manifest).expect("strings, numbers and maps of them");
        let key = format!("$KV.{RUNS}.{}", manifest.run);
        Ok(self.link.store(&key, None, json)?)
    }
}
