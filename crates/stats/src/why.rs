//! What moved with a difference, as `verdict.json` carries it.

use serde::{Deserialize, Serialize};

use crate::comparison::Effect;
use crate::design::Levels;
use crate::metric::Metric;

/// What was seen beside one difference between a variant and its baseline. It says what moved along,
/// never that it was the cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// The variant.
    pub levels: Levels,
    /// Its baseline.
    pub against: Levels,
    /// What sentences call the variant.
    pub name: String,
    /// What they call its baseline.
    pub against_name: String,
    /// The metrics of the comparisons that it is about: none of them is `equivalent`, and all point
    /// the same way.
    pub metrics: Vec<Metric>,
    /// The whole in a few sentences.
    pub text: String,
    /// What set the speed of the variant, then of its baseline.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Findings that only one of the two has, and that may explain a difference.
    #[serde(default)]
    pub findings: Vec<OneSided>,
    /// What moved, in the order of docs/method.md: the best candidates first.
    #[serde(default)]
    pub moved: Vec<Moved>,
    /// What did not move: the whole interval lies inside the plan's margin.
    #[serde(default)]
    pub same: Vec<Metric>,
    /// What is too noisy to say.
    #[serde(default)]
    pub unclear: Vec<Metric>,
}

/// What set a variant's speed, as far as it was watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What sentences call the variant.
    pub name: String,
    /// What was at its limit.
    pub kind: LimitKind,
    /// The same as one sentence, with the figures.
    pub text: String,
}

/// What may set the speed of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The cores that services may use were full.
    ServerCores,
    /// Cores that the services use were full, or so busy that services may have waited for them, and
    /// other processes had a part in that.
    Machine,
    /// The load generator was at its own limit.
    Generator,
    /// The link that the target sends over was full.
    Link,
    /// An open loop's schedule, which was kept.
    Schedule,
    /// None of these: requests waited for something that isn't watched.
    Waiting,
    /// The services were not watched.
    Unknown,
}

/// A finding that one of two variants has and the other has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneSided {
    /// The finding.
    pub id: String,
    /// What sentences call the variant that has it.
    pub name: String,
}

/// One metric that moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// What moved.
    pub metric: Metric,
    /// How that goes with the difference in speed.
    pub part: Part,
    /// The variant's mean over the blocks, geometric where a ratio is given.
    pub value: f64,
    /// Its baseline's.
    pub against_value: f64,
    /// By how much, with its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// Complete blocks in which both have a value.
    pub blocks: u32,
    /// The same as one sentence.
    pub text: String,
}

/// How a movement goes with a difference in speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The slower of the two needs more of a cost, or has less of a saving: it could explain it.
    With,
    /// It bears on no speed by itself, or no difference is established.
    Aside,
    /// The slower of the two needs less of a cost: it can't explain it.
    Against,
}
