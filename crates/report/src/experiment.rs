//! A stored experiment as input of reports.

use std::collections::BTreeMap;

use prony_record::Record;
use prony_record::sampling::SamplingProfile;
use prony_stats::{Levels, Values, VerdictDocument};

/// A stored experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// Content of `verdict.json`.
    pub verdict: VerdictDocument,
    /// Content of `plan.toml` as run; empty if the file is missing.
    pub plan: String,
    /// Hash of each file that the plan names, by its path in the experiment's folder; `None` if an
    /// older version stored the experiment.
    pub plan_files: Option<BTreeMap<String, String>>,
    /// Content of `environment.json`; null if the file is missing.
    pub environment: serde_json::Value,
    /// All trials with a record, ordered by block and variant.
    pub trials: Vec<Trial>,
}

/// One trial of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Number of the block, from 1.
    pub block: u32,
    /// The index of the variant in the verdict.
    pub variant: usize,
    /// The position within the block, from 0; `None` if it wasn't stored.
    pub position: Option<usize>,
    /// Values of the measured metrics. Without telemetry, they include only the metrics that are
    /// computed from the record.
    pub values: Values,
    /// Content of `telemetry.csv`; empty if the file is missing.
    pub telemetry: String,
    /// The slices of an interleaved block; empty for a sequential trial.
    pub slices: Vec<TrialSlice>,
    /// The capacity search; `None` if the trial was one load.
    pub search: Option<TrialSearch>,
    /// Sampling profiles by service; empty without profiles.
    pub profiles: BTreeMap<String, TrialProfile>,
    /// The record of the load. For a search, this is the record of the probe nearest to the
    /// capacity.
    pub record: Record,
}

/// A sampling profile of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialProfile {
    /// CPU time per request in microseconds of all samples together.
    pub us_per_request: f64,
    /// The profile.
    pub profile: SamplingProfile,
}

/// The data of a capacity search that reports need.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct TrialSearch {
    /// All probes, in order.
    pub probes: Vec<TrialProbe>,
}

/// A probe of a capacity search.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct TrialProbe {
    /// Offered requests per second; `None` for a closed loop.
    pub rate_per_s: Option<f64>,
    /// The value of each goal's metric.
    #[serde(default)]
    pub goals: Vec<ProbeReading>,
}

/// The value of a goal's metric in a probe.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ProbeReading {
    /// The goal as typed, such as `p99<50ms`.
    pub goal: String,
    /// The value: microseconds, or a share from 0 to 1.
    pub value: f64,
}

/// The data that reports need about one slice of a trial in an interleaved block.
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
pub struct TrialSlice {
    /// The round within the block, from 0.
    pub round: u32,
    /// The position within the round, from 0.
    pub position: u32,
    /// Length of the counted part in seconds.
    pub length_s: f64,
    /// Successful requests in the counted part.
    pub ok: u64,
    /// Failed requests in the counted part.
    pub failed: u64,
    /// Mean response time of the successful requests in microseconds; `None` if no request
    /// succeeded.
    #[serde(default)]
    pub mean_response_us: Option<f64>,
    /// Time from the end of the slice until its last request finished, in seconds.
    pub drain_s: f64,
}

impl Experiment {
    /// An experiment without its plan, environment and trials.
    pub fn of_verdict(verdict: VerdictDocument) -> Experiment {
        Experiment {
            verdict,
            plan: String::new(),
            plan_files: None,
            environment: serde_json::Value::Null,
            trials: Vec::new(),
        }
    }

    /// Returns true if the load alternated between the variants.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.trials.iter().any(|trial| !trial.slices.is_empty())
    }

    /// Returns true if the trials are capacity searches.
    pub(crate) fn is_search(&self) -> bool {
        !self.verdict.goals.is_empty()
    }

    /// The trial whose load was ended early by a condition, if any.
    pub fn aborted_trial(&self) -> Option<&Trial> {
        let mut trials = self.trials.iter();
        trials.find(|trial| trial.record.aborted.is_some())
    }

    /// The trials of one variant in complete blocks, ordered by block. Blocks that were
    /// interrupted, or in which a condition ended a load, are not part of the verdict, so charts
    /// omit them too.
    pub fn trials_of(&self, variant: usize) -> Vec<&Trial> {
        let variants = self.verdict.variants.len();
        let aborted = self.aborted_trial().map(|trial| trial.block);
        let is_complete = |block: u32| {
            aborted != Some(block)
                && (0..variants).all(|v| {
                    let mut trials = self.trials.iter();
                    trials.any(|trial| trial.block == block && trial.variant == v)
                })
        };
        let mut trials: Vec<&Trial> = self
            .trials
            .iter()
            .filter(|trial| trial.variant == variant && is_complete(trial.block))
            .collect();
        trials.sort_by_key(|trial| trial.block);
        trials
    }

    /// Finds the variant whose name or levels are equal to a folder's name, ignoring separators.
    pub(crate) fn variant_named(verdict: &VerdictDocument, name: &str) -> Option<usize> {
        let wanted = letters(name);
        let by = |key: &dyn Fn(&Levels, &str) -> String| {
            let mut variants = verdict.variants.iter();
            variants.position(|variant| letters(&key(&variant.levels, &variant.name)) == wanted)
        };
        by(&|_, name| name.to_owned()).or_else(|| {
            by(&|levels, _| {
                levels
                    .values()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join("-")
            })
        })
    }
}

/// Removes the characters that don't occur in folder names, and converts the others to lowercase.
fn letters(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric() || *c == '.')
        .flat_map(char::to_lowercase)
        .collect()
}
