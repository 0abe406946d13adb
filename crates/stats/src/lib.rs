//! Statistics of experiments: estimates with intervals, bounded error rates, and verdicts. Their
//! sentences are composed by `prony-wording`, into fields that are empty here.
//!
//! Input: a [`Design`] (factors, variants, baseline, stopping rule) and [`Trials`] (one number per
//! metric, block and variant). Output: an [`Evaluation`] (comparisons with verdicts, effects,
//! summaries, the next look) and the document `verdict.json` ([`VerdictDocument`]).
//!
//! [`capacity`] chooses the rates of a capacity search, and estimates the capacity from its probes.
//! [`bisection`] chooses the commits to compare in a search for a slower one.
//! [`runs`] compares two experiments that were run separately. [`gate`] judges conditions on a
//! result.
//!
//! The spread between blocks is the only source of uncertainty; single requests are not part of the
//! input. The crate reads no file, no clock and no random numbers, so the same input gives the same
//! output. docs/method.md documents every number.

pub mod bisection;
pub mod capacity;
pub mod change_points;
mod comparison;
mod core_parties;
mod design;
mod document;
mod effects;
mod estimate;
mod evaluate;
mod explanation;
mod forecast;
mod function_costs;
pub mod gate;
mod gate_result;
pub mod history;
mod interim;
mod looks;
mod metric;
mod movement;
mod naming;
mod observable;
mod observed;
mod pairing;
mod quantile_band;
mod revision;
mod round_comparison;
mod rounds;
mod run_comparison;
pub mod runs;
mod scaling;
mod smallest_difference;
mod summary;
mod trial_mode;
mod trials;
pub mod within_run;

pub use comparison::{Comparison, Description, Effect, Unmeasured, Verdict, WithheldBecause};
pub use core_parties::{CoreParties, Neighbor};
pub use design::{BLOCKS_MAX, Design, DesignError, Factor, INTERVAL_BLOCKS_MIN, Levels, Pair};
pub use document::{ExperimentInfo, VERDICT_SCHEMA, VerdictDocument};
pub use effects::{Dependence, EffectKind, FactorDependence, FactorEffect, LevelEffect};
pub use estimate::{Estimate, Interval, critical};
pub use evaluate::{Evaluation, evaluate, evaluate_with};
pub use explanation::{
    Bottleneck, BottleneckKind, ChangedFunction, Explanation, MovedMetric, MovementRole,
    OneSidedFinding, RateParts, changed_cost, is_request_cost,
};
pub use function_costs::{
    CostKind, FunctionCost, FunctionDifference, FunctionRow, FunctionTable, NOT_SAMPLED,
    OTHER_FUNCTIONS, ServiceCosts, TrialCosts, WAITING_FOR_REQUESTS, function_table,
};
pub use interim::{InterimEstimate, interim_estimates};
pub use looks::{AlphaTable, Look, nominal_alphas, spent_share};
pub use metric::{Direction, Metric, MetricRole, Scale, Unit, UnknownMetric};
pub use movement::Movement;
pub use naming::{is_named_with_factor, level_name};
pub use observed::of_record;
pub use quantile_band::{
    DifferingRange, DistributionDifference, PERCENTILES, PercentileRatio, PercentileTimes,
    TimeDirection, TrialTimes, compare_distributions, percentile_times,
};
pub use revision::{BuiltRevision, WorktreeChanges};
pub use round_comparison::{RoundComparison, RoundMetric};
pub use rounds::{RoundRatio, RoundValues, compare_rounds, round_ratios};
pub use scaling::{Scaling, ScalingPoint};
pub use smallest_difference::{noise_of_ratios, smallest_difference};
pub use summary::{MetricSummary, VariantSummary};
pub use trial_mode::TrialMode;
pub use trials::{Trials, Values};
