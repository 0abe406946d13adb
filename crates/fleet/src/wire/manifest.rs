//! The description of a run that the NATS server keeps, so that any coordinator can continue it.

use std::collections::BTreeMap;

use prony_record::{LoadAbort, LoadInfo};
use serde::{Deserialize, Serialize};

use crate::clock::ClockOffset;
use crate::division::AgentShard;
use crate::names::{AgentName, RunId};

/// The schema of [`RunManifest`].
pub const RUN_SCHEMA: &str = "prony.run/1";

/// A run as the NATS server stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// `prony.run/1`.
    pub schema: String,
    /// The coordinator's version of prony.
    pub version: String,
    /// The run.
    pub run: RunId,
    /// Creation time, UTC, RFC 3339.
    pub made_at: String,
    /// The URL without its credentials.
    pub url: Option<String>,
    /// The load as the record describes it.
    pub load: LoadInfo,
    /// Seed of arrivals and of random order.
    pub seed: u64,
    /// Largest accepted error of an agent's clock, in nanoseconds.
    pub clock_bound_ns: u64,
    /// Each agent's part.
    pub parts: BTreeMap<AgentName, PartAssignment>,
    /// Start on the coordinator's clock, in nanoseconds; `None` until all agents are ready.
    pub start: Option<i64>,
    /// Identity of the coordinator's clock.
    #[serde(default)]
    pub clock: Option<String>,
    /// Time without contact to a coordinator after which agents stop, in milliseconds.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    /// True if a coordinator ordered the agents to stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// The `--abort-if` condition because of which the coordinator ordered the stop, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted: Option<LoadAbort>,
}

/// The part of a run that one agent makes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartAssignment {
    /// The agent's instance.
    pub instance: String,
    /// The agent's operating system and kernel.
    pub system: String,
    /// The agent's workers.
    #[serde(rename = "stretch")]
    pub shard: AgentShard,
    /// Offset of the agent's clock before the load.
    pub clock: Option<ClockOffset>,
    /// Offset of the agent's clock after the load, if it was measured.
    #[serde(default)]
    pub clock_after: Option<ClockOffset>,
}
