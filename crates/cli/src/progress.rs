//! What goes on, on standard error: a line that is written over on a terminal, plain lines
//! elsewhere, or nothing.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::arguments::ProgressFlag;
use crate::terminal;

/// The longest line that can be written over on any terminal, in characters.
const WIDTH: usize = 79;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// One line, written over.
    Live,
    /// Plain lines.
    Lines,
    /// Warnings alone.
    Nothing,
}

/// The one writer of standard error while something runs; threads share it.
#[derive(Debug)]
pub(crate) struct Progress {
    show: Show,
    /// Whether a line is there that has to be wiped before another is printed.
    open: Mutex<bool>,
}

impl Progress {
    /// As the option says.
    pub(crate) fn new(flag: ProgressFlag) -> Progress {
        let show = match flag {
            ProgressFlag::Auto if terminal::is_live() => Show::Live,
            ProgressFlag::Auto | ProgressFlag::Lines => Show::Lines,
            ProgressFlag::None => Show::Nothing,
        };
        Progress {
            show,
            open: Mutex::new(false),
        }
    }

    /// How it is shown.
    pub(crate) fn show(&self) -> Show {
        self.show
    }

    /// What is so at this moment; the next call replaces it. Only a live line shows it.
    pub(crate) fn status(&self, text: &str) {
        if self.show != Show::Live {
            return;
        }
        let mut open = self.lock();
        let text: String = text.chars().take(WIDTH).collect();
        write(&format!("\r\x1b[K{text}"));
        *open = true;
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        if self.show != Show::Nothing {
            self.warn(text);
        }
    }

    /// A line that stays, and that everybody must see.
    pub(crate) fn warn(&self, text: &str) {
        let mut open = self.lock();
        wipe(&mut open);
        write(&format!("{text}\n"));
    }

    /// Wipes the live line.
    pub(crate) fn end(&self) {
        wipe(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wipe(open: &mut bool) {
    if std::mem::take(open) {
        write("\r\x1b[K");
    }
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Where this can't be said, nothing can.
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
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
