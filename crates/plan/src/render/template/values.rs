//! Conversion between values in plans and values of the template engine.

use minijinja::value::ValueKind;

use super::unreachable::{reason_of, unreachable_value};
use crate::syntax::{TomlEntry, TomlNode, TomlTable, TomlValue};

/// Maximum number of items in a list that a template computes.
const LIST_ITEMS_MAX: usize = 10_000;

pub(super) fn to_jinja(value: &TomlValue) -> minijinja::Value {
    match value {
        TomlValue::Text(text) => text.as_str().into(),
        TomlValue::Integer(number) => (*number).into(),
        TomlValue::Float(number) => (*number).into(),
        TomlValue::Bool(truth) => (*truth).into(),
        TomlValue::Array(items) => items.iter().map(|item| to_jinja(&item.value)).collect(),
        TomlValue::Table(table) => table
            .entries
            .iter()
            .map(|e| (e.key.as_str(), to_jinja(&e.node.value)))
            .collect(),
        TomlValue::Unreachable(reason) => unreachable_value(reason),
    }
}

/// Maximum depth of a value that a template computes.
const DEPTH_MAX: usize = 32;

/// Converts a rendered value to a tree. Undefined values and `none` become `None`.
pub(super) fn from_jinja(
    value: &minijinja::Value,
    line: usize,
) -> Result<Option<TomlNode>, ValueKind> {
    from_jinja_at(value, line, 0)
}

fn from_jinja_at(
    value: &minijinja::Value,
    line: usize,
    depth: usize,
) -> Result<Option<TomlNode>, ValueKind> {
    let kind = value.kind();
    if depth > DEPTH_MAX {
        return Err(kind);
    }
    let value = match kind {
        ValueKind::Undefined | ValueKind::None => return Ok(None),
        ValueKind::Bool => TomlValue::Bool(value.is_true()),
        ValueKind::Number => match value.as_i64().filter(|_| value.is_integer()) {
            Some(number) => TomlValue::Integer(number),
            None => match f64::try_from(value.clone()) {
                Ok(number) if number.is_finite() => TomlValue::Float(number),
                _ => return Err(kind),
            },
        },
        ValueKind::String => TomlValue::Text(value.to_string()),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter().map_err(|_| kind)?.take(LIST_ITEMS_MAX + 1) {
                items.extend(from_jinja_at(&item, line, depth + 1)?);
            }
            if items.len() > LIST_ITEMS_MAX {
                return Err(kind);
            }
            TomlValue::Array(items)
        }
        ValueKind::Map => {
            let mut table = TomlTable {
                line,
                entries: Vec::new(),
            };
            for key in value.try_iter().map_err(|_| kind)? {
                let inner = value.get_item(&key).map_err(|_| kind)?;
                if let Some(node) = from_jinja_at(&inner, line, depth + 1)? {
                    table.entries.push(TomlEntry {
                        key: key.to_string(),
                        line,
                        node,
                    });
                }
            }
            TomlValue::Table(table)
        }
        _ => match reason_of(value) {
            Some(reason) => TomlValue::Unreachable(reason.to_owned()),
            None => return Err(kind),
        },
    };
    Ok(Some(TomlNode { line, value }))
}
