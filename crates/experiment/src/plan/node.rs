//! TOML as a tree of owned values that know their lines.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Fault, Mistakes, PlanError};

/// The most syntax errors that are told at once; after a few, one follows from the other.
const SYNTAX_ERRORS_TOLD: usize = 5;

/// A value and the line on which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Array(Vec<Node>),
    Table(Table),
}

/// A table in the order in which it was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) line: usize,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) node: Node,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    /// The line of a key, or of the table where the key is missing.
    pub(crate) fn line_of(&self, key: &str) -> usize {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map_or(self.line, |entry| entry.line)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }
}

impl Value {
    /// What this is, for the sentence "… is a number, not a text".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }

    /// The text of a scalar as its author would write it: `1.0` stays `1.0`.
    pub(crate) fn scalar_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Float(number) => Some(format!("{number:?}")),
            Self::Bool(truth) => Some(truth.to_string()),
            Self::Array(_) | Self::Table(_) => None,
        }
    }
}

/// Reads TOML; `None` where it is none, or holds what no plan can use.
pub(crate) fn parse(text: &str, file: &Path, mistakes: &mut Mistakes) -> Option<Table> {
    let lines = Lines::of(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(SYNTAX_ERRORS_TOLD) {
        let line = error.span().map_or(0, |span| lines.at(span.start));
        let what = error.message().lines().collect::<Vec<_>>().join("; ");
        // "duplicate key" and the like name nothing; the text that they are about does.
        let about = error
            .span()
            .and_then(|span| text.get(span))
            .map(str::trim)
            .unwrap_or_default();
        let what = match about.chars().count() {
            1..=40 if !about.contains('\n') => format!("{what}: {about}"),
            _ => what,
        };
        mistakes.push(PlanError::new(Fault::Syntax, file, line, what));
    }
    if !errors.is_empty() {
        return None;
    }
    let before = mistakes.made();
    let table = Builder {
        lines,
        file,
        mistakes,
    }
    .table(document.get_ref(), 1);
    (mistakes.made() == before).then_some(table)
}

/// Where each line begins.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at)
                .collect(),
        )
    }

    /// The line, from 1, that holds a byte offset.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|newline| *newline < offset) + 1
    }
}

struct Builder<'a> {
    lines: Lines,
    file: &'a Path,
    mistakes: &'a mut Mistakes,
}

impl Builder<'_> {
    fn table(&mut self, table: &DeTable<'_>, line: usize) -> Table {
        // The parser sorts keys by name; the order in which factors and levels were written is the
        // order in which results show them.
        let mut written: Vec<_> = table.iter().collect();
        written.sort_by_key(|(key, _)| key.span().start);
        let entries = written
            .into_iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                line: self.lines.at(key.span().start),
                node: self.node(value, self.lines.at(key.span().start)),
            })
            .collect();
        Table { line, entries }
    }

    fn node(&mut self, value: &Spanned<DeValue<'_>>, key_line: usize) -> Node {
        // A `[header]` table has no place of its own in the text; its key has.
        let own = self.lines.at(value.span().start);
        let line = if value.get_ref().is_table() {
            key_line
        } else {
            own
        };
        let value = match value.get_ref() {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Boolean(truth) => Value::Bool(*truth),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Value::Integer(number),
                    Err(_) => self.refuse(line, format!("{number} is too large a number")),
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Float(number),
                _ => self.refuse(line, format!("{number} is no number that a plan can use")),
            },
            DeValue::Datetime(_) => self.refuse(line, "a date has no meaning in a plan".to_owned()),
            DeValue::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| {
                        let line = self.lines.at(item.span().start);
                        self.node(item, line)
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(self.table(table, line)),
        };
        Node { line, value }
    }

    fn refuse(&mut self, line: usize, what: String) -> Value {
        self.mistakes
            .push(PlanError::new(Fault::BadValue, self.file, line, what));
        Value::Bool(false)
    }
}
