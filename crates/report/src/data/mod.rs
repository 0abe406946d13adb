//! Every table of a report for programs: plain numbers, units in the names of columns.
//!
//! Enters: an experiment, a load, or two runs. Leaves: [`DataTable`]s, each of which is written as
//! `<name>.csv` and `<name>.json`. What their columns are called and mean is docs/tables.md; a
//! column is never renamed, new ones are added at the end.

mod experiment;
mod load;
mod runs;

use serde_json::{Map, Value};

pub use experiment::experiment;
pub use load::load;
pub use runs::runs;

/// One table.
#[derive(Debug, Clone, PartialEq)]
pub struct DataTable {
    /// The file's name without its extension.
    pub name: &'static str,
    /// The columns' names.
    pub columns: Vec<String>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Any other number; never infinite, never NaN.
    Number(f64),
    /// Nothing is known.
    Empty,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Cell {
        Cell::Text(text.clone())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Cell {
        Cell::Count(count.into())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        match number.is_finite() {
            true => Cell::Number(number),
            false => Cell::Empty,
        }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Empty, Into::into)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Empty => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Count(count) => Value::from(*count),
            Cell::Number(number) => Value::from(*number),
            Cell::Empty => Value::Null,
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

    fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.name);
        self.rows.push(row);
    }

    /// Headings and rows (RFC 4180, but for lines that end with a line feed alone).
    pub fn to_csv(&self) -> String {
        let headings: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        let rows = self.rows.iter();
        let texts = rows.map(|row| row.iter().map(Cell::text).collect());
        crate::csv::write(&headings, texts)
    }

    /// An array with an object for each row; what is empty is null.
    pub fn to_json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().cloned().zip(row.iter().map(Cell::json));
            Value::Object(cells.collect::<Map<_, _>>())
        });
        let rows: Vec<Value> = rows.collect();
        format!("{:#}\n", Value::Array(rows))
    }
}
