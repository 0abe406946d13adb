//! The document `verdict.json`, schema `prony.verdict/1`.

use prony_record::Finding;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use crate::comparison::{Comparison, Description, Verdict};
use crate::design::{Design, Levels};
use crate::effects::FactorEffect;
use crate::evaluate::Evaluation;
use crate::explanation::Explanation;
use crate::function_costs::FunctionTable;
use crate::gate_result::GateResult;
use crate::looks::{Look, stored_looks};
use crate::quantile_band::DistributionDifference;
use crate::revision::BuiltRevision;
use crate::round_comparison::RoundComparison;
use crate::scaling::{self, Scaling};
use crate::summary::VariantSummary;
use crate::trial_mode::TrialMode;

/// Value of `schema` in new documents.
pub const VERDICT_SCHEMA: &str = "prony.verdict/1";

/// Conclusions of an experiment. Readers ignore unknown keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictDocument {
    /// Always [`VERDICT_SCHEMA`].
    pub schema: String,
    /// The plan's name.
    pub name: String,
    /// The plan's question.
    #[serde(default)]
    pub question: String,
    /// Seed that determines the order of trials.
    pub seed: u64,
    /// Number of complete blocks.
    pub blocks: u32,
    /// Names of each block's variants, in the order in which they ran.
    pub order: Vec<Vec<String>>,
    /// The levels that the baseline fixes.
    pub baseline: Levels,
    /// Largest change that counts as no difference, as a fraction (0.02 for 2%).
    #[serde(default, deserialize_with = "stored_margin")]
    pub margin: f64,
    /// Goals of the capacity searches, such as `p99<50ms`; empty if the trials aren't searches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<String>,
    /// Summary of each variant.
    pub variants: Vec<VariantSummary>,
    /// Comparisons of the family, with verdicts.
    pub comparisons: Vec<Comparison>,
    /// Comparisons on metrics outside the family, without verdicts.
    #[serde(default)]
    pub described: Vec<Description>,
    /// Explanation of each difference: the metrics that changed with it. Empty in documents written
    /// by earlier versions.
    #[serde(default)]
    pub why: Vec<Explanation>,
    /// CPU time per request by function, of each service with a sampling profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionTable>,
    /// CPU time per request by program and library, of the same services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<FunctionTable>,
    /// Time for which threads waited per request, by function and reason, of the same services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<FunctionTable>,
    /// Main effects and interactions.
    #[serde(default)]
    pub effects: Vec<FactorEffect>,
    /// Scaling of the family's metrics with each numeric factor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scaling>,
    /// Diagnostic comparisons by the rounds of interleaved blocks, without verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<RoundComparison>,
    /// Differences between the distributions of response times, by percentile, without verdicts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distribution_differences: Vec<DistributionDifference>,
    /// All looks so far; `--resume` continues from them.
    #[serde(default, deserialize_with = "stored_looks")]
    pub looks: Vec<Look>,
    /// The revisions that were built, by variant and service; empty without `build` in the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<BuiltRevision>,
    /// Order of the trials within a block: interleaved or sequential. `None` in documents written
    /// by versions that could not interleave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial_mode: Option<TrialMode>,
    /// True if `host_softirq_us_per_request` is already included in the processes' CPU time. The
    /// two values may be added only if this is `Some(false)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirq_included: Option<bool>,
    /// Exit status of the command that ran the experiment. `None` while the experiment runs, and in
    /// documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_status: Option<u8>,
    /// Results of the conditions of that command, including regressions against the run that
    /// `--against` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GateResult>,
    /// Reason why the experiment ended early: an error, or an interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    /// Findings that qualify the verdicts.
    pub findings: Vec<Finding>,
}

/// Reads a margin. It is 0 in documents of earlier versions.
fn stored_margin<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let margin = f64::deserialize(from)?;
    if (0.0..1.0).contains(&margin) {
        Ok(margin)
    } else {
        Err(D::Error::invalid_value(
            Unexpected::Float(margin),
            &"a margin of at least 0 and below 1",
        ))
    }
}

/// Properties of an experiment other than its results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExperimentInfo {
    /// The plan's name.
    pub name: String,
    /// The plan's question.
    pub question: String,
    /// Seed that determines the order of trials.
    pub seed: u64,
    /// Names of each block's variants, in the order in which they ran.
    pub order: Vec<Vec<String>>,
}

impl VerdictDocument {
    /// Returns true if a verdict is withheld. A command that runs or prints the experiment then
    /// exits with status 1.
    pub fn is_withheld(&self) -> bool {
        self.has(Verdict::Withheld)
    }

    /// Returns true if a verdict is undecided.
    pub fn is_undecided(&self) -> bool {
        self.has(Verdict::Undecided)
    }

    fn has(&self, verdict: Verdict) -> bool {
        self.comparisons.iter().any(|one| one.verdict == verdict)
    }

    /// Combines an experiment's properties with its evaluation. The caller fills in `why`,
    /// `functions`, `modules`, `waits`, `rounds`, `distribution_differences`, `revisions`,
    /// `trial_mode` and `softirq_included`.
    pub fn new(
        about: ExperimentInfo,
        design: &Design,
        evaluation: Evaluation,
        findings: Vec<Finding>,
    ) -> VerdictDocument {
        VerdictDocument {
            schema: VERDICT_SCHEMA.to_owned(),
            name: about.name,
            question: about.question,
            seed: about.seed,
            blocks: evaluation.blocks,
            order: about.order,
            baseline: design.baseline.clone(),
            margin: design.margin,
            goals: design.goals.clone(),
            scaling: scaling::scaling_lines(design, &evaluation.variants),
            variants: evaluation.variants,
            comparisons: evaluation.comparisons,
            described: evaluation.described,
            why: Vec::new(),
            rounds: Vec::new(),
            distribution_differences: Vec::new(),
            functions: Vec::new(),
            modules: Vec::new(),
            waits: Vec::new(),
            effects: evaluation.effects,
            looks: evaluation.looks,
            revisions: Vec::new(),
            trial_mode: None,
            softirq_included: None,
            exit_status: None,
            gates: Vec::new(),
            ended_early: None,
            findings,
        }
    }
}
