//! Fleet rows: the cost of a fleet with many agents, and the synchronization of the agents' starts.
//!
//! Each row runs the binary as a user would, over a real nats-server. Each agent runs in its own
//! network namespace, except in the row with hundreds of agents, which simulates them in one
//! process.

mod coordinator;
mod simulated;
mod site;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::engine::{Contest, Run};
use super::rows::ServerKind;
use super::tool::Tool;

/// A fleet row. Each run starts and ends a fleet of its own.
pub(super) struct FleetContest<'a> {
    pub(super) kind: ServerKind,
    /// The builds of prony.
    pub(super) programs: &'a BTreeMap<Tool, PathBuf>,
    /// Path of nginx, or of the program that simulates agents.
    pub(super) server: &'a Path,
    pub(super) folder: &'a Path,
}

impl Contest for FleetContest<'_> {
    fn run(&mut self, tool: Tool) -> Result<Run, String> {
        let prony = self.programs.get(&tool).ok_or("not installed")?;
        let folder = self.folder.join("fleet");
        let here = |e: std::io::Error| format!("{}: {e}", folder.display());
        std::fs::create_dir_all(&folder).map_err(here)?;
        let run = match self.kind {
            ServerKind::FleetStarts => site::skew(prony, self.server, &folder),
            ServerKind::FleetLoad => site::cost(prony, self.server, &folder),
            _ => simulated::measure(prony, self.server, &folder),
        };
        std::fs::remove_dir_all(&folder).map_err(here)?;
        run
    }
}
