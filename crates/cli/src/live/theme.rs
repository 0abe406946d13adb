//! Colors. Words and marks carry the same information. Red and green never mark opposites, because
//! readers with color blindness can't distinguish them.

use ratatui::style::{Color, Modifier, Style};

use crate::terminal;

/// The styles of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    has_colors: bool,
}

impl Theme {
    /// A theme with colors, unless NO_COLOR is set.
    pub(crate) fn of_environment() -> Theme {
        Theme {
            has_colors: !terminal::refuses_colors(),
        }
    }

    /// A theme with or without colors.
    #[cfg(test)]
    pub(crate) fn new(has_colors: bool) -> Theme {
        Theme { has_colors }
    }

    fn color(self, color: Color) -> Style {
        match self.has_colors {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    /// For the most important figures.
    pub(crate) fn strong(self) -> Style {
        // Not dim, even within a dim line.
        Style::new()
            .add_modifier(Modifier::BOLD)
            .remove_modifier(Modifier::DIM)
    }

    /// For labels.
    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// For successes and better figures.
    pub(crate) fn good(self) -> Style {
        self.color(Color::Cyan)
    }

    /// For warnings and worse figures.
    pub(crate) fn odd(self) -> Style {
        self.color(Color::Yellow)
    }

    /// For errors that spoil the results.
    pub(crate) fn bad(self) -> Style {
        self.color(Color::LightRed).add_modifier(Modifier::BOLD)
    }
}
