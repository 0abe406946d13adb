//! Colour for terminals that want it, and lines that fit.

use super::Look;
use crate::table::{Table, plain};
use crate::verdict_view::Tone;

/// Paints, or leaves texts as they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    look: Look,
}

impl Paint {
    pub(super) fn new(look: Look) -> Paint {
        Paint { look }
    }

    /// A paragraph: `text` broken between words, the first line led by `first`, the others by as many
    /// spaces.
    pub(super) fn paragraph(self, first: &str, width_of_first: usize, text: &str) -> String {
        let indent = " ".repeat(width_of_first);
        let mut out = String::new();
        let mut line = String::new();
        let mut width = width_of_first;
        for word in plain(text).split_whitespace() {
            let length = word.chars().count();
            if !line.is_empty() && width + 1 + length > self.look.width {
                out += &format!("{line}\n{indent}");
                line.clear();
                width = width_of_first;
            }
            if !line.is_empty() {
                line.push(' ');
                width += 1;
            }
            line += word;
            width += length;
        }
        format!("{first}{out}{line}\n")
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.look.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// A table whose lines fit.
    pub(super) fn table(self, indent: &str, table: &Table) -> String {
        table.to_text_within(indent, self.look.width)
    }

    /// A text in the colour of its tone.
    pub(super) fn toned(self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Good => self.green(text),
            Tone::Care => self.yellow(text),
            Tone::Bad => self.red(text),
            Tone::Muted => self.dim(text),
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(super) fn green(self, text: &str) -> String {
        self.with("32", text)
    }
}
