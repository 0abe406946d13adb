//! Machines: the operating system, places, services, and their telemetry.
//!
//! Input: what a plan yields (allocations, services, places and links, telemetry settings). Output:
//! running services behind one trait, [`host::Host`], samples of their resource usage, facts about
//! the machine, and checks of a running server ([`doctor`]). Everything that a run creates is
//! recorded, and a later start removes what a killed run left behind ([`sweep`]).
//!
//! The crate never decides what runs when, compares nothing, and knows neither trials nor variants.

pub mod build;
pub mod crypto;
pub mod doctor;
pub mod environment;
pub mod host;
pub mod neighbors;
pub mod place;
pub mod profile;
pub mod program_output;
pub mod run_state;
pub mod sampling;
pub mod sweep;
pub mod system;
pub mod telemetry;
mod undetermined;
