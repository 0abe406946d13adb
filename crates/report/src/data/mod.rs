//! Tables of a report for other programs: plain numbers, with units in the column names.
//!
//! Each [`DataTable`] is written as `<name>.csv` and `<name>.json`. docs/tables.md describes the
//! columns. Columns are never renamed; new ones are added at the end.

mod experiment;
mod load;
mod rounds;
mod runs;

use serde_json::{Map, Value};

pub use experiment::experiment;
pub use load::load;
pub(crate) use load::series;
pub use runs::runs;

/// A table for other programs.
#[derive(Debug, Clone, PartialEq)]
pub struct DataTable {
    /// The file's name without its extension.
    pub name: &'static str,
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<DataCell>>,
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq)]
pub enum DataCell {
    /// Text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Any other number; never infinite or NaN.
    Number(f64),
    /// Unknown.
    Empty,
}

impl From<&str> for DataCell {
    fn from(text: &str) -> DataCell {
        DataCell::Text(text.to_owned())
    }
}

impl From<&String> for DataCell {
    fn from(text: &String) -> DataCell {
        DataCell::Text(text.clone())
    }
}

impl From<u64> for DataCell {
    fn from(count: u64) -> DataCell {
        DataCell::Count(count)
    }
}

impl From<u32> for DataCell {
    fn from(count: u32) -> DataCell {
        DataCell::Count(count.into())
    }
}

impl From<f64> for DataCell {
    fn from(number: f64) -> DataCell {
        match number.is_finite() {
            true => DataCell::Number(number),
            false => DataCell::Empty,
        }
    }
}

impl<T: Into<DataCell>> From<Option<T>> for DataCell {
    fn from(value: Option<T>) -> DataCell {
        value.map_or(DataCell::Empty, Into::into)
    }
}

impl DataCell {
    fn text(&self) -> String {
        match self {
            DataCell::Text(text) => text.clone(),
            DataCell::Count(count) => count.to_string(),
            DataCell::Number(number) => number.to_string(),
            DataCell::Empty => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            DataCell::Text(text) => Value::from(text.as_str()),
            DataCell::Count(count) => Value::from(*count),
            DataCell::Number(number) => Value::from(*number),
            DataCell::Empty => Value::Null,
        }
    }
}

impl DataTable {
    fn new(name: &'static str, columns: &[&str]) -> DataTable {
        DataTable {
            name,
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    fn push(&mut self, row: Vec<DataCell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.name);
        self.rows.push(row);
    }

    /// Returns the table as CSV (RFC 4180, but lines end with only a line feed).
    pub fn to_csv(&self) -> String {
        let headings: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let rows = self.rows.iter();
        let texts = rows.map(|row| row.iter().map(DataCell::text).collect());
        crate::csv_text::write(&headings, texts)
    }

    /// Returns the table as a JSON array with an object for each row. Empty values are null.
    pub fn to_json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let cells = self
                .columns
                .iter()
                .cloned()
                .zip(row.iter().map(DataCell::json));
            Value::Object(cells.collect::<Map<_, _>>())
        });
        let rows: Vec<Value> = rows.collect();
        format!("{:#}\n", Value::Array(rows))
    }
}
