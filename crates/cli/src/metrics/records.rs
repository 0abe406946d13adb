//! The loads that other programs see.

use std::sync::{Mutex, MutexGuard, PoisonError};

use prony_record::Record;
use prony_report::metrics::{self, Family, Labels};

use crate::running_load::RunningLoad;

/// The data that the servers and the exports read.
#[derive(Debug, Default)]
pub(super) struct ServedRecords {
    /// Records of finished loads, with the labels of their variants.
    pub(super) ended: Vec<(Labels, Record)>,
    /// The load in progress, with the labels of its variant.
    pub(super) running: Option<(Labels, RunningLoad)>,
    /// The load that ended last, with its time series, for the dashboard.
    pub(super) last: Option<(Labels, Record)>,
    /// Part of the experiment that runs, such as its block.
    pub(super) phase: String,
}

impl ServedRecords {
    /// Returns the record that the running load would have if it ended now.
    fn running(&self) -> Option<(Labels, Record)> {
        let (labels, running_load) = self.running.as_ref()?;
        Some((labels.clone(), running_load.record()?))
    }

    /// Returns the metrics of all loads, or `None` if no load has begun.
    pub(super) fn families(&self) -> Option<Vec<Family>> {
        let running = self.running();
        let all: Vec<(Labels, &Record)> = self
            .ended
            .iter()
            .chain(&running)
            .map(|(labels, record)| (labels.clone(), record))
            .collect();
        (!all.is_empty()).then(|| metrics::families(&all))
    }
}

/// Locks a mutex even if it is poisoned: a panic elsewhere loses at most a part of what is shown.
pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
