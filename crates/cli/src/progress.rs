//! Shows progress on standard error: a live view on a terminal, plain lines otherwise, or nothing.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::arguments::ProgressFlag;
use crate::terminal;

/// Maximum number of messages that are kept for the live view.
const MESSAGES_MAX: usize = 50;

/// Form of the progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgressMode {
    /// A live view that takes over the terminal.
    View,
    /// Plain lines.
    Lines,
    /// Warnings only.
    Nothing,
}

/// Writes progress lines and warnings to standard error while work is running. Several threads
/// share it.
#[derive(Debug)]
pub(crate) struct Progress {
    mode: ProgressMode,
    held: Mutex<HeldMessages>,
}

/// Messages held back since the live view took over the terminal.
#[derive(Debug, Default)]
struct HeldMessages {
    is_held: bool,
    /// Messages that the live view shows, the newest last.
    shown: Vec<String>,
    /// State of the work, which the next one replaces.
    status: Option<String>,
    /// Warnings to print when the live view ends.
    warnings: Vec<String>,
}

impl Progress {
    /// Creates the progress output that `--progress` selects.
    pub(crate) fn new(flag: ProgressFlag) -> Progress {
        let mode = match flag {
            ProgressFlag::Auto if terminal::is_live() => ProgressMode::View,
            ProgressFlag::Auto | ProgressFlag::Lines => ProgressMode::Lines,
            ProgressFlag::None => ProgressMode::Nothing,
        };
        Progress {
            mode,
            held: Mutex::default(),
        }
    }

    /// Returns the form of the progress output.
    pub(crate) fn mode(&self) -> ProgressMode {
        self.mode
    }

    /// Prints a step of the run if progress is shown as plain lines. The live view shows the steps
    /// itself.
    pub(crate) fn step(&self, text: &str) {
        if self.mode == ProgressMode::Lines {
            self.print(text);
        }
    }

    /// Prints a line unless `--progress` asks for warnings only.
    pub(crate) fn line(&self, text: &str) {
        if self.mode != ProgressMode::Nothing {
            self.print(text);
        }
    }

    /// Prints a warning in every progress mode.
    pub(crate) fn warn(&self, text: impl fmt::Display) {
        self.print(&format!("prony: {text}"));
    }

    /// Prints a line about the state of the work. The live view shows the latest one.
    pub(crate) fn status(&self, text: &str) {
        match self.mode {
            ProgressMode::View => self.lock().status = Some(text.to_owned()),
            ProgressMode::Lines | ProgressMode::Nothing => self.step(text),
        }
    }

    fn print(&self, text: &str) {
        let mut held = self.lock();
        if !held.is_held {
            terminal::print_line(text);
            return;
        }
        held.warnings.push(text.to_owned());
        held.shown.push(text.to_owned());
        let too_many = held.shown.len().saturating_sub(MESSAGES_MAX);
        held.shown.drain(..too_many);
    }

    /// Starts holding back lines while the live view occupies the terminal.
    pub(crate) fn hold(&self) {
        self.lock().is_held = true;
    }

    /// Prints the lines that were held back, after the view has ended.
    pub(crate) fn release(&self) {
        let mut held = self.lock();
        held.is_held = false;
        held.warnings
            .drain(..)
            .for_each(|line| terminal::print_line(&line));
        held.shown.clear();
        held.status = None;
    }

    /// Returns the messages since the live view took over the terminal, the newest last.
    pub(crate) fn messages(&self) -> Vec<String> {
        let held = self.lock();
        held.shown.iter().chain(&held.status).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HeldMessages> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounds a duration for display. Durations of ten seconds or more are rounded to whole seconds,
/// which is enough for a countdown.
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
