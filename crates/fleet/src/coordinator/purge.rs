//! Removes runs from the server before they expire.

use std::time::Duration;

use super::error::FleetError;
use super::fleet::Fleet;
use super::orders;
use crate::link::stream_of;
use crate::names::{RESULTS_STREAM, RUNS_BUCKET};
use crate::wire::{Command, RunManifest};

/// Timeout for agents to delete their results of a run.
const FORGET_TIMEOUT: Duration = Duration::from_secs(3);

impl Fleet {
    /// Removes a run that is over: its manifest and results on the server, and the copies that
    /// connected agents keep. Returns the number of messages removed from the server.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn purge(&self, manifest: &RunManifest) -> Result<u64, FleetError> {
        let run = &manifest.run;
        let orders = manifest.parts.keys().map(|name| (name, Command::Forget));
        // An agent that is not connected removes its file when the file is too old.
        let _ = orders::send(&self.link, run, orders.collect(), FORGET_TIMEOUT, &|_| {
            false
        });
        let runs = stream_of(RUNS_BUCKET);
        let results = self.link.purge(RESULTS_STREAM, &run.results_subject())?;
        let order = self
            .link
            .purge(&runs, &format!("$KV.{RUNS_BUCKET}.{run}"))?;
        let keys = self
            .link
            .purge(&runs, &format!("$KV.{RUNS_BUCKET}.{run}.>"))?;
        Ok(results + order + keys)
    }

    /// Removes all runs from the server, including those of other prony versions.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn purge_rest(&self) -> Result<u64, FleetError> {
        let results = self.link.purge(RESULTS_STREAM, "prony.result.>")?;
        let runs = self
            .link
            .purge(&stream_of(RUNS_BUCKET), &format!("$KV.{RUNS_BUCKET}.>"))?;
        Ok(results + runs)
    }
}
