//! TOML as a tree of owned values, each with its line.

use std::cmp::Reverse;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{DiagnosticKind, Diagnostics, PlanError};

/// Maximum number of syntax errors that are reported together. Later errors usually result from the
/// first.
const SYNTAX_ERRORS_MAX: usize = 5;

/// A value and the line on which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TomlNode {
    pub(crate) line: usize,
    pub(crate) value: TomlValue,
}

/// A value of any TOML type that plans use.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TomlValue {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Array(Vec<TomlNode>),
    Table(TomlTable),
    /// A template used a value that is unreachable, for this reason. Only rendering creates it.
    Unreachable(String),
}

/// A table with its entries in source order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TomlTable {
    pub(crate) line: usize,
    pub(crate) entries: Vec<TomlEntry>,
}

/// A key with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TomlEntry {
    pub(crate) key: String,
    pub(crate) line: usize,
    pub(crate) node: TomlNode,
}

impl TomlNode {
    pub(crate) fn text(line: usize, text: impl Into<String>) -> Self {
        Self {
            line,
            value: TomlValue::Text(text.into()),
        }
    }

    pub(crate) fn array(line: usize, items: Vec<TomlNode>) -> Self {
        Self {
            line,
            value: TomlValue::Array(items),
        }
    }

    pub(crate) fn table(line: usize, entries: Vec<TomlEntry>) -> Self {
        Self {
            line,
            value: TomlValue::Table(TomlTable { line, entries }),
        }
    }

    /// Returns the table, if the value is one.
    pub(crate) fn as_table(&self) -> Option<&TomlTable> {
        match &self.value {
            TomlValue::Table(table) => Some(table),
            _ => None,
        }
    }
}

impl TomlTable {
    pub(crate) fn get(&self, key: &str) -> Option<&TomlNode> {
        self.entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }

    /// Returns the line of a key, or the line of the table if the table lacks the key.
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

impl TomlValue {
    /// Returns the type with its article, for messages such as "margin is a number, not a string".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Unreachable(_) => "a string",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Array(_) => "an array",
            Self::Table(_) => "a table",
        }
    }

    /// Returns the text of a scalar as its author wrote it (`1.0` stays `1.0`); `None` for an array,
    /// a table or an unreachable value.
    pub(crate) fn scalar_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Float(number) => Some(format!("{number:?}")),
            Self::Bool(truth) => Some(truth.to_string()),
            Self::Array(_) | Self::Table(_) | Self::Unreachable(_) => None,
        }
    }
}

