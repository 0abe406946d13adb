//! Colours, none of which says anything by itself: words and marks say it, too. Blue and yellow are
//! told apart by all eyes, red and green are not, so those two never stand for opposites.

use ratatui::style::{Color, Modifier, Style};

use crate::terminal;

/// How things look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    has_colours: bool,
}

impl Theme {
    /// With colours, unless NO_COLOR is set.
    pub(crate) fn of_environment() -> Theme {
        Theme {
            has_colours: !terminal::refuses_colours(),
        }
    }

    /// With or without colours.
    #[cfg(test)]
    pub(crate) fn new(has_colours: bool) -> Theme {
        Theme { has_colours }
    }

    fn colour(self, colour: Color) -> Style {
        match self.has_colours {
            true => Style::new().fg(colour),
            false => Style::new(),
        }
    }

    /// What is looked for first.
    pub(crate) fn strong(self) -> Style {
        // On a dim line it is not dim.
        Style::new()
            .add_modifier(Modifier::BOLD)
            .remove_modifier(Modifier::DIM)
    }

    /// What names others.
    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Answers as expected; a better figure.
    pub(crate) fn good(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// What is to be noticed; a worse figure.
    pub(crate) fn odd(self) -> Style {
        self.colour(Color::Yellow)
    }

    /// What spoils the results.
    pub(crate) fn bad(self) -> Style {
        self.colour(Color::LightRed).add_modifier(Modifier::BOLD)
    }
}
