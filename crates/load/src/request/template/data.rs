//! A CSV file whose columns provide values for requests.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::parse::Filter;
use crate::values::error::SettingsError;
use crate::values::input_file::{self, DATA_BYTES_MAX};

/// Bytes that are percent-encoded: all but the unreserved ones (RFC 3986 §2.3). The result has the
/// same meaning in a path and in a query.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The rows of a CSV file.
#[derive(Debug)]
pub(crate) struct DataTable {
    /// Path of the file, as shown in messages.
    shown: String,
    columns: Vec<String>,
    /// The cells of all rows, concatenated.
    text: String,
    /// End of each cell in `text`.
    ends: Vec<usize>,
    /// Line number of each row.
    lines: Vec<u64>,
    /// Encoded columns. They are cached, because many requests may use the same column.
    encoded: RefCell<HashMap<(usize, Filter, ValuePlace), Arc<CellSet>>>,
}

/// Reads the names of a data file's columns.
///
/// # Errors
///
/// An error that names the file, and also the line if it isn't valid CSV.
pub fn data_columns(path: &Path) -> Result<Vec<String>, SettingsError> {
    DataTable::read(path).map(|table| table.columns)
}

/// Returns the line of a quoted value that the text ends within (RFC 4180), if there is one. The
/// reader would accept it, and take all further lines for a part of the value.
fn unclosed_quote(text: &str) -> Option<u64> {
    let (mut line, mut opened, mut begins) = (1, None, true);
    for c in text.bytes() {
        line += u64::from(c == b'\n');
        match (c, opened) {
            // A doubled quote closes the value and opens it again.
            (b'"', Some(_)) => (opened, begins) = (None, true),
            (b'"', None) if begins => opened = Some(line),
            (_, Some(_)) => {}
            (_, None) => begins = matches!(c, b',' | b'\n' | b'\r'),
        }
    }
    opened
}

impl DataTable {
    /// Reads the file at `path`, whose first line names the columns.
    ///
    /// # Errors
    ///
    /// An error that names the file and the invalid line.
    pub(crate) fn read(path: &Path) -> Result<DataTable, SettingsError> {
        let of_file =
            |error: &str| SettingsError::value("data", path.display()).text(format!(": {error}"));
        let bytes = input_file::read_file(path, DATA_BYTES_MAX).map_err(|error| {
            of_file(&error.to_string())
                .hint_in_parentheses("a CSV file is expected; ")
                .name("body")
                .text(" sends a body")
        })?;
        let text = input_file::decode(bytes).map_err(of_file)?;
        let shown = path.display().to_string();
        DataTable::parse(&text, &shown).map_err(|error| match error {
            DataError::File(text) => of_file(&text),
            DataError::Line(line, text) => {
                let error = SettingsError::about("data").text(text);
                error.at(format!("{shown}:{line}"))
            }
        })
    }

