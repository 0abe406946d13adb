//! Copies values from one Lua state to another.

use mlua::{Error, Lua, Value};

/// Maximum depth of nested tables. A deeper table is assumed to contain itself.
const TABLE_DEPTH_MAX: usize = 100;

/// Copies a boolean, number, string, nil, or a table of these, to the state `to`.
pub(crate) fn carry(value: &Value, to: &Lua) -> mlua::Result<Value> {
    carry_within(value, to, TABLE_DEPTH_MAX)
}

fn carry_within(value: &Value, to: &Lua, deeper: usize) -> mlua::Result<Value> {
    Ok(match value {
        Value::Nil => Value::Nil,
        Value::Boolean(value) => Value::Boolean(*value),
        Value::Integer(value) => Value::Integer(*value),
        Value::Number(value) => Value::Number(*value),
        Value::String(text) => Value::String(to.create_string(text.as_bytes())?),
        Value::Table(table) => {
            let deeper = deeper.checked_sub(1).ok_or_else(|| {
                let text = format!(
                    "cannot transfer tables nested deeper than {TABLE_DEPTH_MAX} to thread"
                );
                Error::runtime(text)
            })?;
            let copy = to.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (name, value) = pair?;
                copy.raw_set(
                    carry_within(&name, to, deeper)?,
                    carry_within(&value, to, deeper)?,
                )?;
            }
            Value::Table(copy)
        }
        other => {
            let kind = other.type_name();
            return Err(Error::runtime(format!(
                "cannot transfer '{kind}' to thread"
            )));
        }
    })
}
