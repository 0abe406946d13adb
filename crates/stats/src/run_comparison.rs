//! Comparison of two runs as a document, schema `prony.runs/1`.

use prony_record::Finding;
use serde::{Deserialize, Serialize};

use crate::comparison::{Effect, Verdict, WithheldBecause};
use crate::design::Levels;
use crate::gate_result::{GateOutcome, GateResult};
use crate::metric::Metric;

/// Value of `schema` in new documents.
pub const RUNS_SCHEMA: &str = "prony.runs/1";

/// Comparison of two runs. Readers ignore unknown keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsDocument {
    /// Always [`RUNS_SCHEMA`].
    pub schema: String,
    /// The older run, which is the reference.
    pub old: RunInfo,
    /// The newer run, which the verdicts are about.
    pub new: RunInfo,
    /// Largest change that counts as no difference, as a fraction (0.02 for 2%).
    pub margin: f64,
    /// Differences between the two runs, apart from their results.
    pub differences: Vec<Difference>,
    /// Facts that are not stored, so that they may differ.
    #[serde(default)]
    pub unrecorded: Vec<Unrecorded>,
    /// Comparisons of the variants that both runs have, on the family's metrics, with verdicts.
    pub comparisons: Vec<RunComparison>,
    /// Comparisons on metrics outside the family, without verdicts.
    pub described: Vec<RunComparison>,
    /// Change, between the two runs, in the ratio of each variant to its baseline in the same run.
    pub relative: Vec<RelativeChange>,
    /// Variants that only the old run has.
    pub only_old: Vec<String>,
    /// Variants that only the new run has.
    pub only_new: Vec<String>,
    /// Results of the gates.
    #[serde(default)]
    pub gates: Vec<GateResult>,
    /// Findings of either run that qualify the results.
    pub findings: Vec<RunFinding>,
}

/// Properties of one of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name in sentences: `A`, `B`, `stored` or `new`.
    pub label: String,
    /// Path that the run was read from.
    pub source: String,
    /// The experiment's name; empty for single loads.
    pub name: String,
    /// Start of the run's first load (UTC, RFC 3339); empty if unknown.
    pub started_at: String,
    /// Unit of the samples: `block` for an experiment, `load` for single loads.
    pub unit: String,
    /// Number of blocks or loads.
    pub count: u32,
}

/// A property that differs between the two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Category of the property.
    pub part: DifferencePart,
    /// Name of the property, such as `kernel` or `connections`.
    pub name: String,
    /// Value in the old run; `None` if the run lacks the property.
    pub old: Option<String>,
    /// Value in the new run; `None` if the run lacks the property.
    pub new: Option<String>,
}

/// Facts about one or both runs that are not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum Unrecorded {
    /// Files that the commands of services name, and Git states: an older version stored
    /// the runs.
    Sources {
        /// Labels of the runs.
        runs: Vec<String>,
    },
    /// Contents of the files that the plan names: an older version stored the runs.
    PlanFiles {
        /// Labels of the runs.
        runs: Vec<String>,
    },
    /// Files that the commands of these services don't name. The Git state of the working directory
    /// is not known.
    UnnamedFiles {
        /// Names of the services.
        services: Vec<String>,
    },
    /// Files that the commands of these services don't name and that are not committed.
    UntrackedFiles {
        /// Names of the services.
        services: Vec<String>,
    },
    /// Contents of shared libraries, and of packages outside of the working directories.
    Libraries,
    /// Contents of lists, bodies and data files of loads.
    LoadFiles,
    /// Programs of servers that prony did not start.
    OtherServers,
}

/// Category of a difference between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferencePart {
    /// The version of prony.
    Prony,
    /// The machine and its settings.
    Machine,
    /// The programs of the services.
    Services,
    /// Settings of named places.
    Places,
    /// Settings of the load.
    Load,
    /// Protocols that client and server negotiated.
    Negotiated,
    /// The plan's text, line by line.
    Plan,
}

impl DifferencePart {
    /// Returns the name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            DifferencePart::Prony => "prony",
            DifferencePart::Machine => "machine",
            DifferencePart::Services => "services",
            DifferencePart::Places => "places",
            DifferencePart::Load => "load",
            DifferencePart::Negotiated => "negotiated",
            DifferencePart::Plan => "plan",
        }
    }
}

/// Comparison of one variant between two runs, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunComparison {
    /// Levels of the variant.
    pub levels: Levels,
    /// Name of the variant in sentences.
    pub name: String,
    /// Metric that is compared.
    pub metric: Metric,
    /// Ratio of the new run's value to the old run's (a difference for metrics that are compared by
    /// difference), with its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// Mean of the old run's trials; geometric if runs are compared by ratio.
    pub old: Option<f64>,
    /// Mean of the new run's trials.
    pub new: Option<f64>,
    /// Number of trials in the old run that have a value.
    pub old_trials: u32,
    /// Number of trials in the new run that have a value.
    pub new_trials: u32,
    /// Verdict on the new run; `None` for a metric outside the family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// `failed` if the new run is certainly worse by more than the margin, `passed` if that is
    /// ruled out. `None` for a metric outside the family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression: Option<GateOutcome>,
    /// Reason why the verdict is withheld. `None` for all other verdicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<RunWithheld>,
    /// The comparison as one sentence, composed from the other fields; empty until then.
    pub text: String,
}

/// Reason why there is no verdict on the difference between two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunWithheld {
    /// A run itself withheld its verdict.
    Own {
        /// Label of the run.
        run: String,
        /// The run's own reason.
        because: WithheldBecause,
    },
    /// Trials of a run have no usable value.
    Unmeasured {
        /// Label of the run.
        run: String,
        /// Numbers of the trials.
        trials: Vec<u32>,
    },
    /// An interval needs more trials.
    TooFew {
        /// Number of trials in the old run.
        old: u32,
        /// Number of trials in the new run.
        new: u32,
    },
}

/// Change, from the old run to the new one, in the ratio of a variant to its baseline within a run.
/// Influences that all blocks of a run share (a warmer machine, a newer kernel) cancel out unless
/// they affect the two variants differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelativeChange {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Name of the variant in sentences.
    pub name: String,
    /// Name of the variant's baseline in sentences.
    pub against_name: String,
    /// Metric that is compared.
    pub metric: Metric,
    /// The variant relative to its baseline in the old run: a ratio or a difference.
    pub old: f64,
    /// The variant relative to its baseline in the new run.
    pub new: f64,
    /// Change from the old value to the new one (a ratio, or a difference), with its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// The comparison as one sentence, composed from the other fields; empty until then.
    pub text: String,
}

/// A finding of one of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFinding {
    /// Label of the run that has the finding.
    pub run: String,
    /// The finding itself.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Labels and properties of the two runs, as input of the document.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPairInfo {
    /// Older run, which is the reference.
    pub old: RunInfo,
    /// Newer run, which the verdicts are about.
    pub new: RunInfo,
    /// Differences between the two runs, apart from their results.
    pub differences: Vec<Difference>,
    /// Facts that are not stored.
    pub unrecorded: Vec<Unrecorded>,
    /// Findings of both runs.
    pub findings: Vec<RunFinding>,
}
