//! Settings of telemetry beyond the process trees of the services that a host starts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::service::Follow;

/// The way in which the processor's counters (cycles, instructions, cache misses) are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CounterMode {
    /// Count by core, which costs the services nothing. A service has values only if nothing else
    /// is meant to run on its cores.
    #[default]
    Cores,
    /// By process, with inheritance: exact for every service. The kernel then switches counters at each
    /// context switch, which can cost more than the context switch itself on a virtual machine.
    Processes,
    /// Don't count.
    Off,
}

/// A service on the machine that is read over ssh.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteService {
    /// TCP port that it listens on. The listener is the service, unless `follow` names another process.
    pub port: Option<u16>,
    /// The way to find its processes.
    pub follow: Follow,
}

/// A machine that is read over ssh. It needs nothing but a shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteMachine {
    /// Destination for ssh: `user@host`, `ssh://user@host:port`, or a name in its configuration.
    pub destination: String,
    /// Arguments of ssh before the destination, such as `-i` and a key file.
    pub ssh: Vec<String>,
    /// Services on the machine, by their names in the plan.
    pub services: BTreeMap<String, RemoteService>,
}

/// The telemetry that a trial requests from its host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchSpec {
    /// The way in which the processor's counters are read.
    pub counters: CounterMode,
    /// The cores that the load is bound to; empty if it may run on all.
    pub load_cores: Vec<usize>,
    /// The load runs on another machine and uses none of the cores.
    pub load_is_elsewhere: bool,
    /// Services on this machine that prony did not start, and the way to find them.
    pub others: BTreeMap<String, Follow>,
    /// The machine on which all other remote services run.
    pub remote: Option<RemoteMachine>,
}
