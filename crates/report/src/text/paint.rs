//! Colors and line wrapping for terminals.

use prony_wording::Tone;

use super::options::TextOptions;
use crate::table::{Table, plain};

/// Applies colors to text if the options enable them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    options: TextOptions,
}

impl Paint {
    pub(super) fn new(options: TextOptions) -> Paint {
        Paint { options }
    }

    /// Formats a paragraph: `text` broken between words. The first line starts with `first`, and
    /// the others with an indentation of the same width.
    pub(super) fn paragraph(self, first: &str, width_of_first: usize, text: &str) -> String {
        let indent = " ".repeat(width_of_first);
        let mut out = String::new();
        let mut line = String::new();
        let mut width = width_of_first;
        for word in plain(text).split_whitespace() {
            let length = word.chars().count();
            if !line.is_empty() && width + 1 + length > self.options.width {
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

    /// Formats a paragraph of several parts, some of which have the color of a tone.
    pub(super) fn toned_paragraph(self, parts: &[(&str, Option<Tone>)]) -> String {
        let whole: String = parts.iter().map(|(text, _)| plain(text)).collect();
        // Line breaks change only white space, so the boundaries of parts can be found by counting
        // other characters.
        let mut tones = parts.iter().flat_map(|(text, tone)| {
            let letters = plain(text).chars().filter(|c| !c.is_whitespace()).count();
            std::iter::repeat_n(*tone, letters)
        });
        let (mut out, mut run, mut current) = (String::new(), String::new(), None);
        for c in self.paragraph("", 0, &whole).chars() {
            let tone = match c {
                '\n' => None,
                c if c.is_whitespace() => current,
                _ => tones.next().flatten(),
            };
            if tone != current {
                out += &self.toned_or_plain(current, &std::mem::take(&mut run));
                current = tone;
            }
            run.push(c);
        }
        out + &self.toned_or_plain(current, &run)
    }

    fn toned_or_plain(self, tone: Option<Tone>, text: &str) -> String {
        match tone {
            Some(tone) if !text.is_empty() => {
                let kept = text.trim_end();
                format!("{}{}", self.toned(tone, kept), &text[kept.len()..])
            }
            _ => text.to_owned(),
        }
    }

    /// Applies a style to each line separately.
    fn each_line(lines: &str, style: impl Fn(&str) -> String) -> String {
        let lines = lines.lines();
        lines.map(|line| style(line) + "\n").collect()
    }

    pub(super) fn dim_lines(self, lines: &str) -> String {
        Paint::each_line(lines, |line| self.dim(line))
    }

    pub(super) fn bold_lines(self, lines: &str) -> String {
        Paint::each_line(lines, |line| self.bold(line))
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.options.color {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Formats a table so that its lines fit the width if possible.
    pub(super) fn table(self, indent: &str, table: &Table) -> String {
        table.to_text_within(indent, self.options.width)
    }

    /// Text in the color of a tone.
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
