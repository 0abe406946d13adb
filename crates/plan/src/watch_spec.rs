//! Telemetry settings beyond the process trees of the services that a host starts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::service::FollowSpec;

/// Mode in which hardware counters (cycles, instructions, cache misses) are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CounterMode {
    /// Events are counted per core, without overhead for the services. A service has values only if
    /// no other service and no load may run on its cores.
    #[default]
    Cores,
    /// Events are counted per process, including its descendants, which is exact for every service.
    /// The kernel then switches counters at each context switch. On a virtual machine, this can
    /// cost more than the context switch itself.
    Processes,
    /// No hardware counters are read.
    Off,
}

/// A service on a remote machine whose counters are read over ssh.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteService {
    /// TCP port that the service listens on. Unless `follow` names processes, the process that
    /// listens on this port is the service.
    pub port: Option<u16>,
    /// Processes of the service that the plan names; can be empty.
    pub follow: FollowSpec,
}

/// A remote machine whose counters are read over ssh. The machine needs only a POSIX shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteMachine {
    /// Destination for ssh: `user@host`, `ssh://user@host:port`, or a name from the configuration
    /// of ssh.
    pub destination: String,
    /// Arguments of ssh that precede the destination, such as `-i` and a key file.
    pub ssh: Vec<String>,
    /// Services on the machine, by their names in the plan.
    pub services: BTreeMap<String, RemoteService>,
}

/// Telemetry that a trial requests from its host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchSpec {
    /// Mode in which hardware counters are read.
    pub counters: CounterMode,
    /// Samples per second of CPU time for a sampling profile of each service; `None` for no profile.
    #[serde(default)]
    pub profile_rate_hz: Option<u32>,
    /// Cores that the load is bound to; empty if the load may run on any core.
    pub load_cores: Vec<usize>,
    /// True if the load runs on another machine and uses no cores of this machine.
    pub load_is_elsewhere: bool,
    /// Services on this machine that prony did not start, each with its processes.
    pub others: BTreeMap<String, FollowSpec>,
    /// Services on this machine that prony did not start, each with the loopback address on which it
    /// listens.
    /// They are sampled for a profile.
    #[serde(default)]
    pub listeners: BTreeMap<String, String>,
    /// Machine that runs all remote services of the plan, and whose telemetry is read over ssh;
    /// `None` if the plan names no such machine.
    pub remote: Option<RemoteMachine>,
}
