//! Agents' machines for experiments.
//!
//! Input: a connection to the fleet's server, and a plan that names agents. Output: a
//! [`Host`](prony_experiment::host::Host) that runs each service on its machine, and a
//! [`AgentLoadRunner`](prony_experiment::runner::AgentLoadRunner) that makes loads with agents.
//!
//! The files of a service are sent to its machine; samples are taken on all machines at the same time and
//! joined; logs are fetched into the trial's folder. A trial that loses the agent of one of its services
//! ends with the finding `agent-lost` and keeps what was measured. The next trial that needs the agent
//! fails.

mod agent_loads;
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
pub use roster::Roster;
