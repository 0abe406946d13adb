//! Agents on hosts of their own before a real nginx, over a real NATS server, and what goes wrong there:
//! processes are killed and stopped, links go down, the server is started again. A host is a network
//! namespace of the test's; nothing of the machine's own network is touched.
//!
//! `cargo xtask test` installs what they need; without it, or without root, they fail and say so.
//! What happens at a moment of its own choosing draws it from a seed, which a failure prints;
//! `PRONY_TEST_SEED` sets it.
#![cfg(target_os = "linux")]

mod books;
mod clocks;
mod coordinators;
mod ground;
mod losses;
mod moments;
mod plans;
mod process;
mod purges;
mod rig;
mod rights;
mod servers;
mod whole;
