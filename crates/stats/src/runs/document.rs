//! The document of two runs against one another, schema `prony.runs/1`.

use prony_record::Finding;
use serde::{Deserialize, Serialize};

use crate::comparison::{Effect, Verdict};
use crate::design::Levels;
use crate::gate::{GateResult, Ruling};
use crate::metric::Metric;

/// The `schema` of the documents written.
pub const RUNS_SCHEMA: &str = "prony.runs/1";

/// Two runs against one another. Readers ignore keys that they don't know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsDocument {
    /// [`RUNS_SCHEMA`].
    pub schema: String,
    /// What the new one is held against.
    pub old: RunAbout,
    /// What the verdicts are about.
    pub new: RunAbout,
    /// What counts as no difference, as a share.
    pub margin: f64,
    /// What else differs between the two, beside the results.
    pub differences: Vec<Difference>,
    /// Each variant that both have, on each metric of the family, with its verdict.
    pub comparisons: Vec<Between>,
    /// The same on all other metrics, without verdicts.
    pub described: Vec<Between>,
    /// How each variant stood to its baseline of the same run, then and now.
    pub relative: Vec<Relative>,
    /// Variants that only the old one has.
    pub only_old: Vec<String>,
    /// Variants that only the new one has.
    pub only_new: Vec<String>,
    /// What became of the conditions that were given.
    #[serde(default)]
    pub gates: Vec<GateResult>,
    /// What qualifies the results, of either run.
    pub findings: Vec<RunFinding>,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunAbout {
    /// What sentences call it: `A`, `B`, `stored`, `new`.
    pub label: String,
    /// Where it was read from.
    pub source: String,
    /// The experiment's name; empty for loads.
    pub name: String,
    /// When its first load began, UTC, RFC 3339; empty where that isn't known.
    pub started_at: String,
    /// What was counted: `block` of an experiment, or `load`.
    pub unit: String,
    /// How many of them there are.
    pub count: u32,
}

/// One thing that is not the same in the two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// What kind of thing it is.
    pub part: DifferencePart,
    /// Its name, such as `kernel` or `connections`.
    pub name: String,
    /// What the old one has; none where it has nothing of that name.
    pub old: Option<String>,
    /// What the new one has.
    pub new: Option<String>,
}

/// Where two runs differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferencePart {
    /// The version of prony.
    Prony,
    /// The machine and its settings.
    Machine,
    /// The programs that the services ran.
    Services,
    /// Settings of named places.
    Places,
    /// What was asked of the load generator.
    Load,
    /// What client and server agreed on.
    Negotiated,
    /// The plan's text, line by line.
    Plan,
}

impl DifferencePart {
    /// The word in JSON and CSV.
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

/// A variant in both runs, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// The variant.
    pub levels: Levels,
    /// What sentences call it.
    pub name: String,
    /// What is compared.
    pub metric: Metric,
    /// The new one's value over the old one's, and the interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// The mean of the old one's trials: the geometric one where ratios are compared.
    pub old: Option<f64>,
    /// The mean of the new one's.
    pub new: Option<f64>,
    /// Trials of the old one that have a value.
    pub old_trials: u32,
    /// Trials of the new one that have a value.
    pub new_trials: u32,
    /// What can be said; none for a metric outside the family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Whether the new one is worse by more than the margin: `failed` where that is established,
    /// `passed` where it is ruled out. None for a metric outside the family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regression: Option<Ruling>,
    /// The same as one sentence.
    pub text: String,
}

/// A variant against its baseline of the same run, in both runs. What both runs' blocks shared (a
/// warmer machine, a newer kernel) cancels, unless it changes one variant more than the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relative {
    /// The variant.
    pub levels: Levels,
    /// Its baseline.
    pub against: Levels,
    /// What sentences call the variant.
    pub name: String,
    /// What they call its baseline.
    pub against_name: String,
    /// What is compared.
    pub metric: Metric,
    /// How the variant stood to its baseline in the old run: a ratio, or a difference.
    pub old: f64,
    /// How it stands in the new one.
    pub new: f64,
    /// The new over the old, and the interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// The same as one sentence.
    pub text: String,
}

/// A finding, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFinding {
    /// The run's label.
    pub run: String,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
}

/// What the two runs are called and what differs between them, for the document.
#[derive(Debug, Clone, PartialEq)]
pub struct RunsAbout {
    /// The old one.
    pub old: RunAbout,
    /// The new one.
    pub new: RunAbout,
    /// What else differs.
    pub differences: Vec<Difference>,
    /// Findings of both.
    pub findings: Vec<RunFinding>,
}
