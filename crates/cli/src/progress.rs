//! Progress on standard error: a live view on a terminal, plain lines otherwise, or nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::arguments::ProgressFlag;
use crate::terminal;

/// Maximum number of messages that the view receives.
const SAID: usize = 50;

/// The form in which progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// A view that takes over the terminal while something runs.
    View,
    /// Plain lines.
    Lines,
    /// Only warnings.
    Nothing,
}

/// Writes all lines to standard error while something runs; threads share it.
#[derive(Debug)]
pub(crate) struct Progress {
    show: Show,
    said: Mutex<Said>,
}

/// Messages since the view took over the terminal.
#[derive(Debug, Default)]
struct Said {
    is_held: bool,
    /// Messages for the view, the newest last.
    shown: Vec<String>,
    /// Messages to print when the view ends.
    warnings: Vec<String>,
}

impl Progress {
    /// Progress in the form that the option selects.
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

    /// The form in which progress is shown.
    pub(crate) fn show(&self) -> Show {
        self.show
    }

    /// Prints a step of the run as plain lines only, because the view shows steps itself.
    pub(crate) fn step(&self, text: &str) {
        if self.show == Show::Lines {
            self.warn(text);
        }
    }

    /// Prints a line unless only warnings are shown.
    pub(crate) fn line(&self, text: &str) {
        if self.show != Show::Nothing {
            self.warn(text);
        }
    }

    /// Prints a line in every form of progress.
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

    /// Holds lines back while the view has the terminal.
    pub(crate) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// Prints the held lines after the view ended.
    pub(crate) fn release(&self) {
        let mut said = self.lock();
        said.is_held = false;
        said.warnings
            .drain(..)
            .for_each(|line| terminal::say(&line));
        said.shown.clear();
    }

    /// Messages since the view took over the terminal, the newest last.
    pub(crate) fn said(&self) -> Vec<String> {
        self.lock().shown.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A duration rounded to whole seconds from ten seconds on, which is enough for a countdown.
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
