//! Agents on many machines, over NATS.
//!
//! So far the parts that need no server: how clocks are compared, how a load is divided, how results
//! that come twice or in disorder are added up, who may do what. Nothing of it is reached from the
//! command line yet, and everything else works without it.

pub mod agent;
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
