//! Access to agents' machines for experiments.
//!
//! Input: a connection to the fleet's server, and a plan that names agents. Output: a
//! [`Host`](prony_machine::host::Host) that runs each service on its machine, and an
//! [`AgentLoadRunner`](prony_experiment::runner::AgentLoadRunner) that generates loads on agents.
//!
//! The files of a service are sent to its machine, samples are taken on all machines at the same
//! time and combined, and logs are fetched into the trial's folder. If the agent of a service is
//! lost during a trial, the trial ends with the finding `agent-lost` and keeps its measurements so
//! far. The next trial that needs the agent fails.

mod agent_loads;
mod call_error;
mod endpoint_check;
mod fleet_host;
mod lease;
mod logs;
mod remote_service;
mod reservations;
mod roster;
mod session;

pub use agent_loads::{AgentLoads, FeedObserver};
pub use fleet_host::FleetHost;
pub use reservations::Reservations;
pub use roster::{Roster, UnusableHost};
