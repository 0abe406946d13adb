//! Agents on many machines, over NATS.
//!
//! Enters: credentials of a NATS server, and a load or a plan. Leaves: a record as one machine would
//! have made it, or a [`host::FleetHost`] on which a plan's services run. An agent does what its own
//! policy allows, for as long as a coordinator renews its lease. Everything else works without it.

pub mod agent;
mod claims;
pub mod clock;
pub mod coordinator;
pub mod credentials;
pub mod division;
pub mod host;
pub mod ledger;
pub mod link;
pub mod messages;
pub mod names;
pub mod permissions;
pub mod policy;
pub mod server;
