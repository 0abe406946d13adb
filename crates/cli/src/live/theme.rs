//! Colors of the live view. Words and markers always carry the same information. Red and green are
//! never used as opposites, because readers with color blindness can't distinguish them.

use ratatui::style::{Color, Modifier, Style};

use crate::terminal;

/// Text styles of the live view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    has_colors: bool,
}

impl Theme {
    /// Creates a theme with colors, unless NO_COLOR is set.
    pub(crate) fn of_environment() -> Theme {
        Theme {
            has_colors: !terminal::refuses_colors(),
        }
    }

    /// Creates a theme with or without colors.
    #[cfg(test)]
    pub(crate) fn new(has_colors: bool) -> Theme {
        Theme { has_colors }
    }

    fn color(self, color: Color) -> Style {
        if self.has_colors {
            Style::new().fg(color)
        } else {
            Style::new()
        }
    }

    /// Style of the most important numbers.
    pub(crate) fn strong(self) -> Style {
        // Removes "dim", in case the surrounding line is dim.
        Style::new()
            .add_modifier(Modifier::BOLD)
            .remove_modifier(Modifier::DIM)
    }

    /// Style of labels.
    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Style of successes and improvements.
    pub(crate) fn good(self) -> Style {
        self.color(Color::Cyan)
    }

    /// Style of warnings and regressions.
    pub(crate) fn odd(self) -> Style {
        self.color(Color::Yellow)
    }

    /// Style of errors that invalidate results.
    pub(crate) fn bad(self) -> Style {
        self.color(Color::LightRed).add_modifier(Modifier::BOLD)
    }
}
