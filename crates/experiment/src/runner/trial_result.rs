//! Stored result of a trial.

use std::collections::BTreeMap;

use prony_record::{Finding, FindingId, LoadAbort, MemoryEvents, Record, Throttling};
use prony_stats::capacity::SearchReport;
use prony_stats::{ServiceCosts, Values};
use serde::{Deserialize, Serialize};

use super::resource_use::ResourceUse;
use super::responses::ResponseDigests;

/// Result of a trial, as stored in `trial.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Block number, from 1.
    pub block: u32,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// Position of the trial within its block, from 0.
    pub position: usize,
    /// Measured metrics.
    pub values: Values,
    /// Telemetry values from which findings are derived.
    pub telemetry: TrialTelemetry,
    /// Available cores and links, and their usage.
    #[serde(default, rename = "capacity")]
    pub resources: ResourceUse,
    /// Responses of the variant, collected before the load.
    #[serde(rename = "answers")]
    pub responses: ResponseDigests,
    /// For each service on another machine, the name of the agent that runs it.
    #[serde(default)]
    pub hosts: BTreeMap<String, String>,
    /// Findings about the services during the trial.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Counted slices of an interleaved block, in the order of their rounds; empty if the load ran
    /// without interruption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceResult>,
    /// Capacity search with all its probes; `None` if the trial is a single load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchReport>,
    /// CPU time per request by function, of each service with a sampling profile.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, ServiceCosts>,
    /// Time for which threads waited per request, by function and reason, of the same services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, ServiceCosts>,
    /// Record of the load, which is stored separately as `record.json`.
    #[serde(skip)]
    pub record: Option<Record>,
}

impl TrialResult {
    /// Returns the condition that ended the trial's load, if one did.
    pub(crate) fn aborted(&self) -> Option<&LoadAbort> {
        self.record.as_ref()?.aborted.as_ref()
    }

    /// Returns true if a machine of the trial was lost.
    pub(crate) fn lost_a_machine(&self) -> bool {
        let of_load = self.record.iter().flat_map(|record| &record.findings);
        let mut all = self.findings.iter().chain(of_load);
        all.any(|finding| finding.id == FindingId::AgentLost)
    }
}

/// One slice of an interleaved load. In each round of a block, every variant has one slice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SliceResult {
    /// Round number within the block, from 0.
    pub round: u32,
    /// Position of the slice within its round, from 0.
    pub position: u32,
    /// Duration of the counted part in seconds.
    pub length_s: f64,
    /// Successful requests in the counted part.
    pub ok: u64,
    /// Failed requests in the counted part.
    pub failed: u64,
    /// Mean response time of successful requests in microseconds; `None` if there are none.
    pub mean_response_us: Option<f64>,
    /// Time in seconds from the end of the slice to the end of its last request.
    pub drain_s: f64,
}

/// Telemetry values of a trial from which findings are derived.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialTelemetry {
    /// CPU time of all services, in percent of one core.
    pub services_percent: f64,
    /// Number of cores that the services may use together. It is 1 if a service may use every core,
    /// and 0 if prony started no service.
    pub services_cores: usize,
    /// CPU time of processes outside the experiment, in percent of one core. It is 0 if prony did
    /// not start a server of the experiment, because that server can't be distinguished from such
    /// processes.
    pub foreign_percent: f64,
    /// CPU time that the hypervisor gave to other guests, in percent of one core.
    pub steal_percent: f64,
    /// Name of the process outside the experiment that used the most CPU time.
    pub top_foreign: Option<String>,
    /// Resource usage of each service, by name.
    #[serde(default)]
    pub services: BTreeMap<String, ServiceUse>,
}

/// Resource usage of one service in a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceUse {
    /// CPU time in percent of one core.
    pub cpu_percent: f64,
    /// CPU time per request in microseconds; `None` for a capacity search and for loads that are
    /// too short.
    pub cpu_us_per_request: Option<f64>,
    /// CPU quota of the service's control group during the trial; `None` without a quota.
    pub throttling: Option<Throttling>,
    /// Events at the memory limit of the service's control group during the trial; `None` without a
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_events: Option<MemoryEvents>,
}
