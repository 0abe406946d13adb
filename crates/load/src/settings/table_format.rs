//! Settings as a table of JSON, TOML or a rendered template.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

use super::setting::{Setting, ValueKind};
use super::table::LoadSettings;
use crate::values::status_set::StatusSet;

impl Serialize for LoadSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (setting, value) in self.entries() {
            map.serialize_entry(setting.key, &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for LoadSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LoadSettings, D::Error> {
        deserializer.deserialize_map(SettingsVisitor)
    }
}

struct SettingsVisitor;

impl<'de> Visitor<'de> for SettingsVisitor {
    type Value = LoadSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<LoadSettings, A::Error> {
        let mut settings = LoadSettings::default();
        while let Some(key) = entries.next_key::<String>()? {
            let Some(setting) = Setting::find(&key) else {
                return Err(A::Error::unknown_field(&key, LoadSettings::KEYS));
            };
            let texts = entries.next_value_seed(setting.kind)?;
            settings.set(&key, texts).map_err(A::Error::custom)?;
        }
        Ok(settings)
    }
}

/// In a list of requests in JSON.
impl<'de> Deserialize<'de> for StatusSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StatusSet, D::Error> {
        let texts = DeserializeSeed::deserialize(ValueKind::Numbers, deserializer)?;
        texts.join(",").parse().map_err(D::Error::custom)
    }
}

/// Reads a value of any type that a setting of this kind accepts, as text.
impl<'de> DeserializeSeed<'de> for ValueKind {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl ValueKind {
    /// Returns true if the value may be an array.
    fn is_list(self) -> bool {
        use ValueKind::{Cores, Headers, List, Numbers, Steps, Texts};
        matches!(self, Cores | Numbers | List | Texts | Headers | Steps)
    }

    /// A scalar as text, unless it has a type that the kind excludes.
    fn scalar<E: Error>(self, found: Unexpected<'_>, text: String) -> Result<Vec<String>, E> {
        match (self, found) {
            (ValueKind::Switch, Unexpected::Bool(_)) | (ValueKind::Headers, Unexpected::Str(_)) => {
                Ok(vec![text])
            }
            (ValueKind::Switch | ValueKind::Headers, _) => Err(E::invalid_type(found, &self)),
            _ => Ok(vec![text]),
        }
    }
}

impl<'de> Visitor<'de> for ValueKind {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueKind::Switch => "true or false",
            ValueKind::Headers => "an array of strings or a table",
            ValueKind::Steps => "an array of tables",
            kind if kind.is_list() => "an array of strings",
            _ => "a string",
        })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        self.scalar(Unexpected::Str(text), text.to_owned())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Vec<String>, E> {
        self.scalar(Unexpected::Bool(value), value.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Vec<String>, E> {
        self.scalar(Unexpected::Signed(number), number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Vec<String>, E> {
        self.scalar(Unexpected::Unsigned(number), number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Vec<String>, E> {
        // Keeps the fraction of `1.0`, because it may be a version. The parsers accept no
        // exponents.
        let text = format!("{number:?}");
        let text = if text.contains('e') {
            number.to_string()
        } else {
            text
        };
        self.scalar(Unexpected::Float(number), text)
    }

    /// Every kind but a switch also accepts an array with one element.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        if self == ValueKind::Switch {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        let mut texts = Vec::new();
        if self == ValueKind::Steps {
            while let Some(step) = items.next_element::<serde_json::Value>()? {
                // An agent's order may contain the text of a table.
                texts.push(
                    step.as_str()
                        .map_or_else(|| step.to_string(), str::to_owned),
                );
            }
            return Ok(texts);
        }
        while let Some(item) = items.next_element_seed(ValueKind::Text)? {
            texts.extend(item);
        }
        if self.is_list() || texts.len() == 1 {
            Ok(texts)
        } else {
            Err(A::Error::custom("expected one value, not an array"))
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Vec<String>, A::Error> {
        if self != ValueKind::Headers {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut lines = Vec::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(ValueKind::Text)?;
            lines.push(format!("{name}: {}", value.concat()));
        }
        Ok(lines)
    }
}
