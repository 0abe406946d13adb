//! The part of a record that only loads by several agents have.

use serde::{Deserialize, Serialize};

/// The agents of a load, and the time between their first requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetUse {
    /// Name of the run.
    pub run: String,
    /// The agents' shares of the load, sorted by the agents' names.
    pub agents: Vec<FleetAgent>,
    /// Largest minus smallest `first_start_us`, with an error of at most twice `clock_bound_us`.
    /// `None` if fewer than two agents started.
    pub start_skew_us: Option<f64>,
    /// Largest error bound of any agent's clock offset.
    pub clock_bound_us: f64,
}

/// One agent's share of a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetAgent {
    /// Name of the agent.
    pub name: String,
    /// Operating system and kernel of the agent's machine.
    pub system: String,
    /// Worker threads.
    pub workers: u32,
    /// Number of connections in the agent's share of the load.
    pub connections: u64,
    /// Requests in the measured part that began to connect or to send.
    pub started: u64,
    /// Successful requests in the measured part.
    pub ok: u64,
    /// Failed requests in the measured part.
    pub failed: u64,
    /// Successful requests per second over the agent's own measured part; `None` if it measured
    /// nothing.
    #[serde(default)]
    pub ok_per_s: Option<f64>,
    /// 99th percentile of the agent's response times as the agent reports it, in microseconds;
    /// `None` if its share did not finish.
    #[serde(default)]
    pub p99_us: Option<f64>,
    /// True if `p99_us` is only a lower bound, because requests timed out or were cut off.
    #[serde(default)]
    pub p99_at_least: bool,
    /// CPU usage of the agent's load generator, in percent of one core; `None` if its share did not
    /// finish.
    #[serde(default)]
    pub cpu_percent: Option<f64>,
    /// Offset of the agent's clock (agent's clock minus coordinator's clock), measured before the
    /// load.
    pub clock_offset_us: Option<f64>,
    /// Maximum error of `clock_offset_us`.
    pub clock_bound_us: Option<f64>,
    /// Delay of the agent's first request after the common start or, in an open loop, after the
    /// agent's first scheduled arrival, on the coordinator's clock. `None` if the agent made no
    /// request or the delay is unknown.
    pub first_start_us: Option<f64>,
    /// Delay of the agent's first request relative to the first request of the agent that started
    /// first.
    #[serde(default)]
    pub start_skew_us: Option<f64>,
    /// Reason why the agent's share ended: `done`, `stopped`, `agent-ended`, `lease-ended`,
    /// `failed` or `lost`.
    pub ended_because: String,
}
