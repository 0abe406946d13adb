//! The record of a load: units, outcomes, histograms, time series, findings, and the stored format.
//!
//! Input: each worker calls its [`Recorder`] when a request starts and when it ends. Output: the
//! merged [`Record`] (`prony.record/1`), from which every report is derived. This crate reads no
//! clock, opens no socket and formats no report. [`FindingId`] is the registry of all findings.
//! Only [`number`] rounds numbers for display, and only [`quantity`] parses typed quantities.

mod buckets;
mod call_failure;
mod delta;
mod distribution;
mod document;
mod encoded_delta;
mod entries;
mod events;
mod fast_histogram;
pub mod finding;
mod fleet;
mod goals_phrase;
mod journeys;
mod load_abort;
pub mod measure;
mod memory_events;
mod negotiated;
pub mod number;
mod outcome;
pub mod quantity;
mod random;
mod rate_profile;
mod recent_deltas;
mod recorder;
pub mod redact;
mod replay;
pub mod sampling;
mod series;
mod sources;
mod stalls;
mod starts;
mod stored_file;
mod throttling;
mod tls_groups;
mod truncated;
mod units;
mod unmeasured;
mod websocket_use;
mod within_run;

pub use call_failure::CallFailure;
pub use delta::{Delta, HalfSecondTotals, Statuses};
pub use distribution::{Distribution, Summary};
pub use document::{
    ConditionRuling, Generator, IdleUse, JudgedCondition, LoadInfo, QuicUse, RECORD_SCHEMA, Rates,
    Record, RecordError, ThinkTimeInfo, Totals, XdpUse,
};
pub use encoded_delta::{DeltaTotals, EncodedDelta, ImplausibleDelta};
pub use entries::{
    ENTRIES_MAX, EntryDelta, EntryDeltas, EntryGrouping, EntryInfo, EntryList, EntryResult,
    EntryResults, OtherEntries, SparseTimes,
};
pub use events::{ArrivedEvents, EventDelta, EventInfo, EventResults, StreamedEvents};
pub use finding::{
    Finding, FindingId, FindingInfo, FindingName, FindingScope, Severity, TrialFolding,
    WithheldVerdicts,
};
pub use fleet::{FleetAgent, FleetUse};
pub use goals_phrase::{goals_phrase, readings_phrase};
pub use journeys::{Journey, JourneyCounts, JourneyEnd, JourneyResults};
pub use load_abort::LoadAbort;
pub use memory_events::MemoryEvents;
pub use negotiated::Negotiated;
pub use outcome::{Outcome, OutcomeCounts, ResponsibleParty};
pub use random::{RandomSequence, random_at};
pub use rate_profile::{ArrivalTimes, RateProfile, RateStage, StagedRate};
pub use recent_deltas::RecentDeltas;
pub use recorder::{Exchange, MeasuredPart, Recorder, TlsHandshake};
pub use replay::{ReplayInfo, ReplayUse, SkippedLines};
pub use series::{HALF_SECOND, HalfSecond, HalfSecondEvents, HalfSecondJourneys, coarse_time_of};
pub use sources::{SourceCount, SourceSpread, SourceTotals, SourceUse};
pub use stalls::Stalls;
pub use starts::{GapSummary, StartGaps};
pub use stored_file::{parse_stored, read_stored};
pub use throttling::Throttling;
pub use tls_groups::{TlsGroup, TlsGroupCounts};
pub use truncated::truncated;
pub use units::Nanos;
pub use websocket_use::WebSocketUse;
pub use within_run::{IntervalRefusal, IntervalUnit, LoadHistory, RunInterval};
