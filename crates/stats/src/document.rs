//! The document `verdict.json`, schema `prony.verdict/1`.

use prony_record::Finding;
use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Description};
use crate::design::{Design, Levels};
use crate::effects::FactorEffect;
use crate::evaluate::Evaluation;
use crate::looks::Look;
use crate::scaling::{self, Scaling};
use crate::summary::VariantSummary;
use crate::why::Why;

/// The `schema` of the documents written.
pub const VERDICT_SCHEMA: &str = "prony.verdict/1";

/// Everything an experiment concluded. Readers ignore keys that they don't know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictDocument {
    /// [`VERDICT_SCHEMA`].
    pub schema: String,
    /// The plan's name.
    pub name: String,
    /// The plan's question.
    #[serde(default)]
    pub question: String,
    /// The seed of the order.
    pub seed: u64,
    /// Complete blocks.
    pub blocks: u32,
    /// For each block the names of the variants in the order in which they ran.
    pub order: Vec<Vec<String>>,
    /// The levels that the baseline fixes.
    pub baseline: Levels,
    /// What counts as no difference, as a share.
    #[serde(default)]
    pub margin: f64,
    /// Each variant alone.
    pub variants: Vec<VariantSummary>,
    /// The family, each with its verdict.
    pub comparisons: Vec<Comparison>,
    /// The comparisons on all other metrics, without verdicts.
    #[serde(default)]
    pub described: Vec<Description>,
    /// For each difference, what moved with it. Empty in documents of earlier versions.
    #[serde(default)]
    pub why: Vec<Why>,
    /// Main effects and interactions.
    #[serde(default)]
    pub effects: Vec<FactorEffect>,
    /// Along each factor whose levels are numbers, how the metrics of the family grow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<Scaling>,
    /// The looks that were taken; `--resume` goes on from them.
    #[serde(default)]
    pub looks: Vec<Look>,
    /// Whether `host_softirq_us_per_request` is part of the CPU time of processes, too, so that the
    /// two must not be added up; absent if that is unknown, and then they must not be either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirq_included: Option<bool>,
    /// What qualifies the verdicts.
    pub findings: Vec<Finding>,
}

/// What the document says of the experiment beside its results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct About {
    /// The plan's name.
    pub name: String,
    /// The plan's question.
    pub question: String,
    /// The seed of the order.
    pub seed: u64,
    /// For each block the names of the variants in the order in which they ran.
    pub order: Vec<Vec<String>>,
}

impl VerdictDocument {
    /// Joins what an experiment was and what it gave. `why` and `softirq_included` are left empty.
    pub fn new(
        about: About,
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
            scaling: scaling::of(design, &evaluation.variants),
            variants: evaluation.variants,
            comparisons: evaluation.comparisons,
            described: evaluation.described,
            why: Vec::new(),
            effects: evaluation.effects,
            looks: evaluation.looks,
            softirq_included: None,
            findings,
        }
    }
}
