//! Description of a run, stored on the NATS server so that any coordinator can continue the run.

use std::collections::BTreeMap;

use prony_record::{LoadAbort, LoadInfo};
use serde::{Deserialize, Serialize};

use crate::clock::ClockOffset;
use crate::division::AgentShard;
use crate::names::{AgentName, RunId};

/// Schema of [`RunManifest`].
pub const RUN_SCHEMA: &str = "prony.run/1";

/// Description of a run, as stored on the NATS server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// Always `prony.run/1`.
    pub schema: String,
    /// Version of the coordinator's prony.
    pub version: String,
    /// ID of the run.
    pub run: RunId,
    /// Creation time, UTC, RFC 3339.
    pub made_at: String,
    /// URL without its credentials. `None` if the load has only a list of URLs.
    pub url: Option<String>,
    /// Settings of the load, as in the record.
    pub load: LoadInfo,
    /// Seed of the random parts of the load, such as arrival times and the order of requests.
    pub seed: u64,
    /// Maximum accepted error of an agent's clock, in nanoseconds.
    pub clock_bound_ns: u64,
    /// Part of the run that is assigned to each agent.
    pub parts: BTreeMap<AgentName, PartAssignment>,
    /// Start time on the coordinator's clock, in nanoseconds; `None` until all agents are ready.
    pub start: Option<i64>,
    /// Identifier of the coordinator's clock.
    #[serde(default)]
    pub clock: Option<String>,
    /// Lease in milliseconds: how long agents continue without contact with a coordinator.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    /// True if a coordinator ordered the agents to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// `--abort-if` condition that caused the coordinator's order to stop, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<LoadAbort>,
}

/// Part of a run that is assigned to one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartAssignment {
    /// Identifier of the agent's process.
    pub instance: String,
    /// Operating system and kernel of the agent.
    pub system: String,
    /// Workers of the load that the agent runs.
    #[serde(rename = "stretch")]
    pub shard: AgentShard,
    /// Offset of the agent's clock before the load.
    pub clock: Option<ClockOffset>,
    /// Offset of the agent's clock after the load, if it was measured.
    #[serde(default)]
    pub clock_after: Option<ClockOffset>,
}
