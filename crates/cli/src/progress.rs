//! What goes on, on standard error: a live view on a terminal, plain lines elsewhere, or nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::arguments::ProgressFlag;
use crate::terminal;

/// The view shows no more of what was said.
const SAID: usize = 50;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// A view that has the terminal while something runs.
    View,
    /// Plain lines.
    Lines,
    /// Warnings alone.
    Nothing,
}

/// The one writer of lines to standard error while something runs; threads share it.
#[derive(Debug)]
pub(crate) struct Progress {
    show: Show,
    said: Mutex<Said>,
}

/// What was said while the view had the terminal.
#[derive(Debug, Default)]
struct Said {
    is_held: bool,
    /// For the view, the newest last.
    shown: Vec<String>,
    /// To be printed when it is gone.
    warnings: Vec<String>,
}

impl Progress {
    /// As the option says.
    pub(crate) fn new(flag: ProgressFlag) -> Progress {
        let show = match flag {
            ProgressFlag::Auto if terminal::is_live() => Show::View,
            ProgressFlag::Auto | ProgressFlag::Lines => Show::Lines,
            ProgressFlag::None => Show::Nothing,
        };
        Progress {
            show,
            said: Mutex::default(),
        }
    }

    /// How it is shown.
    pub(crate) fn show(&self) -> Show {
        self.show
    }

    /// A step on the way. Where there is a view, it shows by itself what goes on.
    pub(crate) fn step(&self, text: &str) {
        if self.show == Show::Lines {
            self.warn(text);
        }
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        if self.show != Show::Nothing {
            self.warn(text);
        }
    }

    /// A line that stays, and that everybody must see.
    pub(crate) fn warn(&self, text: &str) {
        let mut said = self.lock();
        if !said.is_held {
            terminal::say(text);
            return;
        }
        said.warnings.push(text.to_owned());
        said.shown.push(text.to_owned());
        let too_many = said.shown.len().saturating_sub(SAID);
        said.shown.drain(..too_many);
    }

    /// The view has the terminal: lines wait until it is gone.
    pub(crate) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// The view is gone.
    pub(crate) fn release(&self) {
        let mut said = self.lock();
        said.is_held = false;
        said.warnings
            .drain(..)
            .for_each(|line| terminal::say(&line));
        said.shown.clear();
    }

    /// What was said since the view has the terminal, the newest last.
    pub(crate) fn said(&self) -> Vec<String> {
        self.lock().shown.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A span for people, in whole seconds from ten seconds on: a countdown has no use for more.
pub(crate) fn rounded(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match seconds {
        under_ten if under_ten < 9.95 => format!("{under_ten:.1} s"),
        longer => prony_report::number::span(longer.round()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_countdown_is_coarse() {
        for (ms, text) in [
            (0, "0.0 s"),
            (740, "0.7 s"),
            (9_960, "10 s"),
            (65_400, "1 min 5 s"),
        ] {
            assert_eq!(rounded(Duration::from_millis(ms)), text);
        }
    }
}
