//! Explanation of a difference: metrics that changed together with it, as stored in `verdict.json`.

use prony_record::sampling::SampledFunction;
use serde::{Deserialize, Serialize};

use crate::comparison::Effect;
use crate::design::Levels;
use crate::metric::Metric;

/// Observations that accompany a difference between a variant and its baseline. They are
/// correlations, not proven causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Name of the variant in sentences.
    pub name: String,
    /// Name of the variant's baseline in sentences.
    pub against_name: String,
    /// Metrics of the comparisons that this entry explains. None of them is `equivalent`, and all
    /// have the same direction.
    pub metrics: Vec<Metric>,
    /// Summary in a few sentences.
    pub text: String,
    /// Bottleneck of the variant, followed by the bottleneck of its baseline.
    #[serde(default)]
    pub limits: Vec<Bottleneck>,
    /// Findings that only one of the two variants has and that may explain the difference.
    #[serde(default)]
    pub findings: Vec<OneSidedFinding>,
    /// The division of the change in the request rate into an explained part and the rest. `None`
    /// if the entry doesn't concern the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_parts: Option<RateParts>,
    /// Metrics that moved, the best candidates first. docs/method.md documents the order.
    #[serde(default)]
    pub moved: Vec<MovedMetric>,
    /// Functions whose CPU time per request certainly changed, the largest certain change first;
    /// empty without sampling profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<ChangedFunction>,
    /// Functions that certainly wait longer or shorter per request, in the same order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<ChangedFunction>,
    /// Metrics that didn't move: the whole interval is within the plan's margin.
    #[serde(default)]
    pub same: Vec<Metric>,
    /// Metrics whose intervals are too wide to determine whether they moved.
    #[serde(default)]
    pub unclear: Vec<Metric>,
}

/// Returns the first moved metric that is CPU time of the services or instructions per request.
/// Such a cost can differ clearly even if the speed is undecided.
pub fn changed_cost(moved: &[MovedMetric]) -> Option<&MovedMetric> {
    let of_all = |moved: &&MovedMetric| moved.service.is_none();
    let mut of_all = moved.iter().filter(of_all);
    of_all.find(|moved| is_request_cost(moved.metric))
}

/// Returns true for CPU time of the services per request, and for the instructions executed in it.
pub fn is_request_cost(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::ServerCpuUsPerRequest
            | Metric::ServerCpuUserUsPerRequest
            | Metric::ServerCpuSystemUsPerRequest
            | Metric::InstructionsPerRequest
    )
}

/// Resource that limited a variant's speed, as far as telemetry shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Name of the variant in sentences.
    pub name: String,
    /// Resource that limited the speed.
    pub kind: BottleneckKind,
    /// The bottleneck as one sentence, with the measured values.
    pub text: String,
}

/// Resources that can limit the speed of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BottleneckKind {
    /// The cores available to the services were fully used.
    ServerCores,
    /// Other processes competed with the services for the CPU: the cores were fully used, or
    /// services may have had to wait for a core.
    Machine,
    /// The load generator reached its own limit.
    Generator,
    /// The target's outgoing link was saturated.
    Link,
    /// The open-loop schedule was met, so the schedule determined the rate.
    Schedule,
    /// No observed resource was the limit: requests were waiting for something that isn't observed.
    Waiting,
    /// There is no telemetry of the services.
    Unknown,
}

/// Finding that only one of the two variants has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneSidedFinding {
    /// Identifier of the finding.
    pub id: String,
    /// Name, in sentences, of the variant with the finding.
    pub name: String,
}

/// One metric that moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MovedMetric {
    /// Metric that moved.
    pub metric: Metric,
    /// Service whose part of the metric moved; `None` if it is the metric of all services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Relation between this metric and the difference in speed.
    pub part: MovementRole,
    /// Mean of the variant over the blocks, as in its summary.
    pub value: f64,
    /// Mean of the variant's baseline over the blocks.
    pub against_value: f64,
    /// Size of the change, with its interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// Number of complete blocks in which both variant and baseline have a value.
    pub blocks: u32,
    /// The comparison as one sentence.
    pub text: String,
}

/// One function whose CPU time per request changed, or which waits longer or shorter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangedFunction {
    /// Service that the function belongs to; `None` if only one service has a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The function.
    #[serde(flatten)]
    pub function: SampledFunction,
    /// Difference of the CPU time or waiting time per request in microseconds.
    pub us: f64,
    /// Lower end of the interval.
    pub low_us: Option<f64>,
    /// Upper end of the interval.
    pub high_us: Option<f64>,
    /// Share of the change in the service's CPU time per request, if that change is established.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The change as one sentence.
    pub text: String,
}

/// Parts of a change in the request rate. The rate is the CPU time that the services used per
/// second, divided by their CPU time per request, so the ratios of the two parts multiply to the
/// ratio of the rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RateParts {
    /// Ratio of the rates.
    pub rate: f64,
    /// Change of the rate that follows from the CPU time per request, at the same total CPU time.
    /// `None` if the CPU time per request wasn't measured or didn't change.
    pub explained: Option<Effect>,
    /// Change of the rate that remains, with its interval.
    pub unexplained: Effect,
    /// True if the interval of the rest excludes "no change" and reaches beyond the margin.
    pub is_rest_established: bool,
}

/// Relation between a moved metric and a difference in speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovementRole {
    /// The slower variant has more of a cost, or less of a saving, which could explain the
    /// difference.
    With,
    /// The metric doesn't affect speed by itself, or no difference in speed is established.
    Aside,
    /// The slower variant has less of a cost, which can't explain the difference.
    Against,
}
