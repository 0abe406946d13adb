//! The coordinator finds agents, divides a load among them, starts it everywhere at the same time, and
//! makes one record from their results.
//!
//! Input: a load as typed, and a choice of agents. Output: the record that one machine would have
//! produced. The state of a run is kept by the NATS server and the agents, so that another
//! coordinator can take over ([`Fleet::attach`], [`Fleet::collect`]). Every wait is bounded, and no
//! agent continues for longer than its lease without a coordinator.

mod attach;
mod check;
mod choice;
mod clock_recheck;
mod collector;
mod error;
mod events;
mod feed;
mod files;
mod findings;
mod fleet;
mod followed_run;
mod leadership;
mod lease;
mod load;
mod loss;
mod orders;
mod purge;
mod record;
mod request;
mod runs;
mod schedule;
mod server_contact;
mod sources;
mod start_times;
mod stop;
mod summary;

pub use check::{CheckedAgent, ClockCheck, TargetCheck};
pub use choice::{AgentChoice, ChoiceError, ListedAgent};
pub use error::FleetError;
pub use events::{FleetEvent, LoadObserver, ProgressUpdate};
pub use feed::{AgentState, Feed, RunStart, RunTotals};
pub use fleet::Fleet;
pub use request::{CLOCK_BOUND_DEFAULT, FinishedRun, LoadRequest};
pub use runs::StoredRun;
pub use stop::StopRequest;
