//! What was measured: units, outcomes, histograms, time series, and the one stored format.
//!
//! Enters: one call for every request that starts and one for every request that ends, from a
//! worker that owns its [`Recorder`] alone. Leaves: the merged [`Record`] (`prony.record/1`), of
//! which every output is a pure transform. Nothing here reads a clock, opens a socket or formats a
//! report for people; a [`Finding`]'s text is carried, not composed, and a [`Condition`] only names
//! what it saw. [`number`] is the one place that rounds figures for people.

pub mod condition;
mod delta;
mod distribution;
mod document;
mod finding;
mod fleet;
pub mod number;
mod outcome;
mod packed;
mod recorder;
pub mod redact;
mod series;
mod sources;
mod starts;
mod tally;
mod units;
mod unmeasured;

pub use condition::Condition;
pub use delta::{Delta, SliceTotals, Statuses};
pub use distribution::{Distribution, Summary};
pub use document::{
    Generator, LoadInfo, Negotiated, RECORD_SCHEMA, Rate, Record, RecordError, Stalls, Totals,
};
pub use finding::{
    Finding, FindingId, FindingInfo, FindingName, FindingScope, Severity, TrialFolding,
    WithheldVerdicts,
};
pub use fleet::{FleetAgent, FleetUse};
pub use outcome::{Outcome, OutcomeCounts, Party};
pub use packed::{Counted, Implausible, Packed};
pub use recorder::{Exchange, Handshake, Measured, Recorder};
pub use series::{SLICE, Slice};
pub use sources::{SourceCount, SourceTotals, SourceUse, Spread};
pub use starts::{Gaps, StartGaps};
pub use units::Nanos;
