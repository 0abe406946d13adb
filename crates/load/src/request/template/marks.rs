//! Marks: strings that stand in for placeholders while a request is serialized, so that a request
//! with placeholders is handled like any other. The serialized bytes are then split at the marks.

use super::data::{DataTable, ValuePlace};
use super::parse::{Function, Placeholder, TextPiece};
use super::values::Value;
use super::variables::VariableUse;
use crate::values::error::SettingsError;

/// Beginning of each mark. It consists of characters that are allowed in every part of a request.
/// None of its suffixes is also one of its prefixes, so the beginning of a mark can be found after
/// any text.
const PREFIX: &str = "pronyvalue";
/// Character that is appended to the prefix of a request's marks until no part of the request
/// contains the prefix.
const FILL: char = 'x';
/// End of each mark, after its number.
const END: char = '-';

/// One piece of a serialized request: constant bytes or a marked value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MarkedPiece {
    /// Bytes that are always the same.
    Bytes(Box<[u8]>),
    /// Index of the value that is inserted here.
    Value(usize),
}

/// The names that placeholders can use in addition to the functions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ValueNames<'a> {
    /// The data file, if there is one.
    pub(crate) data: Option<&'a DataTable>,
    /// All variables of the load's journey, in the order of their indices.
    pub(crate) variables: &'a [String],
    /// Number of variables that have a value before the request, in the order of their indices.
    pub(crate) captured: usize,
}

/// The marks of one request.
#[derive(Debug)]
pub(crate) struct Marks {
    prefix: String,
    values: Vec<Value>,
    /// The text of each placeholder, without braces.
    sources: Vec<String>,
}

impl Marks {
    /// Creates marks that don't occur in any of `texts`.
    pub(crate) fn new<'t>(texts: impl Iterator<Item = &'t [u8]> + Clone) -> Marks {
        let mut prefix = PREFIX.to_owned();
        while texts
            .clone()
            .any(|text| position_of(text, prefix.as_bytes()).is_some())
        {
            prefix.push(FILL);
        }
        Marks {
            prefix,
            values: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Creates the marks of a request that has no placeholders.
    pub(crate) fn none() -> Marks {
        Marks {
            prefix: PREFIX.to_owned(),
            values: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Returns true if the request contains no marks.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The marked values, by number.
    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Joins `pieces` into one string, with marks in place of the placeholders.
    ///
    /// # Errors
    ///
    /// A name is unknown, or its column contains a value that can't be used in this part of a
    /// request.
    pub(crate) fn mark(
        &mut self,
        pieces: Vec<TextPiece>,
        place: ValuePlace,
        names: &ValueNames<'_>,
    ) -> Result<String, SettingsError> {
        let mut marked = String::new();
        for piece in pieces {
            match piece {
                TextPiece::Literal(text) => marked += &text,
                TextPiece::Placeholder(placeholder) => {
                    let value = value_of(&placeholder, place, names)?;
                    marked += &format!("{}{}{END}", self.prefix, self.values.len());
                    self.values.push(value);
                    self.sources.push(placeholder.source);
                }
            }
        }
        Ok(marked)
    }

    /// Returns the mark of a value that the lines of a long list contain.
    pub(crate) fn mark_listed(&mut self, value: Value) -> String {
        let mark = format!("{}{}{END}", self.prefix, self.values.len());
        self.values.push(value);
        self.sources.push(String::new());
        mark
    }

    /// Returns true if `text` contains a mark.
    pub(crate) fn is_in(&self, text: &str) -> bool {
        !self.is_empty() && text.contains(&self.prefix)
    }

    pub(crate) fn split(&self, bytes: &[u8]) -> Vec<MarkedPiece> {
        let mut pieces = Vec::new();
        let mut rest = bytes;
        while let Some((before, number, after)) = self.next_mark(rest) {
            if !before.is_empty() {
                pieces.push(MarkedPiece::Bytes(before.into()));
            }
            pieces.push(MarkedPiece::Value(number));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(MarkedPiece::Bytes(rest.into()));
        }
        pieces
    }

    /// Returns the bytes before the first mark, the mark's number, and the bytes after it.
    fn next_mark<'b>(&self, bytes: &'b [u8]) -> Option<(&'b [u8], usize, &'b [u8])> {
        if self.is_empty() {
            return None;
        }
        let at = position_of(bytes, self.prefix.as_bytes())?;
        let number = &bytes[at + self.prefix.len()..];
        let digits = number.iter().position(|byte| *byte == END as u8)?;
        let parsed = std::str::from_utf8(&number[..digits]).ok()?.parse().ok()?;
        Some((&bytes[..at], parsed, &number[digits + 1..]))
    }

    /// Replaces the marks in `text` with the placeholders that they represent.
    pub(crate) fn unmark(&self, text: &str) -> String {
        let mut unmarked = String::new();
        for piece in self.split(text.as_bytes()) {
            match piece {
                MarkedPiece::Bytes(bytes) => unmarked += &String::from_utf8_lossy(&bytes),
                MarkedPiece::Value(number) => {
                    let source = self.sources.get(number).map_or("", String::as_str);
                    unmarked += &format!("{{{{ {source} }}}}");
                }
            }
        }
        unmarked
    }
}

/// Functions without arguments, and their values.
const FUNCTIONS: [(&str, Value); 2] = [("seq", Value::Sequence), ("uuid", Value::Uuid)];

/// Names of the functions without arguments.
pub fn request_functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

fn value_of(
    placeholder: &Placeholder,
    place: ValuePlace,
    names: &ValueNames<'_>,
) -> Result<Value, SettingsError> {
    let data = names.data;
    let name = match &placeholder.function {
        &Function::Random { first, last } => return Ok(Value::Random { first, last }),
        Function::Name(name) => name,
    };
    if let Some(index) = names.variables.iter().position(|own| own == name) {
        if index >= names.captured {
            let text = format!("{{{{ {name} }}}}: no earlier step captures \"{name}\"");
            return Err(SettingsError::from(text));
        }
        let used = VariableUse::new(index, placeholder.filter, place);
        return Ok(Value::Variable(used));
    }
    // A column takes precedence over a function of the same name, because files often have a column
    // `seq`.
    let column = data.and_then(|data| Some((data, data.column(name)?)));
    if let Some((data, column)) = column {
        let cells = data.encode(column, placeholder.filter, place)?;
        return Ok(Value::Column(cells));
    }
    let mut functions = FUNCTIONS.iter();
    match functions.find(|(function, _)| function == name) {
        Some((_, value)) => Ok(value.clone()),
        None if names.variables.is_empty() => Err(unknown(name, data)),
        None => {
            let variables = names.variables.join(", ");
            let error = unknown(name, data);
            Err(error.hint(format!("a variable of an earlier step: {variables}")))
        }
    }
}

fn unknown(name: &str, data: Option<&DataTable>) -> SettingsError {
    let functions = "seq, uuid or random(a, b)";
    match data {
        Some(data) => {
            let (shown, columns) = (data.shown(), data.columns().join(", "));
            SettingsError::about("data").text(format!(
                "{{{{ {name} }}}}: {shown} has no column \"{name}\"; write one of {columns}, {functions}"
            ))
        }
        None => SettingsError::from(format!("{{{{ {name} }}}}: no value has this name"))
            .hint(format!("write {functions}"))
            .hint("a column of a file given with ")
            .name("data")
            .hint_in_parentheses("for two braces, write {{ \"{{\" }}"),
    }
}

/// Returns the position of the first occurrence of `part`.
fn position_of(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
