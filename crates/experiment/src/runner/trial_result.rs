//! The stored result of a trial.

use std::collections::BTreeMap;

use prony_record::{Finding, FindingId, LoadAbort, Record};
use prony_stats::Values;
use serde::{Deserialize, Serialize};

use super::resource_use::ResourceUse;
use super::responses::ResponseDigests;
use crate::capacity::SearchReport;

/// Result of a trial, as stored in `trial.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Block, from 1.
    pub block: u32,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// Position within the block, from 0.
    pub position: usize,
    /// Measured metrics.
    pub values: Values,
    /// Figures of the telemetry from which findings are derived.
    pub telemetry: TrialTelemetry,
    /// Available cores and link rates, and how much of them was used.
    #[serde(default, rename = "capacity")]
    pub resources: ResourceUse,
    /// Responses of the variant before the load.
    #[serde(rename = "answers")]
    pub responses: ResponseDigests,
    /// For each service on another machine, the name of its agent.
    #[serde(default)]
    pub hosts: BTreeMap<String, String>,
    /// Findings about the services during the trial.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// The counted slices of an interleaved block in the order of their rounds; empty for a trial whose
    /// load ran without interruption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceResult>,
    /// The capacity search with all its probes; absent if the trial is one load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchReport>,
    /// Record of the load, stored separately as `record.json`.
    #[serde(skip)]
    pub record: Option<Record>,
}

impl TrialResult {
    /// The condition that ended the trial's load, if one did.
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
    /// Round within the block, from 0.
    pub round: u32,
    /// Position within the round, from 0.
    pub position: u32,
    /// Length of the counted part in seconds.
    pub length_s: f64,
    /// Requests of the counted part that succeeded.
    pub ok: u64,
    /// Requests of the counted part that failed.
    pub failed: u64,
    /// Mean response time of the successful requests in microseconds; `None` without one.
    pub mean_response_us: Option<f64>,
    /// Time after the slice until its last request had ended, in seconds.
    pub drain_s: f64,
}

/// Figures of a trial's telemetry from which findings are derived.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialTelemetry {
    /// CPU of all services, percent of one core.
    pub services_percent: f64,
    /// Number of cores that the services may use together; 1 if any of them may use every core, 0
    /// if prony started none of them.
    pub services_cores: usize,
    /// CPU of processes outside the experiment, percent of one core. 0 if prony did not start a server
    /// of the experiment, because that server can't be distinguished from them.
    pub foreign_percent: f64,
    /// CPU taken by other guests of the hypervisor, percent of one core.
    pub steal_percent: f64,
    /// Name of the process outside the experiment that used most CPU.
    pub top_foreign: Option<String>,
}
