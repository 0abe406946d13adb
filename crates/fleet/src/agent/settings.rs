//! Settings of an agent.

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

/// Function that receives the agent's log, one line at a time.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of an agent.
#[derive(Clone)]
pub struct AgentSettings {
    /// Name of the agent. Its credentials must be for this name.
    pub name: AgentName,
    /// URL of the NATS server, or `None` to use the servers in the credentials.
    pub server: Option<String>,
    /// Credentials of the agent.
    pub credentials: FleetCredentials,
    /// Labels with which coordinators select the agent.
    pub labels: BTreeMap<String, String>,
    /// Policy of the machine's administrator.
    pub policy: Policy,
    /// Folder for results and run files.
    pub state: PathBuf,
    /// Cores that loads may run on; all cores if empty.
    pub cores: Vec<usize>,
    /// Clock that determines when loads start.
    pub clock: Clock,
    /// Destination of the agent's log.
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

/// Reason why credentials are not those of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherCredentials {
    /// They belong to another role.
    Role(Role),
    /// They belong to another agent.
    Name {
        /// Name of their agent.
        name: AgentName,
        /// Name that the user typed.
        requested: AgentName,
    },
}

impl fmt::Display for OtherCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OtherCredentials::Role(Role::Coordinator) => f.write_str(
                "these are the coordinator's credentials; an agent needs its own, which `prony \
                 fleet up` writes into the same folder",
            ),
            OtherCredentials::Role(role) => write!(
                f,
                "these are the credentials of {role}; an agent needs its own"
            ),
            OtherCredentials::Name { name, requested } => write!(
                f,
                "these are the credentials of agent {name}, but --name is {requested}"
            ),
        }
    }
}

impl AgentSettings {
    /// Returns the agent's name from its credentials. If `requested` is also given, it must be the same
    /// name. If the credentials contain no name, returns `requested` or, by default, the machine's host
    /// name.
    ///
    /// # Errors
    ///
    /// The credentials are for another role or name.
    pub fn name(
        credentials: &FleetCredentials,
        requested: Option<&AgentName>,
    ) -> Result<AgentName, OtherCredentials> {
        let role = match credentials {
            FleetCredentials::Key(file) => KeyFile::role(file),
            FleetCredentials::Jwt(_) => {
                let requested = requested.cloned();
                return Ok(requested.unwrap_or_else(|| AgentName::from_hostname(&host_name())));
            }
        };
        match (role, requested) {
            (Role::Agent(name), Some(requested)) if *requested != name => {
                Err(OtherCredentials::Name {
                    name,
                    requested: requested.clone(),
                })
            }
            (Role::Agent(name), _) => Ok(name),
            (role, _) => Err(OtherCredentials::Role(role)),
        }
    }

    /// Returns the number of cores that loads may use.
    pub(super) fn core_count(&self) -> u32 {
        let cores = match self.cores.len() {
            0 => thread::available_parallelism().map_or(1, |n| n.get()),
            some => some,
        };
        u32::try_from(cores).unwrap_or(u32::MAX)
    }

    /// Returns the folder of the runs' result files.
    pub(super) fn results_folder(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Returns the folder of files received from coordinators.
    pub(super) fn received_folder(&self) -> PathBuf {
        self.state.join("files").join(self.name.as_str())
    }

    /// Returns the folder of the services' files and logs.
    pub(super) fn services_folder(&self) -> PathBuf {
        self.state.join("hosts").join(self.name.as_str())
    }
}
