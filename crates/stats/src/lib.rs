//! From trials to verdicts: estimates with intervals, error rates that are kept, sentences.
//!
//! Enters: a [`Design`] (factors, variants, baseline, when to stop) and [`Trials`] (one number for
//! each metric, block and variant). Leaves: an [`Evaluation`] (comparisons with verdicts, effects,
//! summaries, when to look again) and the document `verdict.json`
//! ([`VerdictDocument`]).
//!
//! Two experiments that were made apart are set against one another in [`runs`]; what a result must
//! not be, as conditions with three answers, is [`gate`].
//!
//! Blocks are the only source of uncertainty: nothing here knows the requests inside a trial. It
//! reads no file, no clock and no randomness; the same input gives the same output. What each
//! number is, and what it is worth, stands in `docs/method.md`.

mod change;
mod comparison;
mod design;
mod document;
mod effects;
mod estimate;
mod evaluate;
mod forecast;
pub mod gate;
mod glance;
mod looks;
mod metric;
mod movement;
mod naming;
mod observed;
mod pairing;
pub mod runs;
mod scaling;
mod sentence;
mod summary;
mod trials;
mod why;

pub use change::Change;
pub use comparison::{Comparison, Description, Effect, Verdict};
pub use design::{Design, DesignError, Factor, LEAST_BLOCKS, Levels, MOST_BLOCKS, Pair};
pub use document::{About, VERDICT_SCHEMA, VerdictDocument};
pub use effects::{EffectKind, FactorEffect};
pub use estimate::{Estimate, Interval, critical};
pub use evaluate::{Evaluation, evaluate, evaluate_with};
pub use glance::{Glance, glance};
pub use looks::{LevelTable, Look, levels, spent_share};
pub use metric::{Bearing, Direction, Metric, Scale, Unit, UnknownMetric};
pub use movement::Movement;
pub use naming::{is_named_with_factor, level_name};
pub use observed::of_record;
pub use scaling::{Scaling, ScalingPoint};
pub use summary::{MetricSummary, VariantSummary};
pub use trials::{Trials, Values};
pub use why::{Limit, LimitKind, Moved, OneSided, Part, Why};
