//! What a doctor says: lines with a level, and what nobody could find out.

use serde::Serialize;

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Good to know; it limits nothing now.
    Note,
    /// It can limit a load, or bend a measurement.
    Warning,
    /// It does.
    Error,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its stable name, such as `listen-backlog`.
    pub id: &'static str,
    /// How grave it is.
    pub level: Level,
    /// What was seen, with units.
    pub seen: String,
    /// What would be well.
    pub expected: String,
    /// Why it matters.
    pub why: &'static str,
    /// How to change it.
    pub change: String,
    /// Where that is written: a manual page, the kernel's or a program's documentation, an article.
    pub source: &'static str,
}

impl Line {
    /// The same with a more exact way to change it.
    #[must_use]
    pub(super) fn changed_by(mut self, change: impl Into<String>) -> Line {
        self.change = change.into();
        self
    }
}

/// Something that could not be found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// What.
    pub what: String,
    /// What stood in the way.
    pub why: String,
}

impl Unknown {
    pub(super) fn new(what: impl Into<String>, why: impl Into<String>) -> Unknown {
        Unknown {
            what: what.into(),
            why: why.into(),
        }
    }
}

/// What is known beforehand of one thing to look at; a look at it adds what was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Topic {
    pub(super) id: &'static str,
    pub(super) expected: &'static str,
    pub(super) why: &'static str,
    pub(super) change: &'static str,
    pub(super) source: &'static str,
}

impl Topic {
    /// The line for what was seen.
    pub(super) fn line(&self, level: Level, seen: impl Into<String>) -> Line {
        Line {
            id: self.id,
            level,
            seen: seen.into(),
            expected: self.expected.to_owned(),
            why: self.why,
            change: self.change.to_owned(),
            source: self.source,
        }
    }
}

/// What one room of the doctor's found.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) lines: Vec<Line>,
    pub(super) unknown: Vec<Unknown>,
}

impl Seen {
    pub(super) fn line(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(super) fn unknown(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unknown.push(Unknown::new(what, why));
    }

    pub(super) fn extend(&mut self, other: Seen) {
        self.lines.extend(other.lines);
        self.unknown.extend(other.unknown);
    }
}

/// 1234567 as `1,234,567`, for the sentences of lines.
pub(super) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_in_order_and_numbers_are_grouped() {
        assert!(Level::Ok < Level::Note && Level::Warning < Level::Error);
        let grouped = [0, 999, 1_000, 123_456, 1_234_567].map(thousands);
        assert_eq!(grouped, ["0", "999", "1,000", "123,456", "1,234,567"]);
    }
}
