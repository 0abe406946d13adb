//! Agents on many machines, over NATS.
//!
//! Input: credentials of a NATS server, and a load or a plan. Output: the record that one machine
//! would have produced, or a [`host::FleetHost`] on which a plan's services run. An agent obeys its
//! own policy, and works only as long as a coordinator renews its lease. No other part of prony
//! depends on this crate, except the command line.
//!
//! Modules, from bottom to top:
//!
//! - `names`, `permissions`, `credentials`, `clock`, `division`: identities, clocks and shares of a load.
//! - `link`: the connection to the NATS server, and the only user of its asynchronous client.
//! - `wire`: the messages, their encodings, and bounds on what agents claim.
//! - `ledger`, `policy`: results added up; what an agent's administrator allows.
//! - `agent`, `coordinator`, `server`: the three kinds of processes. They don't depend on each other.
//! - `host`: a coordinator's view of agents' machines for an experiment.

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
