//! Finds a value in JSON by a pointer (RFC 6901), without building a tree of the document.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::values::error::SettingsError;

/// A pointer into a JSON document.
#[derive(Debug, Clone)]
pub(super) struct JsonPointer {
    text: String,
    /// The names of members or indices of elements that lead to the value.
    tokens: Vec<String>,
}

impl JsonPointer {
    pub(super) fn new(text: &str) -> Result<JsonPointer, SettingsError> {
        if !text.is_empty() && !text.starts_with('/') {
            let error = SettingsError::from(format!("json = \"{text}\": a pointer begins with /"));
            return Err(error.hint(format!("write \"/{}\"", text.replace('.', "/"))));
        }
        let tokens = text.split('/').skip(1);
        Ok(JsonPointer {
            text: text.to_owned(),
            tokens: tokens
                .map(|token| token.replace("~1", "/").replace("~0", "~"))
                .collect(),
        })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the value as text: the content of a string, and any other value in JSON. Returns
    /// `None` if there is no such value, or if it is null.
    pub(super) fn find(&self, json: &[u8]) -> Option<String> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let walk = Walk(&self.tokens);
        match walk.deserialize(&mut reader).ok()?? {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => Some(other.to_string()),
        }
    }
}

/// Deserializes the value to which the rest of a pointer leads.
struct Walk<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<Value>, D::Error> {
        if self.0.is_empty() {
            serde::Deserialize::deserialize(from).map(Some)
        } else {
            from.deserialize_any(self)
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Value>, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.0.split_first() {
                Some((name, rest)) if *name == key => found = map.next_value_seed(Walk(rest))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<Value>, A::Error> {
        let Some((index, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        let index = index.parse::<usize>().unwrap_or(usize::MAX);
        let (mut found, mut at) = (None, 0);
        loop {
            if at == index {
                match items.next_element_seed(Walk(rest))? {
                    Some(value) => found = value,
                    None => return Ok(found),
                }
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                return Ok(found);
            }
            at += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_a_parsed_tree() {
        let json = r#"{"a": {"b/c": [1, "two", {"~": null, "x": true}]}, "": 2.5, "u": 18446744073709551615}"#;
        let tree: Value = serde_json::from_str(json).unwrap();
        for pointer in [
            "",
            "/a",
            "/a/b~1c",
            "/a/b~1c/0",
            "/a/b~1c/1",
            "/a/b~1c/2/~0",
            "/a/b~1c/2/x",
            "/",
            "/u",
            "/a/b~1c/3",
            "/a/b~1c/x",
            "/none",
            "/u/1",
            "/a/b~1c/1/0",
        ] {
            let expected = tree.pointer(pointer).and_then(|value| match value {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            });
            let found = JsonPointer::new(pointer).unwrap().find(json.as_bytes());
            assert_eq!(found, expected, "{pointer}");
        }
        assert_eq!(JsonPointer::new("/a").unwrap().find(b"{\"a\": 1"), None);
        let deep = "[".repeat(100_000);
        assert_eq!(JsonPointer::new("/0").unwrap().find(deep.as_bytes()), None);
        let error = JsonPointer::new("data.token").unwrap_err().to_string();
        assert!(error.contains("/data/token"), "{error}");
    }
}
