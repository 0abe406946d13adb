//! The agents that make a load: how many, and who is quiet or lost.

use std::time::Duration;

use prony_fleet::coordinator::{AgentState, Feed};
use prony_report::number;
use ratatui::style::Style;
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
        let count = match (self.stage(), self.loading) {
            (Stage::Preparing, _) if self.all == 0 => "looked for".to_owned(),
            (Stage::Preparing, _) => format!("{} getting ready", self.all),
            (_, loading) if loading == self.all => format!("{loading} loading"),
            (_, loading) => format!("{loading} of {} loading", self.all),
        };
        let quiet = self.quiet.iter();
        let quiet = quiet.map(|(name, span)| format!("{name} for {}", rounded(*span)));
        let quiet = group("quiet", quiet.collect());
        let lost = group("lost", self.lost.clone());
        let whole = |quiet: &str, lost: &str| 7 + count.len() + quiet.len() + lost.len();
        let (quiet, lost) = match whole(&quiet.0, &lost.0) <= usize::from(width) {
            true => (quiet.0, lost.0),
            false => (quiet.1, lost.1),
        };
        Line::from(vec![
            Span::styled("agents ", theme.dim()),
            Span::styled(count, Style::new()),
            Span::styled(quiet, theme.odd()),
            Span::styled(lost, theme.bad()),
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