/// Parses TOML. Returns `None` if the text is invalid or has values that plans can't use.
pub(crate) fn parse(text: &str, file: &Path, diagnostics: &mut Diagnostics) -> Option<TomlTable> {
    let lines = LineIndex::of(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(SYNTAX_ERRORS_MAX) {
        let line = error.span().map_or(0, |span| lines.at(span.start));
        let message = error.message().lines().collect::<Vec<_>>().join("; ");
        // Messages such as "duplicate key" don't name the key, so add the source text.
        let about = error
            .span()
            .and_then(|span| text.get(span))
            .map(str::trim)
            .unwrap_or_default();
        let message = match about.chars().count() {
            1..=40 if !about.contains('\n') => format!("{message}: {about}"),
            _ => message,
        };
        let open = error.span().and_then(|span| open_bracket(text, span.start));
        let opened = open.map(|at| lines.at(at)).filter(|opened| *opened < line);
        let message = match opened {
            Some(opened) => format!("{message} (is the bracket in line {opened} closed?)"),
            None => message,
        };
        diagnostics.push(PlanError::new(DiagnosticKind::Syntax, file, line, message));
        if opened.is_some() {
            // The parser reads all further lines as elements of the array.
            break;
        }
    }
    if !errors.is_empty() {
        return None;
    }
    let before = diagnostics.count();
    let table = TreeBuilder {
        lines,
        file,
        diagnostics,
    }
    .table(document.get_ref(), 1);
    (diagnostics.count() == before).then_some(table)
}

/// Returns the offset of the last square bracket or brace before `end` that is not closed there.
/// Strings of several lines are not considered, so the result is only good for a hint.
fn open_bracket(text: &str, end: usize) -> Option<usize> {
    let mut open = Vec::new();
    let (mut quote, mut is_comment) = (None, false);
    let before = text.char_indices().take_while(|(at, _)| *at < end);
    for (at, c) in before {
        match (c, quote) {
            ('\n', _) => (quote, is_comment) = (None, false),
            _ if is_comment => {}
            (c, Some(end)) if c == end => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('#', None) => is_comment = true,
            ('[' | '{', None) => open.push(at),
            (']' | '}', None) => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
}

/// Removes top-level keys and their values from valid TOML. Whole lines are removed, because a
/// value may span several lines and a comment may follow it.
pub(crate) fn without_keys(text: &str, keys: &[&str]) -> String {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut spans: Vec<_> = document
        .get_ref()
        .iter()
        .filter(|(key, _)| keys.contains(&&**key.get_ref()))
        .map(|(key, value)| (key.span().start, value.span().end))
        .collect();
    // Remove the last entry first, so that the offsets of the others stay valid.
    spans.sort_by_key(|span| Reverse(*span));
    let mut text = text.to_owned();
    for (start, end) in spans {
        let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
        text.replace_range(start..end, "");
    }
    text
}

/// Byte offsets of all newlines.
struct LineIndex(Vec<usize>);

impl LineIndex {
    fn of(text: &str) -> Self {
        Self(
            text.bytes()
                .enumerate()
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at)
                .collect(),
        )
    }

    /// Returns the line number, from 1, of a byte offset.
    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|newline| *newline < offset) + 1
    }
}

/// Converts the parser's values into nodes.
struct TreeBuilder<'a> {
    lines: LineIndex,
    file: &'a Path,
    diagnostics: &'a mut Diagnostics,
}

impl TreeBuilder<'_> {
    fn table(&mut self, table: &DeTable<'_>, line: usize) -> TomlTable {
        // The parser sorts keys by name, but results show factors and levels in source order.
        let mut written: Vec<_> = table.iter().collect();
        written.sort_by_key(|(key, _)| key.span().start);
        let entries = written
            .into_iter()
            .map(|(key, value)| TomlEntry {
                key: key.get_ref().to_string(),
                line: self.lines.at(key.span().start),
                node: self.node(value, self.lines.at(key.span().start)),
            })
            .collect();
        TomlTable { line, entries }
    }

    fn node(&mut self, value: &Spanned<DeValue<'_>>, key_line: usize) -> TomlNode {
        // A `[header]` table has no span of its own, but its key has one.
        let own = self.lines.at(value.span().start);
        let line = if value.get_ref().is_table() {
            key_line
        } else {
            own
        };
        let value = match value.get_ref() {
            DeValue::String(text) => TomlValue::Text(text.to_string()),
            DeValue::Boolean(truth) => TomlValue::Bool(*truth),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => TomlValue::Integer(number),
                    Err(_) => self.report(line, format!("{number} is too large")),
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => TomlValue::Float(number),
                _ => self.report(
                    line,
                    format!("{number} is not a number that a plan can use"),
                ),
            },
            DeValue::Datetime(_) => self.report(line, "a plan can't have a date here".to_owned()),
            DeValue::Array(items) => TomlValue::Array(
                items
                    .iter()
                    .map(|item| {
                        let line = self.lines.at(item.span().start);
                        self.node(item, line)
                    })
                    .collect(),
            ),
            DeValue::Table(table) => TomlValue::Table(self.table(table, line)),
        };
        TomlNode { line, value }
    }

    fn report(&mut self, line: usize, message: String) -> TomlValue {
        self.diagnostics.push(PlanError::new(
            DiagnosticKind::BadValue,
            self.file,
            line,
            message,
        ));
        TomlValue::Bool(false)
    }
}
