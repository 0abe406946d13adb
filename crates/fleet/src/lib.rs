//! Runs loads and services on agents on many machines, connected by NATS.
//!
//! Input: credentials for a NATS server, and a load or a plan. Output: the record that one machine
//! would have produced, or a [`host::FleetHost`] that runs a plan's services. An agent enforces its
//! own policy, and works only while a coordinator renews its lease. Only the command line depends
//! on this crate.
//!
//! Modules, from bottom to top:
//!
//! - `names`, `permissions`, `credentials`, `clock`, `division`: identities, clocks, and the
//!   division of loads.
//! - `link`: the connection to the NATS server. Only this module uses the asynchronous NATS client.
//! - `wire`: the messages, their encodings, and bounds on what agents claim.
//! - `ledger`, `policy`: the sum of all results, and the limits that an agent's administrator sets.
//! - `agent`, `coordinator`, `server`: the three kinds of processes. They don't depend on each
//!   other.
//! - `host`: access to the agents' machines for an experiment.

pub mod agent;
pub mod clock;
pub mod coordinator;
pub mod credentials;
pub mod division;
pub mod host;
pub mod ledger;
pub mod link;
pub mod names;
pub mod permissions;
pub mod policy;
pub mod server;
pub mod wire;
