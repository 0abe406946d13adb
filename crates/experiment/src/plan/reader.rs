//! Reading typed values out of a plan's tree, each refusal with its line.

use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use prony_load::quantity;

use super::error::{Fault, Mistakes, PlanError, did_you_mean};
use super::node::{Node, Table, Value};

/// Reads values of one file and collects what is wrong with them.
///
/// Every method returns `None` after a refusal, so that reading goes on and all mistakes are told
/// together.
pub(crate) struct Reader<'a> {
    pub(crate) file: &'a Path,
    pub(crate) mistakes: &'a mut Mistakes,
}

impl Reader<'_> {
    /// Notes a mistake without a mend.
    pub(crate) fn refuse(&mut self, fault: Fault, line: usize, what: impl Into<String>) {
        self.mistakes
            .push(PlanError::new(fault, self.file, line, what));
    }

    /// Notes a mistake and what would mend it.
    pub(crate) fn refuse_with(
        &mut self,
        fault: Fault,
        line: usize,
        what: impl Into<String>,
        mend: impl Into<String>,
    ) {
        self.mistakes
            .push(PlanError::new(fault, self.file, line, what).mend(mend));
    }

    fn wrong_type(&mut self, node: &Node, what: &str, wanted: &str) {
        let text = format!("{what} is {}, not {wanted}", node.value.kind());
        self.refuse(Fault::WrongType, node.line, text);
    }

    /// Refuses the keys that are not in `known`.
    pub(crate) fn known_keys(&mut self, table: &Table, owner: &str, known: &[&str]) {
        for entry in table
            .entries
            .iter()
            .filter(|entry| !known.contains(&entry.key.as_str()))
        {
            let what = format!("{owner} has no key \"{}\"", entry.key);
            let mend = did_you_mean(&entry.key, known.iter().copied())
                .unwrap_or_else(|| format!("known are: {}", known.join(", ")));
            self.refuse_with(Fault::UnknownKey, entry.line, what, mend);
        }
    }

    /// A text; numbers and truth values count as the text that they are written as.
    pub(crate) fn scalar(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = node.value.scalar_text();
        match text {
            None => self.wrong_type(node, what, "a string"),
            Some(ref text) if text.contains('\0') => {
                self.refuse(
                    Fault::BadValue,
                    node.line,
                    format!("{what} holds a NUL byte"),
                );
                return None;
            }
            Some(_) => {}
        }
        text
    }

    /// A text that was written as one.
    pub(crate) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.value {
            Value::Text(_) => self.scalar(node, what),
            _ => {
                self.wrong_type(node, what, "a string");
                None
            }
        }
    }

    /// Several texts; one alone may stand without brackets.
    pub(crate) fn texts(&mut self, node: &Node, what: &str) -> Option<Vec<String>> {
        match &node.value {
            Value::Array(items) => {
                // Every item is looked at before the first refusal ends it.
                let read: Vec<_> = items.iter().map(|item| self.scalar(item, what)).collect();
                read.into_iter().collect()
            }
            Value::Table(_) => {
                self.wrong_type(node, what, "an array of strings");
                None
            }
            _ => Some(vec![self.scalar(node, what)?]),
        }
    }

    pub(crate) fn table<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n Table> {
        match &node.value {
            Value::Table(table) => Some(table),
            _ => {
                self.wrong_type(node, what, "a table");
                None
            }
        }
    }

    /// A whole number within `range`; `"4K"` is one too.
    pub(crate) fn whole(
        &mut self,
        node: &Node,
        what: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let number = match &node.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => quantity::size(text).ok(),
            _ => {
                self.wrong_type(node, what, "a whole number");
                return None;
            }
        };
        let inside = number.filter(|number| range.contains(number));
        if inside.is_none() {
            let written = node.value.scalar_text().unwrap_or_default();
            let text = match *range.end() {
                u64::MAX => {
                    format!(
                        "{what} is {written}, not a whole number from {}",
                        range.start()
                    )
                }
                end => format!(
                    "{what} is {written}, not a whole number from {} to {end}",
                    range.start()
                ),
            };
            self.refuse(Fault::BadValue, node.line, text);
        }
        inside
    }

    /// A time with its unit.
    pub(crate) fn duration(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let text = self.scalar(node, what)?;
        match quantity::time(&text) {
            Ok(time) => Some(time),
            Err(trouble) => {
                self.refuse(Fault::BadValue, node.line, format!("{what}: {trouble}"));
                None
            }
        }
    }

    /// `"0-3,6"`, `2` or `[0, 1]` as core numbers.
    pub(crate) fn cores(&mut self, node: &Node, what: &str) -> Option<Vec<usize>> {
        let text = self.texts(node, what)?.join(",");
        if text.trim().is_empty() {
            return Some(Vec::new());
        }
        match quantity::cores(&text) {
            Ok(cores) => Some(cores),
            Err(trouble) => {
                self.refuse(Fault::BadValue, node.line, format!("{what}: {trouble}"));
                None
            }
        }
    }

    /// One word out of a few.
    pub(crate) fn choice<'w>(
        &mut self,
        node: &Node,
        what: &str,
        words: &[&'w str],
    ) -> Option<&'w str> {
        let text = self.scalar(node, what)?;
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            let what = format!("{what} is \"{text}\"");
            let mend = did_you_mean(&text, words.iter().copied())
                .unwrap_or_else(|| format!("one of: {}", words.join(", ")));
            self.refuse_with(Fault::BadValue, node.line, what, mend);
        }
        found
    }
}
