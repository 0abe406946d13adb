//! What belongs to a load that several machines made together.

use serde::{Deserialize, Serialize};

/// Who made a load together, and how well they began at once. Present in the record of such a load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetUse {
    /// The run's name.
    pub run: String,
    /// Each agent's part, by name.
    pub agents: Vec<FleetAgent>,
    /// How much later the first request of the one agent was than that of the other, over all of them:
    /// the most less the least `first_start_us`. None where fewer than two began. It is known to within twice `clock_bound_us`.
    pub start_skew_us: Option<f64>,
    /// The largest error among the agents' clocks against the coordinator's.
    pub clock_bound_us: f64,
}

/// One agent's part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FleetAgent {
    /// Its name.
    pub name: String,
    /// Its system and kernel.
    pub system: String,
    /// Its worker threads.
    pub workers: u32,
    /// Its share of the connections.
    pub connections: u64,
    /// Requests of the measured part whose connect or send began.
    pub started: u64,
    /// Successes.
    pub ok: u64,
    /// Failures of every kind.
    pub failed: u64,
    /// Successes a second, over its own measured part. None where it measured nothing.
    #[serde(default)]
    pub ok_per_s: Option<f64>,
    /// The 99th percentile of its response times, as the agent reports it. None where its part did not
    /// come to its end.
    #[serde(default)]
    pub p99_us: Option<f64>,
    /// Whether the true `p99_us` may be larger: requests that timed out or were cut off are among them.
    #[serde(default)]
    pub p99_at_least: bool,
    /// CPU that its load used, in percent of one core. None where its part did not come to its end.
    #[serde(default)]
    pub cpu_percent: Option<f64>,
    /// Its clock less the coordinator's, before the load.
    pub clock_offset_us: Option<f64>,
    /// By how much that may be wrong.
    pub clock_bound_us: Option<f64>,
    /// How late its first request began, on the coordinator's clock: after the moment at which all were
    /// to begin, in an open loop after its first arrival by the schedule. None where it made none, or
    /// where it isn't known.
    pub first_start_us: Option<f64>,
    /// How much later its first request began than that of the agent that began first.
    #[serde(default)]
    pub start_skew_us: Option<f64>,
    /// `done`, `stopped`, `agent-ended`, `lease-ended`, `failed` or `lost`.
    pub ended_because: String,
}
