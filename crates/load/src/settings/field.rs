//! Fields of the settings: their values are read from text and written as JSON.
//!
//! The same value has different types in TOML, JSON and rendered templates: `2`, `"2"` and `2.0`
//! may all be an HTTP version. A scalar of any type is therefore converted to text and parsed.

use std::path::PathBuf;
use std::time::Duration;

use prony_record::quantity;
use serde_json::Value;

use super::deflate_offer::DeflateOffer;
use super::event_field::EventField;
use super::form::FormField;
use super::grpc_method::GrpcMethod;
use super::http_proxy::HttpProxy;
use super::rate::{ArrivalRate, Stage};
use super::replay_timing::ReplaySpeed;
use super::setting::ValueKind;
use super::source_range::SourceRange;
use super::think_time::ThinkTime;
use super::values::{
    AddressOrder, CoreList, DataOrder, EventChoice, FanOut, GatewayMac, HttpVersion, IoChoice,
    ProxyVersion, RequestOrder, Sha256, SourceOrder, TlsVersion,
};
use crate::values::credentials::Credentials;
use crate::values::error::SettingsError;
use crate::values::pacing::Arrivals;
use crate::values::status_set::StatusSet;

/// A field of the settings.
pub(super) trait Field {
    /// Replaces the value.
    fn set(&mut self, kind: ValueKind, texts: Vec<String>) -> Result<(), SettingsError>;

    /// Replaces the value, if it is a path.
    fn set_path(&mut self, path: PathBuf);

    /// The value, if it is a path.
    fn path(&self) -> Option<PathBuf> {
        None
    }

    /// The value; `None` if the setting wasn't given.
    fn json(&self) -> Option<Value>;
}

/// A value that is written as text.
pub(super) trait TextValue: Sized {
    fn read(kind: ValueKind, text: &str) -> Result<Self, SettingsError>;

    fn json(&self) -> Value;

    fn of_path(_path: PathBuf) -> Option<Self> {
        None
    }

    fn path(&self) -> Option<PathBuf> {
        None
    }
}

impl Field for bool {
    fn set(&mut self, _: ValueKind, texts: Vec<String>) -> Result<(), SettingsError> {
        *self = texts.first().is_none_or(|text| text == "true");
        Ok(())
    }

    fn set_path(&mut self, _: PathBuf) {}

    fn json(&self) -> Option<Value> {
        self.then_some(Value::Bool(true))
    }
}

impl<T: TextValue> Field for Option<T> {
    fn set(&mut self, kind: ValueKind, texts: Vec<String>) -> Result<(), SettingsError> {
        *self = Some(T::read(kind, &texts.join(","))?);
        Ok(())
    }

    fn set_path(&mut self, path: PathBuf) {
        *self = T::of_path(path);
    }

    fn path(&self) -> Option<PathBuf> {
        self.as_ref()?.path()
    }

    fn json(&self) -> Option<Value> {
        self.as_ref().map(TextValue::json)
    }
}

impl<T: TextValue> Field for Vec<T> {
    fn set(&mut self, kind: ValueKind, texts: Vec<String>) -> Result<(), SettingsError> {
        let items = texts.iter().flat_map(|text| match kind {
            ValueKind::List => text.split(',').map(str::trim).collect(),
            _ => vec![text.as_str()],
        });
        *self = items
            .map(|item| T::read(kind, item))
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    fn set_path(&mut self, _: PathBuf) {}

    fn json(&self) -> Option<Value> {
        let values = || self.iter().map(TextValue::json).collect();
        (!self.is_empty()).then(|| Value::Array(values()))
    }
}

impl TextValue for u64 {
    fn read(kind: ValueKind, text: &str) -> Result<u64, SettingsError> {
        match kind {
            ValueKind::Count => Ok(quantity::count(text)?),
            ValueKind::Size => Ok(quantity::size(text)?),
            _ => text
                .parse()
                .map_err(|_| format!("\"{text}\" is not a whole number").into()),
        }
    }

    fn json(&self) -> Value {
        Value::from(*self)
    }
}

impl TextValue for Duration {
    fn read(kind: ValueKind, text: &str) -> Result<Duration, SettingsError> {
        match kind {
            ValueKind::PositiveTime => Ok(quantity::positive_time(text)?),
            _ => Ok(quantity::time(text)?),
        }
    }

    fn json(&self) -> Value {
        Value::from(quantity::time_text(*self))
    }
}

impl TextValue for String {
    fn read(_: ValueKind, text: &str) -> Result<String, SettingsError> {
        Ok(text.to_owned())
    }

    fn json(&self) -> Value {
        Value::from(self.as_str())
    }
}

/// Bytes that aren't UTF-8 are replaced when the path is written.
impl TextValue for PathBuf {
    fn read(_: ValueKind, text: &str) -> Result<PathBuf, SettingsError> {
        Ok(PathBuf::from(text))
    }

    fn json(&self) -> Value {
        Value::from(self.to_string_lossy())
    }

    fn of_path(path: PathBuf) -> Option<PathBuf> {
        Some(path)
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.clone())
    }
}

/// A constant rate is stored as a number, as in earlier versions.
impl TextValue for ArrivalRate {
    fn read(_: ValueKind, text: &str) -> Result<ArrivalRate, SettingsError> {
        text.parse()
    }

    fn json(&self) -> Value {
        match self.constant() {
            Some(rate_per_s) => Value::from(rate_per_s),
            None => Value::from(self.to_string()),
        }
    }
}

/// Implements [`TextValue`] for types that `FromStr` reads; each is written by its function.
macro_rules! written {
    ($($name:ty: $write:expr),+ $(,)?) => {$(
        impl TextValue for $name {
            fn read(_: ValueKind, text: &str) -> Result<$name, SettingsError> {
                text.parse()
            }

            fn json(&self) -> Value {
                let write: fn(&$name) -> String = $write;
                Value::from(write(self))
            }
        }
    )+};
}

// The texts of credentials and proxies include passwords. No type that contains a password
// implements `Display`, so no password is printed by accident.
written! {
    Arrivals: ToString::to_string,
    CoreList: ToString::to_string,
    Credentials: |user| user.as_str().to_owned(),
    DataOrder: ToString::to_string,
    DeflateOffer: ToString::to_string,
    EventChoice: ToString::to_string,
    EventField: ToString::to_string,
    FanOut: ToString::to_string,
    FormField: ToString::to_string,
    GatewayMac: ToString::to_string,
    GrpcMethod: ToString::to_string,
    HttpProxy: HttpProxy::url_with_credentials,
    HttpVersion: ToString::to_string,
    IoChoice: ToString::to_string,
    ProxyVersion: ToString::to_string,
    ReplaySpeed: ToString::to_string,
    RequestOrder: ToString::to_string,
    Sha256: ToString::to_string,
    SourceOrder: ToString::to_string,
    AddressOrder: ToString::to_string,
    SourceRange: ToString::to_string,
    Stage: ToString::to_string,
    StatusSet: ToString::to_string,
    ThinkTime: ToString::to_string,
    TlsVersion: ToString::to_string,
}
