//! Tables of a report for other programs: plain numbers, with units in the column names.
//!
//! Each [`DataTable`] is written as `<name>.csv` and `<name>.json`. docs/tables.md describes the
//! columns. Columns are never renamed; new ones are added at the end.

mod experiment;
pub mod history;
mod load;
mod rounds;
mod runs;

use prony_record::Finding;
use prony_stats::Effect;
use serde_json::{Map, Value};

use crate::table::plain_lines;
use crate::text::severity_name;

pub(crate) use experiment::compared_metrics;
pub use experiment::experiment;
pub use load::load;
pub(crate) use load::series;
pub(crate) use runs::comparisons as run_comparisons;
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
    /// A string.
    Text(String),
    /// A whole number.
    Count(u64),
    /// Any other number; never infinite or NaN.
    Number(f64),
    /// An unknown value.
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

impl From<String> for DataCell {
    fn from(text: String) -> DataCell {
        DataCell::Text(text)
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
        if number.is_finite() {
            DataCell::Number(number)
        } else {
            DataCell::Empty
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

/// A table under construction: the items that its rows describe, and the columns so far.
struct DataTableBuilder<T> {
    items: Vec<T>,
    table: DataTable,
}

impl<T: Copy> DataTableBuilder<T> {
    /// Adds a column. `cell` returns an item's value.
    fn column<C: Into<DataCell>>(mut self, name: &str, cell: impl Fn(T) -> C) -> Self {
        self.table.columns.push(name.to_owned());
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(*item).into());
        }
        self
    }

    /// Adds the columns of an effect and its interval.
    fn effect<'a>(self, effect: impl Fn(T) -> &'a Effect) -> Self {
        self.column("ratio", |it| effect(it).ratio)
            .column("difference", |it| effect(it).difference)
            .column("low", |it| effect(it).low)
            .column("high", |it| effect(it).high)
    }

    /// Adds the columns of a finding.
    fn finding<'a>(self, finding: impl Fn(T) -> &'a Finding) -> Self {
        self.column("severity", |it| severity_name(finding(it).severity))
            .column("id", |it| finding(it).id.as_str())
            .column("text", |it| &finding(it).text)
    }

    fn build(self) -> DataTable {
        self.table
    }
}

impl DataTable {
    /// Starts a table with a row for each item.
    fn of<T>(name: &'static str, items: impl IntoIterator<Item = T>) -> DataTableBuilder<T> {
        let items: Vec<T> = items.into_iter().collect();
        let table = DataTable {
            name,
            columns: Vec::new(),
            rows: vec![Vec::new(); items.len()],
        };
        DataTableBuilder { items, table }
    }

    /// Returns the table as CSV (RFC 4180, but lines end with only a line feed), without control
    /// characters.
    pub fn to_csv(&self) -> String {
        let mut out = ::csv::Writer::from_writer(Vec::new());
        // Writing to memory can't fail.
        let _ = out.write_record(&self.columns);
        for row in &self.rows {
            let _ = out.write_record(row.iter().map(|cell| plain_lines(&cell.text())));
        }
        let bytes = out.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_csv_are_quoted_if_they_need_it() {
        let table = DataTable::of("table", [("x,\"y\"", -1.5)])
            .column("a", |(text, _)| text)
            .column("b", |(_, number)| number)
            .build();
        assert_eq!(table.to_csv(), "a,b\n\"x,\"\"y\"\"\",-1.5\n");
    }
}
