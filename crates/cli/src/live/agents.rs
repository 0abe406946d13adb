//! State of a load's agents in the live view: how many are loading, silent or lost.

use std::time::Duration;

use prony_fleet::coordinator::{AgentState, Feed};
use prony_report::number;
use ratatui::text::{Line, Span};

use super::Theme;
use crate::progress::rounded;

/// The agents of a load, by state.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct AgentStates {
    /// Number of agents in the load.
    pub(crate) all: usize,
    /// Number of agents that send requests, including silent ones.
    pub(crate) loading: usize,
    /// Number of agents that ended and delivered their results.
    pub(crate) ended: usize,
    /// Silent agents, with the time since their last report.
    pub(crate) quiet: Vec<(String, Duration)>,
    /// Agents whose results are incomplete.
    pub(crate) lost: Vec<String>,
}

/// Stage of a load that runs on agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadStage {
    /// The agents are being selected or prepared.
    Preparing,
    /// At least one agent sends requests.
    Loading,
    /// All agents have stopped sending requests.
    Over,
}

impl AgentStates {
    pub(super) fn of(feed: &Feed) -> AgentStates {
        let mut seen = AgentStates::default();
        for (name, state) in feed.agents() {
            seen.all += 1;
            match state {
                AgentState::Preparing => {}
                AgentState::Loading => seen.loading += 1,
                AgentState::Quiet(span) => {
                    seen.loading += 1;
                    seen.quiet.push((name.to_string(), span));
                }
                AgentState::Ended => seen.ended += 1,
                AgentState::Lost => seen.lost.push(name.to_string()),
            }
        }
        seen
    }

    pub(super) fn stage(&self) -> LoadStage {
        match self.ended + self.lost.len() {
            over if over > 0 && over == self.all => LoadStage::Over,
            _ if self.loading + self.ended > 0 => LoadStage::Loading,
            _ => LoadStage::Preparing,
        }
    }

    /// Formats all agents as one line, with names if they fit.
    pub(super) fn line(&self, width: u16, theme: Theme) -> Line<'static> {
        let (count, doing) = match (self.stage(), self.loading) {
            (LoadStage::Preparing, _) if self.all == 0 => (String::new(), "being selected"),
            (LoadStage::Preparing, _) => (format!("{} ", self.all), "getting ready"),
            (_, loading) if loading == self.all => (loading.to_string(), " loading"),
            (_, loading) => (format!("{loading} of {}", self.all), " loading"),
        };
        let lost = group("lost", self.lost.clone());
        let quiet = self.quiet.iter();
        let quiet = quiet.map(|(name, span)| format!("{name} for {}", rounded(*span)));
        let quiet = group("quiet", quiet.collect());
        let label = "agents ";
        let fits = |parts: [&str; 4]| {
            let cells: usize = parts.iter().map(|part| part.chars().count()).sum();
            label.len() + cells <= usize::from(width)
        };
        let (doing, lost, quiet) = if fits([&count, doing, &lost.0, &quiet.0]) {
            (doing, lost.0, quiet.0)
        } else if fits([&count, doing, &lost.1, &quiet.1]) {
            (doing, lost.1, quiet.1)
        } else {
            ("", lost.1, quiet.1)
        };
        Line::from(vec![
            Span::styled(label, theme.dim()),
            Span::raw(count + doing),
            Span::styled(lost, theme.bad()),
            Span::styled(quiet, theme.odd()),
        ])
    }
}

/// Formats the agents in one state in two ways: with their names, and with only their number.
fn group(word: &str, names: Vec<String>) -> (String, String) {
    if names.is_empty() {
        return Default::default();
    }
    let count = number::count(names.len() as u64);
    (
        format!(", {word}: {}", names.join(", ")),
        format!(", {count} {word}"),
    )
}
