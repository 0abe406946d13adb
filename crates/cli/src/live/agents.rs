//! The agents that make a load: how many, and who is quiet or lost.

use std::time::Duration;

use prony_fleet::coordinator::{AgentState, Feed};
use prony_report::number;
use ratatui::text::{Line, Span};

use super::Theme;
use crate::progress::rounded;

/// What is shown of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Agents {
    /// How many have a part.
    pub(crate) all: usize,
    /// Those that load, whether they are heard of or not.
    pub(crate) loading: usize,
    /// Those whose part is over and has come.
    pub(crate) ended: usize,
    /// Those that have not been heard of for so long.
    pub(crate) quiet: Vec<(String, Duration)>,
    /// Those whose part will not become whole.
    pub(crate) lost: Vec<String>,
}

/// What they are at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Looked for, or getting ready.
    Preparing,
    /// Some load.
    Loading,
    /// Nobody loads any more.
    Over,
}

impl Agents {
    pub(super) fn of(feed: &Feed) -> Agents {
        let mut seen = Agents::default();
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

    pub(super) fn stage(&self) -> Stage {
        match self.ended + self.lost.len() {
            over if over > 0 && over == self.all => Stage::Over,
            _ if self.loading + self.ended > 0 => Stage::Loading,
            _ => Stage::Preparing,
        }
    }

    /// All in a line; names where there is room for them.
    pub(super) fn line(&self, width: u16, theme: Theme) -> Line<'static> {
        let (count, doing) = match (self.stage(), self.loading) {
            (Stage::Preparing, _) if self.all == 0 => (String::new(), "looked for"),
            (Stage::Preparing, _) => (format!("{} ", self.all), "getting ready"),
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

/// Names after what is so with them, and the same in few cells.
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
