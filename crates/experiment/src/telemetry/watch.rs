//! What is to be watched, and how, beyond the process trees of the services that a host starts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::service::Follow;

/// How the processor's counters (cycles, instructions, cache misses) are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Counters {
    /// By core: it costs the services nothing. A service has figures where nobody else is meant to
    /// run on its cores.
    #[default]
    Cores,
    /// By process, inherited: exact for every service. The kernel then changes counters at each
    /// context switch, which on a virtual machine can cost more than the switch itself.
    Processes,
    /// Not at all.
    Off,
}

/// A service of a machine elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The TCP port that it listens on; who listens there is the service where nothing else says.
    pub port: Option<u16>,
    /// Where its processes are found.
    pub follow: Follow,
}

/// A machine that is read over ssh, with nothing installed there but a shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RemoteMachine {
    /// What ssh calls it: `user@host`, `ssh://user@host:port` or a name of its configuration.
    pub destination: String,
    /// Arguments for ssh before it, such as `-i` and a key's file.
    pub ssh: Vec<String>,
    /// Its services by their names in the plan.
    pub services: BTreeMap<String, Elsewhere>,
}

/// What a trial asks its host to watch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Watch {
    /// How the processor's counters are read.
    pub counters: Counters,
    /// The cores that the load is bound to; none if it may run on all.
    pub load_cores: Vec<usize>,
    /// Whether the load is made on another machine, so that it may use none of the cores.
    pub load_is_elsewhere: bool,
    /// Services on this machine that somebody else has started, and how to find them.
    pub others: BTreeMap<String, Follow>,
    /// The machine elsewhere on which all other remote services run.
    pub remote: Option<RemoteMachine>,
}
