//! The JSON field that the events of a stream must have.

use std::fmt;
use std::str::FromStr;

use prony_protocol::event_stream::FieldPath;

use crate::values::error::SettingsError;

/// Path of a field in an event's JSON, such as `choices.0.delta.content`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventField {
    text: String,
    path: FieldPath,
}

impl EventField {
    /// The parsed path.
    pub fn path(&self) -> &FieldPath {
        &self.path
    }
}

impl FromStr for EventField {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<EventField, SettingsError> {
        let path = FieldPath::parse(text).map_err(|error| {
            SettingsError::from(format!("\"{text}\" {error}"))
                .hint("separate keys and indices by dots, such as choices.0.delta.content")
        })?;
        let text = text.to_owned();
        Ok(EventField { text, path })
    }
}

impl fmt::Display for EventField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
