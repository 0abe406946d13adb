//! Removes runs from the server before they expire.

use std::time::Duration;

use super::error::FleetError;
use super::{Fleet, orders};
use crate::link::stream_of;
use crate::messages::{Manifest, What};
use crate::names::{RESULTS, RUNS};

/// How long agents may take to remove what they keep of a run.
const FORGET_TIMEOUT: Duration = Duration::from_secs(3);

impl Fleet {
    /// Removes a run that is over: its order and its results from the server, and what the agents that
    /// are there still keep of it. Gives the number of messages removed from the server.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn purge(&self, manifest: &Manifest) -> Result<u64, FleetError> {
        let run = &manifest.run;
        let orders = manifest.parts.keys().map(|name| (name, What::Forget));
        // An agent that is away removes its own file when that is too old.
        let _ = orders::give(&self.link, run, orders.collect(), FORGET_TIMEOUT, &|_| {
            false
        });
        let runs = stream_of(RUNS);
        let results = self.link.purge(RESULTS, &run.all_results())?;
        let order = self.link.purge(&runs, &format!("$KV.{RUNS}.{run}"))?;
        let keys = self.link.purge(&runs, &format!("$KV.{RUNS}.{run}.>"))?;
        Ok(results + order + keys)
    }

    /// Removes all that the server has of runs, whichever version of prony wrote it.
    ///
    /// # Errors
    ///
    /// See [`crate::link::LinkError`].
    pub fn purge_rest(&self) -> Result<u64, FleetError> {
        let results = self.link.purge(RESULTS, "prony.result.>")?;
        let runs = self
            .link
            .purge(&stream_of(RUNS), &format!("$KV.{RUNS}.>"))?;
        Ok(results + runs)
    }
}
