//! The settings of an agent.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use super::host_name::host_name;
use crate::clock::Clock;
use crate::credentials::{FleetCredentials, KeyFile};
use crate::names::AgentName;
use crate::permissions::Role;
use crate::policy::Policy;

/// Receives the agent's log, one line at a time.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The settings of an agent.
#[derive(Clone)]
pub struct AgentSettings {
    /// The agent's name; its credentials are for this name.
    pub name: AgentName,
    /// The NATS server, if it is none of those that the credentials name.
    pub server: Option<String>,
    /// The agent's credentials.
    pub credentials: FleetCredentials,
    /// Labels by which coordinators choose the agent.
    pub labels: BTreeMap<String, String>,
    /// The policy of the machine's administrator.
    pub policy: Policy,
    /// Folder for results and for files of runs.
    pub state: PathBuf,
    /// Cores that loads run on; all cores if empty.
    pub cores: Vec<usize>,
    /// The clock by which loads start.
    pub clock: Clock,
    /// The agent's log.
    pub log: LogSink,
}

impl fmt::Debug for AgentSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSettings")
            .field("name", &self.name)
            .field("server", &self.server)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl AgentSettings {
    /// The agent's name according to its credentials, which must agree with the `typed` name. With
    /// credentials that name no agent, the `typed` name or the machine's host name counts.
    ///
    /// # Errors
    ///
    /// Returns a message if the credentials are for another role or name.
    pub fn name(
        credentials: &FleetCredentials,
        typed: Option<&AgentName>,
    ) -> Result<AgentName, String> {
        let role = match credentials {
            FleetCredentials::Key(file) => KeyFile::role(file),
            FleetCredentials::Jwt(_) => {
                let typed = typed.cloned();
                return Ok(typed.unwrap_or_else(|| AgentName::from_hostname(&host_name())));
            }
        };
        match (role, typed) {
            (Role::Coordinator, _) => Err(
                "these are the coordinator's credentials; an agent needs its own, which `prony fleet \
                 up` writes into the same folder"
                    .to_owned(),
            ),
            (Role::Agent(name), Some(typed)) if *typed != name => Err(format!(
                "these are the credentials of agent {name}, and --name says {typed}"
            )),
            (Role::Agent(name), _) => Ok(name),
            (role @ (Role::Registrar | Role::Token(_)), _) => Err(format!(
                "these are the credentials of {role}; an agent needs its own"
            )),
        }
    }

    /// Number of cores that loads may use.
    pub(super) fn core_count(&self) -> u32 {
        let cores = match self.cores.len() {
            0 => thread::available_parallelism().map_or(1, |n| n.get()),
            some => some,
        };
        u32::try_from(cores).unwrap_or(u32::MAX)
    }

    /// Folder of the runs' result files.
    pub(super) fn results_folder(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Folder of files that coordinators sent to this agent.
    pub(super) fn received_folder(&self) -> PathBuf {
        self.state.join("files").join(self.name.as_str())
    }

    /// Folder of the files and logs of services.
    pub(super) fn services_folder(&self) -> PathBuf {
        self.state.join("hosts").join(self.name.as_str())
    }
}
