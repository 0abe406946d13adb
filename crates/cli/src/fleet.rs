//! `prony fleet`: many machines.

use clap::{Args, Subcommand};

use crate::ending::{Ending, Failure};
use crate::fleet_up::{self, UpArgs};

/// `prony fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

/// What to do with the fleet.
#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// Start a NATS server, with credentials for a coordinator and for agents
    Up(UpArgs),
}

/// Does it.
pub(crate) fn run(typed: &FleetArgs) -> Result<Ending, Failure> {
    match &typed.command {
        FleetCommand::Up(typed) => fleet_up::run(typed),
    }
}
