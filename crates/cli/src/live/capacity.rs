//! The live view of capacity searches, and the state that it shares with the search thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_experiment::runner::Interrupt;
use ratatui::Frame;

use super::bracket::{Bracket, BracketStep};
use super::capacity_state::CapacityState;
use super::follower::{LoadFigures, LoadFollower};
use super::{LiveView, ViewContext, capacity_page};
use crate::running_load::RunningLoad;

/// State of capacity searches, shared between the thread that runs them and the thread that draws
/// them.
#[derive(Debug)]
pub(crate) struct CapacityNotes(Mutex<CapacityNotesInner>);

#[derive(Debug)]
struct CapacityNotesInner {
    state: CapacityState,
    began: Instant,
    follower: Option<LoadFollower>,
}

impl CapacityNotes {
    /// Creates the state before the first search.
    pub(crate) fn new(title: String) -> CapacityNotes {
        let state = CapacityState {
            title,
            ..CapacityState::default()
        };
        CapacityNotes(Mutex::new(CapacityNotesInner {
            state,
            began: Instant::now(),
            follower: None,
        }))
    }

    /// Records the start of a search. `search` contains its index, from 1, and the total number of
    /// searches.
    pub(crate) fn search_began(&self, search: (u64, u32)) {
        let state = &mut self.lock().state;
        state.search = search;
        state.probes_begun = 0;
        state.bracket = Bracket::default();
    }

    /// Records the start of a probe at the given rate. `None` means a closed loop.
    pub(crate) fn probe_began(
        &self,
        rate_per_s: Option<f64>,
        running_load: RunningLoad,
        planned: Option<Duration>,
    ) {
        let mut inner = self.lock();
        inner.state.probes_begun += 1;
        inner.state.bracket.unit = running_load.info().rate_unit();
        inner.state.bracket.probe_per_s = rate_per_s;
        inner.state.is_probing = true;
        inner.follower = Some(LoadFollower::new(running_load, planned, &[]));
    }

    /// Records the end of a probe, with the line that describes it.
    pub(crate) fn probe_ended(&self, step: BracketStep, line: String) {
        let mut inner = self.lock();
        inner.follower = None;
        inner.state.probe_ended(step, line);
    }

    /// Records the end of a search, with the line that describes it.
    pub(crate) fn search_ended(&self, line: String) {
        self.lock().state.searches.push(line);
    }

    fn lock(&self) -> MutexGuard<'_, CapacityNotesInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The live view of capacity searches.
#[derive(Debug)]
pub(crate) struct CapacityView<'a> {
    /// The state to draw.
    pub(crate) notes: &'a CapacityNotes,
    /// Set when the user asks to stop the searches.
    pub(crate) interrupt: &'a Interrupt,
}

impl LiveView for CapacityView<'_> {
    fn refresh(&mut self, now: Instant) {
        let inner = &mut *self.notes.lock();
        inner.state.elapsed = now.saturating_duration_since(inner.began);
        inner.state.is_stopped = self.interrupt.is_stopped();
        if let Some(follower) = &mut inner.follower {
            follower.refresh(now);
            inner.state.load = Some(LoadFigures {
                // Findings are not shown, because a probe above the capacity always causes some.
                findings: Vec::new(),
                ..follower.figures().clone()
            });
        }
    }

    fn draw(&self, frame: &mut Frame<'_>, context: &ViewContext<'_>) {
        capacity_page::draw(frame, &self.notes.lock().state, context);
    }
}
