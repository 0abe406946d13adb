//! Agents on hosts of their own that load a real nginx over a real NATS server, and faults:
//! processes are killed and suspended, links go down, the server is restarted. A host is a network
//! namespace of the test; the machine's own network is not touched.
//!
//! `cargo xtask test` installs the required programs. Without them, or without root, the tests fail
//! with a message. Random moments come from a seed, which a failed test prints; `PRONY_TEST_SEED`
//! sets it.
#![cfg(target_os = "linux")]

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
