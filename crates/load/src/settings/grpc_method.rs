//! The gRPC method that a load calls.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

use crate::values::error::SettingsError;

/// A gRPC method: `package.Service/Method`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrpcMethod {
    /// Full name of the service, with its package.
    pub service: String,
    /// Name of the method.
    pub method: String,
}

impl FromStr for GrpcMethod {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<GrpcMethod, SettingsError> {
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let names = text.trim_start_matches('/').split_once('/');
        match names {
            Some((service, method)) if service.split('.').all(is_name) && is_name(method) => {
                Ok(GrpcMethod {
                    service: service.to_owned(),
                    method: method.to_owned(),
                })
            }
            _ => Err(SettingsError::from(format!("\"{text}\" is not a method"))
                .hint("write it like package.Service/Method")),
        }
    }
}

impl Serialize for GrpcMethod {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GrpcMethod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GrpcMethod, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for GrpcMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.service, self.method)
    }
}
