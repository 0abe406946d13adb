//! The interface through which a search runs its loads.

use std::sync::Arc;

use prony_load::{Control, LoadSpec};
use prony_plan::probe_load::ProbeLoad;
use prony_record::Record;

/// Creates and runs the loads of a search.
pub trait ProbeLoads {
    /// Reason why a load can't run.
    type Error;

    /// Resolves a load, usually with [`ProbeLoad::settings`] and [`LoadSettings::resolve`](prony_load::LoadSettings::resolve).
    ///
    /// # Errors
    ///
    /// The settings of the load are invalid.
    fn spec(&mut self, load: &ProbeLoad) -> Result<LoadSpec, Self::Error>;

    /// Runs a load until it ends or `control` stops it, usually with [`prony_load::run_scripted`].
    ///
    /// # Errors
    ///
    /// The load ended without a record.
    fn run(&mut self, spec: &LoadSpec, control: &Arc<Control>) -> Result<Record, Self::Error>;
}
