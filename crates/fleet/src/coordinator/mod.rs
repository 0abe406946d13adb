//! The coordinator: finds agents, divides a load among them, starts it on all of them at the same
//! time, and combines their results into one record.
//!
//! Input: the settings of a load, and a selector of agents. Output: the record that one machine
//! would have produced. The NATS server and the agents keep the state of a run, so that another
//! coordinator can take over ([`Fleet::attach`], [`Fleet::collect`]). Every wait has a limit, and
//! no agent continues without a coordinator for longer than its lease.

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
pub use choice::{AgentChoice, ChoiceError, InvalidChoice, ListedAgent};
pub use error::FleetError;
pub use events::{FleetEvent, LoadObserver, ProgressUpdate};
pub use feed::{AgentState, Feed, RunStart, RunTotals};
pub use files::{FilePlace, NamedFileError};
pub use fleet::Fleet;
pub use request::{CLOCK_BOUND_DEFAULT, FinishedRun, LoadRequest};
pub use runs::StoredRun;
pub use sources::SourceDivisionError;
pub use stop::StopRequest;