    fn parse(text: &str, shown: &str) -> Result<DataTable, DataError> {
        if let Some(line) = unclosed_quote(text) {
            let error =
                "the quote that begins here is not closed; write \"\" for a quote in a value";
            return Err(DataError::Line(line, error.to_owned()));
        }
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text.as_bytes());
        let mut table = DataTable {
            shown: shown.to_owned(),
            columns: Vec::new(),
            text: String::with_capacity(text.len()),
            ends: Vec::new(),
            lines: Vec::new(),
            encoded: RefCell::default(),
        };
        let mut record = csv::StringRecord::new();
        while reader
            .read_record(&mut record)
            .map_err(|error| DataError::File(error.to_string()))?
        {
            let line = record.position().map_or(0, csv::Position::line);
            if table.columns.is_empty() {
                table.columns = record.iter().map(|name| name.trim().to_owned()).collect();
                table.check_columns(line)?;
                continue;
            }
            if record.len() != table.columns.len() {
                return Err(DataError::Line(line, table.ragged(record.len())));
            }
            for cell in &record {
                table.text += cell;
                table.ends.push(table.text.len());
            }
            table.lines.push(line);
        }
        if table.lines.is_empty() {
            Err(DataError::File(
            "the file has no rows; its first line names the columns, and each further line is a row"
                .to_owned(),
        ))
        } else {
            Ok(table)
        }
    }

    fn check_columns(&self, line: u64) -> Result<(), DataError> {
        let mut names = self.columns.iter().enumerate();
        let repeated =
            names.find(|(at, name)| !name.is_empty() && self.columns[..*at].contains(name));
        match repeated {
            Some((_, name)) => Err(DataError::Line(
                line,
                format!("two columns have the name \"{name}\"; rename one"),
            )),
            None => Ok(()),
        }
    }

    fn ragged(&self, cells: usize) -> String {
        let columns = self.columns.len();
        let hint = if cells > columns {
            "put values with commas in double quotes"
        } else {
            "separate all columns with commas, including empty ones"
        };
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        format!(
            "{cells} value{} in a table of {columns} column{}; {hint}",
            plural(cells),
            plural(columns)
        )
    }

    /// Path of the file, as shown in messages.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Number of rows, at least one.
    pub(crate) fn row_count(&self) -> usize {
        self.lines.len()
    }

    /// Index of the column with this name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|own| own == name)
    }

    fn cell(&self, row: usize, column: usize) -> &str {
        let index = row * self.columns.len() + column;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[index]]
    }

    /// Encodes the cells of a column.
    ///
    /// # Errors
    ///
    /// An error that names the line of the first value that can't be used in this part of a
    /// request.
    pub(crate) fn encode(
        &self,
        column: usize,
        filter: Option<Filter>,
        place: ValuePlace,
    ) -> Result<Arc<CellSet>, SettingsError> {
        let filter = filter.unwrap_or(place.default_filter());
        let key = (column, filter, place);
        if let Some(cells) = self.encoded.borrow().get(&key) {
            return Ok(cells.clone());
        }
        let mut cells = CellSet::default();
        for (row, line) in self.lines.iter().enumerate() {
            // Leading and trailing whitespace is not part of a field's value (RFC 9110 §5.5).
            let cell = match place {
                ValuePlace::Header => self.cell(row, column).trim_matches([' ', '\t']),
                _ => self.cell(row, column),
            };
            let start = cells.bytes.len();
            append_encoded(cell, filter, &mut cells.bytes);
            place.check(&cells.bytes[start..]).map_err(|error| {
                let (shown, name) = (&self.shown, &self.columns[column]);
                let text = format!("the value {cell:?} of column {name} {error}");
                let error = SettingsError::about("data").text(text);
                error.at(format!("{shown}:{line}"))
            })?;
            cells.ends.push(cells.bytes.len());
        }
        let cells = Arc::new(cells);
        self.encoded.borrow_mut().insert(key, cells.clone());
        Ok(cells)
    }
}

/// Reason why the content of a file isn't a valid table.
#[derive(Debug)]
enum DataError {
    File(String),
    Line(u64, String),
}

/// The part of a request that a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ValuePlace {
    /// Path or query of the URL.
    Url,
    /// Value of a header.
    Header,
    /// Value of the Host header.
    Host,
    Body,
}

impl ValuePlace {
    /// Returns the encoding that applies to values without a filter.
    pub(super) fn default_filter(self) -> Filter {
        match self {
            ValuePlace::Url => Filter::Url,
            ValuePlace::Header | ValuePlace::Host | ValuePlace::Body => Filter::Raw,
        }
    }

    /// Checks that an encoded value can be used in this part of a request.
    ///
    /// # Errors
    ///
    /// The rest of a sentence that begins with the value, such as "can't be used in Host".
    pub(super) fn check(self, value: &[u8]) -> Result<(), &'static str> {
        let is_visible = |byte: &u8| byte.is_ascii_graphic() && *byte != b'#';
        let is_in_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%:[]".contains(byte);
        match self {
            ValuePlace::Url if !value.iter().all(is_visible) => {
                Err("can't be used in a URL unchanged; without a filter it is percent-encoded")
            }
            ValuePlace::Header if !prony_protocol::is_value(value) => Err(
                "can't be used in a header, because it has a line break or another control \
                 character; remove it, or encode it with \"| url\"",
            ),
            ValuePlace::Host if !value.iter().all(is_in_host) => {
                Err("can't be used in Host; write a name or an address")
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn append_encoded(cell: &str, filter: Filter, out: &mut Vec<u8>) {
    match filter {
        Filter::Raw => out.extend_from_slice(cell.as_bytes()),
        Filter::Url => {
            let encoded = percent_encode(cell.as_bytes(), RESERVED);
            out.extend(encoded.flat_map(str::bytes));
        }
        Filter::Json => {
            let quoted = serde_json::Value::from(cell).to_string();
            out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
        }
    }
}

/// The encoded cells of one column.
#[derive(Debug, Default)]
pub(crate) struct CellSet {
    bytes: Vec<u8>,
    /// End of each cell in the text.
    ends: Vec<usize>,
}

impl CellSet {
    /// Appends the cell of the next row.
    pub(crate) fn push(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.ends.push(self.bytes.len());
    }

    /// Total length of the cells in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The encoded cell of a row.
    #[inline]
    pub(crate) fn cell(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[row]]
    }
}
