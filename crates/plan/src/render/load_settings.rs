//! Reads load settings from a plan's tree. Errors have line numbers.

use std::fmt;

use prony_load::LoadSettings;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{Deserialize, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use crate::diagnostic::DiagnosticKind;
use crate::syntax::{PlanReader, TomlEntry, TomlNode, TomlTable, TomlValue};

/// Reads the settings. Invalid settings are reported and omitted.
pub(super) fn read_settings(table: &TomlTable, reader: &mut PlanReader<'_>) -> LoadSettings {
    let mut good = Vec::new();
    for entry in &table.entries {
        // Read each setting by itself first, so that all errors are reported.
        match settings([entry]) {
            Ok(_) => good.push(entry),
            Err(error) => {
                let key = &entry.key;
                let (fault, text) = if error.is_type {
                    (
                        DiagnosticKind::WrongType,
                        format!("{key} is {}", error.text),
                    )
                } else {
                    (
                        DiagnosticKind::BadValue,
                        format!("{key} of [load]: {}", error.text),
                    )
                };
                reader.report(fault, entry.node.line, text);
            }
        }
    }
    settings(good).unwrap_or_default()
}

fn settings<'n>(
    entries: impl IntoIterator<Item = &'n TomlEntry>,
) -> Result<LoadSettings, NodeError> {
    let entries = entries.into_iter();
    let entries = entries.map(|entry| (entry.key.as_str(), &entry.node));
    LoadSettings::deserialize(MapDeserializer::new(entries))
}

/// Reason why a value can't be read.
#[derive(Debug)]
pub(crate) struct NodeError {
    /// True if the value has the wrong type. `text` then names the found and the expected type, as
    /// in "a string, not a number".
    is_type: bool,
    text: String,
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NodeError {}

impl serde::de::Error for NodeError {
    fn custom<T: fmt::Display>(text: T) -> NodeError {
        NodeError {
            is_type: false,
            text: text.to_string(),
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> NodeError {
        let found = match found {
            Unexpected::Bool(_) => "true or false",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            Unexpected::Seq => "an array",
            Unexpected::Map => "a table",
            _ => "a string",
        };
        NodeError {
            is_type: true,
            text: format!("{found}, not {expected}"),
        }
    }
}

impl<'de> Deserializer<'de> for &'de TomlNode {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.value {
            TomlValue::Text(text) if text.contains('\0') => {
                Err(serde::de::Error::custom("it contains a NUL byte"))
            }
            TomlValue::Text(text) => visitor.visit_borrowed_str(text),
            TomlValue::Unreachable(reason) => Err(serde::de::Error::custom(reason)),
            TomlValue::Integer(number) => visitor.visit_i64(*number),
            TomlValue::Float(number) => visitor.visit_f64(*number),
            TomlValue::Bool(truth) => visitor.visit_bool(*truth),
            TomlValue::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            TomlValue::Table(table) => {
                let entries = table.entries.iter();
                let entries = entries.map(|entry| (entry.key.as_str(), &entry.node));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, NodeError> for &'de TomlNode {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
