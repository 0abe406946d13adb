//! The figures of capacity searches that their live view shows.

use std::collections::VecDeque;
use std::time::Duration;

use super::bracket::{Bracket, BracketStep};
use super::follower::LoadFigures;

/// Maximum number of ended probes that are shown.
const PROBES_MAX: usize = 40;

/// The figures of capacity searches that the view shows.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapacityState {
    /// The URL and the goals.
    pub(crate) title: String,
    /// Number of the current search, from 1, and number of searches.
    pub(crate) search: (u64, u32),
    /// Probes of the current search that have begun.
    pub(crate) probes_begun: u32,
    /// Rates of the current search.
    pub(crate) bracket: Bracket,
    /// The current probe's load, or the last one.
    pub(crate) load: Option<LoadFigures>,
    /// True while a probe's load runs.
    pub(crate) is_probing: bool,
    /// A line for each ended probe of all searches, the newest last.
    pub(crate) probes: VecDeque<String>,
    /// A line for each ended search.
    pub(crate) searches: Vec<String>,
    /// Time since the start.
    pub(crate) elapsed: Duration,
    /// The searches were asked to stop.
    pub(crate) is_stopped: bool,
}

impl CapacityState {
    /// Takes the result of a probe, and its line.
    pub(crate) fn probe_ended(&mut self, step: BracketStep, line: String) {
        self.is_probing = false;
        self.bracket.probe_ended(step);
        self.probes.push_back(line);
        if self.probes.len() > PROBES_MAX {
            self.probes.pop_front();
        }
    }
}
