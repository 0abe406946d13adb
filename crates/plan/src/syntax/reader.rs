//! Reads typed values from a plan's tree. Each value that can't be read is reported with its line.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use prony_record::quantity;

use super::node::{TomlNode, TomlTable, TomlValue};
use crate::diagnostic::{DiagnosticKind, Diagnostics, PlanError, did_you_mean_or_list};

/// Reads the values of one file and collects their problems.
///
/// If a value has a problem, methods report it and return `None`. Callers then continue with other
/// values, so that all problems are reported together. The argument `subject` of the methods names
/// the value in messages.
pub(crate) struct PlanReader<'a> {
    pub(crate) file: &'a Path,
    pub(crate) diagnostics: &'a mut Diagnostics,
}

impl PlanReader<'_> {
    /// Reports a problem without a hint.
    pub(crate) fn report(&mut self, kind: DiagnosticKind, line: usize, message: impl Into<String>) {
        self.diagnostics
            .push(PlanError::new(kind, self.file, line, message));
    }

    /// Reports a problem with a hint.
    pub(crate) fn report_with_hint(
        &mut self,
        kind: DiagnosticKind,
        line: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.diagnostics
            .push(PlanError::new(kind, self.file, line, message).with_hint(hint));
    }

    fn wrong_type(&mut self, node: &TomlNode, subject: &str, wanted: &str) {
        let text = format!("{subject} is {}, not {wanted}", node.value.kind());
        self.report(DiagnosticKind::WrongType, node.line, text);
    }

    /// Reports the keys that are not in `known`.
    pub(crate) fn report_unknown_keys(&mut self, table: &TomlTable, owner: &str, known: &[&str]) {
        for entry in table
            .entries
            .iter()
            .filter(|entry| !known.contains(&entry.key.as_str()))
        {
            let message = format!("{owner} has no key \"{}\"", entry.key);
            let hint = did_you_mean_or_list(&entry.key, known.iter().copied(), "known keys");
            self.report_with_hint(DiagnosticKind::UnknownKey, entry.line, message, hint);
        }
    }

    /// Reads a string. Numbers and Booleans are converted to their source text.
    pub(crate) fn scalar(&mut self, node: &TomlNode, subject: &str) -> Option<String> {
        let text = node.value.scalar_text();
        match text {
            None => self.wrong_type(node, subject, "a string"),
            Some(ref text) if text.contains('\0') => {
                self.report(
                    DiagnosticKind::BadValue,
                    node.line,
                    format!("{subject} contains a NUL byte"),
                );
                return None;
            }
            Some(_) => {}
        }
        text
    }

    /// Reads a string. Other types, such as numbers, are rejected.
    pub(crate) fn text(&mut self, node: &TomlNode, subject: &str) -> Option<String> {
        match &node.value {
            TomlValue::Text(_) => self.scalar(node, subject),
            _ => {
                self.wrong_type(node, subject, "a string");
                None
            }
        }
    }

    /// Reads an array of strings. A single string counts as an array of one.
    pub(crate) fn texts(&mut self, node: &TomlNode, subject: &str) -> Option<Vec<String>> {
        match &node.value {
            TomlValue::Array(items) => {
                // Collect all items first. Otherwise, the first problem would keep later items from
                // being checked.
                let read: Vec<_> = items
                    .iter()
                    .map(|item| self.scalar(item, subject))
                    .collect();
                read.into_iter().collect()
            }
            TomlValue::Table(_) => {
                self.wrong_type(node, subject, "an array of strings");
                None
            }
            _ => Some(vec![self.scalar(node, subject)?]),
        }
    }

    pub(crate) fn table<'n>(&mut self, node: &'n TomlNode, subject: &str) -> Option<&'n TomlTable> {
        match &node.value {
            TomlValue::Table(table) => Some(table),
            _ => {
                self.wrong_type(node, subject, "a table");
                None
            }
        }
    }

    /// Reads a whole number within `range`, or a string such as `"4K"`.
    pub(crate) fn whole(
        &mut self,
        node: &TomlNode,
        subject: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let number = match &node.value {
            TomlValue::Integer(number) => u64::try_from(*number).ok(),
            TomlValue::Text(text) => quantity::size(text).ok(),
            _ => {
                self.wrong_type(node, subject, "a whole number");
                return None;
            }
        };
        let inside = number.filter(|number| range.contains(number));
        if inside.is_none() {
            let written = node.value.scalar_text().unwrap_or_default();
            let text = match *range.end() {
                u64::MAX => {
                    format!(
                        "{subject} is {written}, not a whole number from {}",
                        range.start()
                    )
                }
                end => format!(
                    "{subject} is {written}, not a whole number from {} to {end}",
                    range.start()
                ),
            };
            self.report(DiagnosticKind::BadValue, node.line, text);
        }
        inside
    }

    /// Reads a duration with a unit.
    pub(crate) fn duration(&mut self, node: &TomlNode, subject: &str) -> Option<Duration> {
        let text = self.scalar(node, subject)?;
        self.valid(quantity::time(&text), node, subject)
    }

    /// Reads core numbers, written as `"0-3,6"`, `2` or `[0, 1]`.
    pub(crate) fn cores(&mut self, node: &TomlNode, subject: &str) -> Option<Vec<usize>> {
        let text = self.texts(node, subject)?.join(",");
        if text.trim().is_empty() {
            return Some(Vec::new());
        }
        self.valid(quantity::cores(&text), node, subject)
    }

    /// Returns a parsed value. If parsing failed, reports the error and returns `None`.
    pub(crate) fn valid<T>(
        &mut self,
        parsed: Result<T, impl fmt::Display>,
        node: &TomlNode,
        subject: &str,
    ) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(error) => {
                let message = format!("{subject}: {error}");
                self.report(DiagnosticKind::BadValue, node.line, message);
                None
            }
        }
    }

    /// Reads a string that must be one of `words`.
    pub(crate) fn choice<'w>(
        &mut self,
        node: &TomlNode,
        subject: &str,
        words: &[&'w str],
    ) -> Option<&'w str> {
        let text = self.scalar(node, subject)?;
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            let message = format!("{subject} is \"{text}\"");
            let hint = did_you_mean_or_list(&text, words.iter().copied(), "one of");
            self.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        }
        found
    }
}
