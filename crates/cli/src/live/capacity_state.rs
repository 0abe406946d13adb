//! The data that the live view of capacity searches shows.

use std::collections::VecDeque;
use std::time::Duration;

use super::bracket::{Bracket, BracketStep};
use super::follower::LoadFigures;

/// Maximum number of finished probes that are shown.
const PROBES_MAX: usize = 40;

/// The data that the live view of capacity searches shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapacityState {
    /// The URL and the goals.
    pub(crate) title: String,
    /// Index of the current search, from 1, and total number of searches.
    pub(crate) search: (u64, u32),
    /// Number of probes that the current search has started.
    pub(crate) probes_begun: u32,
    /// Bracket of the current search.
    pub(crate) bracket: Bracket,
    /// Load of the current probe, or of the last one.
    pub(crate) load: Option<LoadFigures>,
    /// True while the load of a probe is running.
    pub(crate) is_probing: bool,
    /// One line for each finished probe of all searches, the newest last.
    pub(crate) probes: VecDeque<String>,
    /// One line for each finished search.
    pub(crate) searches: Vec<String>,
    /// Time since the start of the first search.
    pub(crate) elapsed: Duration,
    /// True if the user asked to stop the searches.
    pub(crate) is_stopped: bool,
}

impl CapacityState {
    /// Adds the result of a probe, and the line that describes it.
    pub(crate) fn probe_ended(&mut self, step: BracketStep, line: String) {
        self.is_probing = false;
        self.bracket.probe_ended(step);
        self.probes.push_back(line);
        if self.probes.len() > PROBES_MAX {
            self.probes.pop_front();
        }
    }
}
