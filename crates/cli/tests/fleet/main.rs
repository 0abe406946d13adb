//! Agents on separate hosts that load a real nginx and communicate over a real NATS server. The
//! tests also cause faults: they kill and suspend processes, disable links, and restart the server.
//! Each host is a network namespace that the test creates; the machine's own network is not
//! changed.
//!
//! `cargo xtask test` installs the required programs. Without them, or without root, the tests fail
//! with a message. Random delays come from a seed, which a failed test prints; `PRONY_TEST_SEED`
//! sets it.

mod access_control;
mod accounting;
mod clocks;
mod complete_loads;
mod coordinators;
mod losses;
mod netns;
mod plans;
mod process;
mod purges;
mod random_delays;
mod server_restarts;
mod testbed;
