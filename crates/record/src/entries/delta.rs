//! Counts and response times of each entry in one interval of a load.

use super::SparseTimes;
use crate::{Outcome, OutcomeCounts};

/// Counts and response times of one entry in one interval of a load. A request is counted in the
/// interval in which it ends, except in [`EntryDelta::started`], which counts starts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EntryDelta {
    /// Requests that began to connect or to send, including those during the warm-up.
    pub started: u64,
    /// Requests that finished but do not belong to the measured part. Except for `started`, the
    /// other counts refer to the measured part.
    pub unmeasured: u64,
    /// Requests by outcome.
    pub outcomes: OutcomeCounts,
    /// HTTP bytes received, not counting TLS.
    pub bytes_in: u64,
    /// HTTP bytes sent, not counting TLS.
    pub bytes_out: u64,
    /// Response times of successful requests, from the intended start to the last byte of the
    /// response, and lower bounds on the response times of requests that timed out or were cut off.
    pub times: SparseTimes,
}

impl EntryDelta {
    /// Adds the counts and times of another interval, or of the same interval and another worker.
    fn merge(&mut self, other: &EntryDelta) {
        self.merge_counts(other);
        self.times.merge(&other.times);
    }

    /// Adds the counts and outcomes of `other`, but not its response times.
    pub(crate) fn merge_counts(&mut self, other: &EntryDelta) {
        for (mine, theirs) in self.counts_mut().into_iter().zip(other.counts()) {
            *mine = mine.saturating_add(theirs);
        }
        self.outcomes.merge(&other.outcomes);
    }

    /// Clears all counts and times without freeing their memory.
    fn clear(&mut self) {
        self.counts_mut().into_iter().for_each(|count| *count = 0);
        self.outcomes = OutcomeCounts::default();
        self.times.clear();
    }

    /// Returns the number of requests that have begun but not ended. The delta must cover the load
    /// from its start.
    pub fn in_flight(&self) -> u64 {
        let ended = self.unmeasured.saturating_add(self.outcomes.ended());
        self.started.saturating_sub(ended)
    }

    pub(crate) fn counts_mut(&mut self) -> [&mut u64; 4] {
        [
            &mut self.started,
            &mut self.unmeasured,
            &mut self.bytes_in,
            &mut self.bytes_out,
        ]
    }

    /// Returns the counts in the order of [`EntryDelta::counts_mut`].
    pub(crate) fn counts(&self) -> [u64; 4] {
        [self.started, self.unmeasured, self.bytes_in, self.bytes_out]
    }
}

/// Results of a load's entries in one interval, by entry number. The last element combines all
/// entries that have no results of their own. Empty if the load has a single entry.
#[derive(Debug, Clone, Default)]
pub struct EntryDeltas(pub(crate) Vec<EntryDelta>);

/// An entry without requests equals a missing entry.
impl PartialEq for EntryDeltas {
    fn eq(&self, other: &EntryDeltas) -> bool {
        let common = self.0.len().min(other.0.len());
        let (mine, theirs) = (self.0.split_at(common), other.0.split_at(common));
        let mut rest = mine.1.iter().chain(theirs.1);
        mine.0 == theirs.0 && rest.all(|entry| *entry == EntryDelta::default())
    }
}

impl EntryDeltas {
    /// Creates `entries` entries without requests.
    pub(crate) fn new(entries: usize) -> EntryDeltas {
        EntryDeltas(vec![EntryDelta::default(); entries])
    }

    /// Returns the entries in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &EntryDelta> {
        self.0.iter()
    }

    /// Returns the entry with the given number, or the last entry if the number is too large.
    /// Returns `None` if no entries are counted.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut EntryDelta> {
        let last = self.0.len().checked_sub(1)?;
        self.0.get_mut(last.min(number as usize))
    }

    /// Returns the response times of each entry.
    pub(crate) fn times_mut(&mut self) -> impl Iterator<Item = &mut SparseTimes> {
        self.0.iter_mut().map(|entry| &mut entry.times)
    }

    pub(crate) fn merge(&mut self, other: &EntryDeltas) {
        self.merge_all(&other.0);
    }

    /// Adds each entry in `others` to the entry that has the same number.
    pub(crate) fn merge_all(&mut self, others: &[EntryDelta]) {
        if self.0.len() < others.len() {
            self.0.resize_with(others.len(), EntryDelta::default);
        }
        for (mine, theirs) in self.0.iter_mut().zip(others) {
            mine.merge(theirs);
        }
    }

    /// Returns the entries up to the last one that has a request.
    pub(crate) fn used(&self) -> &[EntryDelta] {
        let unused = EntryDelta::default();
        let used = self.0.iter().rposition(|entry| *entry != unused);
        &self.0[..used.map_or(0, |last| last + 1)]
    }

    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(EntryDelta::clear);
    }

    /// Counts all requests in flight as unfinished. The delta must cover the load from its start.
    pub fn end_in_flight(&mut self) {
        for entry in &mut self.0 {
            let in_flight = entry.in_flight();
            entry.outcomes.add_many(Outcome::Unfinished, in_flight);
        }
    }
}
