//! Serde conversions of settings.
//!
//! The same value has different types in TOML, JSON and rendered templates: `2`, `"2"` and `2.0`
//! may all be an HTTP version. A scalar of any type is therefore converted to text and parsed.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use prony_record::quantity;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::form::FormField;
use super::http_proxy::HttpProxy;
use super::source_range::SourceRange;
use super::think_time::ThinkTime;
use super::values::{
    CoreList, DataOrder, GatewayMac, HttpVersion, IoChoice, ProxyVersion, RequestOrder, Sha256,
    SourceOrder, TlsVersion,
};
use crate::credentials::Credentials;
use crate::pacing::Arrivals;
use crate::status_set::StatusSet;

/// A scalar of any type, deserialized as text.
struct Scalar(String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor).map(Scalar)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        // Keeps the fraction of `1.0`, because it may be a version. The parsers accept no
        // exponents.
        let text = format!("{number:?}");
        Ok(match text.contains('e') {
            true => number.to_string(),
            false => text,
        })
    }

    /// Also accepts an array with one element.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        let first: Option<Scalar> = items.next_element()?;
        match (first, items.next_element::<Scalar>()?) {
            (Some(Scalar(text)), None) => Ok(text),
            _ => Err(A::Error::custom("expected one value, not an array")),
        }
    }
}

/// Visitor for one scalar or an array of scalars.
struct Scalars;

impl<'de> Visitor<'de> for Scalars {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of strings")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Vec<String>, E> {
        ScalarVisitor.visit_bool(value).map(|text| vec![text])
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Vec<String>, E> {
        ScalarVisitor.visit_i64(number).map(|text| vec![text])
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Vec<String>, E> {
        ScalarVisitor.visit_u64(number).map(|text| vec![text])
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Vec<String>, E> {
        ScalarVisitor.visit_f64(number).map(|text| vec![text])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        let mut texts = Vec::new();
        while let Some(Scalar(text)) = items.next_element()? {
            texts.push(text);
        }
        Ok(texts)
    }
}

/// Visitor for header lines or a table of headers.
struct Headers;

impl<'de> Visitor<'de> for Headers {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of strings or a table")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<String>, A::Error> {
        Scalars.visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Vec<String>, A::Error> {
        let mut lines = Vec::new();
        while let Some((name, Scalar(value))) = entries.next_entry::<String, Scalar>()? {
            lines.push(format!("{name}: {value}"));
        }
        Ok(lines)
    }
}

/// Visitor for a switch, which is true or false.
struct Switch;

impl Visitor<'_> for Switch {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true or false")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }
}

fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    parse(&text).map(Some).map_err(D::Error::custom)
}

pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    parsed(deserializer, |text| Ok(text.to_owned()))
}

/// Conversion of a path. Bytes that aren't UTF-8 are replaced when the path is written.
pub(super) mod path {
    use super::{Deserializer, PathBuf, Serialize as _, Serializer, parsed};

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        parsed(deserializer, |text| Ok(PathBuf::from(text)))
    }

    pub(in super::super) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = path.as_ref().map(|path| path.to_string_lossy());
        text.serialize(serializer)
    }
}

/// Reads a count of at least one.
pub(super) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    parsed(deserializer, quantity::count)
}

/// Reads a whole number, which may be zero.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    parsed(deserializer, |text| {
        text.parse()
            .map_err(|_| format!("\"{text}\" is not a whole number"))
    })
}

pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    parsed(deserializer, quantity::size)
}

/// Conversion of a time, which may be zero.
pub(super) mod time {
    use super::{Deserializer, Duration, Serialize as _, Serializer, parsed, quantity};

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        parsed(deserializer, quantity::time)
    }

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(quantity::time_text).serialize(serializer)
    }
}

/// Conversion of a time that must not be zero.
pub(super) mod positive_time {
    use super::{Deserializer, Duration, parsed, quantity};

    pub(in super::super) use super::time::serialize;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        parsed(deserializer, quantity::positive_time)
    }
}

pub(super) fn switch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    deserializer.deserialize_any(Switch)
}

pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(Scalars)
}

pub(super) fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    deserializer.deserialize_any(Headers)
}

/// Reads values from an array, from a string separated by commas, or from both.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let texts = deserializer.deserialize_any(Scalars)?;
    let items = texts.iter().flat_map(|text| text.split(',').map(str::trim));
    items
        .map(|item| item.parse().map_err(D::Error::custom))
        .collect()
}

/// Reads values from an array, or one value from a string.
pub(super) fn texts_of<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let texts = deserializer.deserialize_any(Scalars)?;
    let items = texts.iter().map(|text| text.parse());
    items.map(|item| item.map_err(D::Error::custom)).collect()
}

/// Reads a value from an array or a string, after joining the elements with commas.
fn joined<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let texts = deserializer.deserialize_any(Scalars)?;
    texts.join(",").parse().map_err(D::Error::custom)
}

/// Reads a value from one scalar.
pub(super) fn one<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let Scalar(text) = Scalar::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

/// Implements serde's traits for types that are written as text, each with its parser.
macro_rules! as_text {
    ($($name:ty: $read:ident),+ $(,)?) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                $read(deserializer)
            }
        }
    )+};
}

as_text! {
    Arrivals: one,
    CoreList: joined,
    FormField: one,
    GatewayMac: one,
    HttpVersion: one,
    IoChoice: one,
    ProxyVersion: one,
    RequestOrder: one,
    DataOrder: one,
    Sha256: one,
    SourceOrder: one,
    SourceRange: one,
    StatusSet: joined,
    ThinkTime: one,
    TlsVersion: one,
}

/// The text includes the password. No type that contains a password implements `Display`, so no
/// password is printed by accident.
impl Serialize for Credentials {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Credentials {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Credentials, D::Error> {
        one(deserializer)
    }
}

/// The text includes the password.
impl Serialize for HttpProxy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.url_with_credentials())
    }
}

impl<'de> Deserialize<'de> for HttpProxy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HttpProxy, D::Error> {
        one(deserializer)
    }
}
