//! Values that differ from request to request: `{{ column }}`, `{{ seq }}`, `{{ random(1, 9) }}`
//! and `{{ uuid }}` in the text of URLs, header values and bodies.
//!
//! [`parse_pieces`] splits text into literal pieces and placeholders. [`Marks`] stand in for placeholders
//! while a request is serialized. [`ValueSource`] writes the values of one request.

mod data;
mod form_body;
mod marks;
mod parse;
#[cfg(test)]
mod tests;
mod values;
mod variables;

pub use data::data_columns;
pub(crate) use data::{CellSet, DataTable, ValuePlace};
pub(crate) use form_body::form_field;
pub use marks::request_functions;
pub(crate) use marks::{MarkedPiece, Marks, ValueNames};
pub(crate) use parse::{TextPiece, parse_pieces};
pub use parse::{literal, placeholder, request_filters, with_filter};
pub(crate) use values::{ComposedValue, Value, ValueSource};
pub(crate) use variables::{Variable, VariableValue, VariableValues};
