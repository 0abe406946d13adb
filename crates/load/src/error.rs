//! Reasons why a load can't run. Messages name settings in the notation of their source: as flags
//! or as keys of a plan.

use std::fmt;

/// Notation in which a message names settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// Command-line flags: `--connections 10`.
    Flags,
    /// Keys of a plan: `connections = 10`.
    Keys,
}

/// Returns the flag of a setting, such as `--no-keepalive` for `no_keepalive`.
pub fn flag_of(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// Reason why settings can't be used. [`SettingsError::in_notation`] writes the settings in the
/// text as flags or as keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    setting: Option<&'static str>,
    parts: Vec<MessagePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MessagePart {
    Text(String),
    Name(&'static str),
    Value(&'static str, String),
}

impl SettingsError {
    /// Creates an error whose text begins with the name of the setting at fault.
    pub(crate) fn of(setting: &'static str) -> SettingsError {
        SettingsError {
            setting: Some(setting),
            parts: vec![MessagePart::Name(setting)],
        }
    }

    /// Creates an error whose text begins with the setting at fault and its value.
    pub(crate) fn value(setting: &'static str, value: impl fmt::Display) -> SettingsError {
        SettingsError {
            setting: Some(setting),
            parts: vec![MessagePart::Value(setting, value.to_string())],
        }
    }

    /// Creates an error for a setting, with an empty message.
    pub(crate) fn about(setting: &'static str) -> SettingsError {
        SettingsError {
            setting: Some(setting),
            parts: Vec::new(),
        }
    }

    /// Appends text.
    pub(crate) fn text(mut self, text: impl Into<String>) -> SettingsError {
        self.parts.push(MessagePart::Text(text.into()));
        self
    }

    /// Appends the name of a setting.
    pub(crate) fn name(mut self, setting: &'static str) -> SettingsError {
        self.parts.push(MessagePart::Name(setting));
        self
    }

    /// Appends the name of a setting with its value.
    pub(crate) fn and_value(
        mut self,
        setting: &'static str,
        value: impl fmt::Display,
    ) -> SettingsError {
        self.parts
            .push(MessagePart::Value(setting, value.to_string()));
        self
    }

    /// Inserts text, such as a file and line, before the error's own text.
    pub(crate) fn prefixed(mut self, text: impl Into<String>) -> SettingsError {
        self.parts.insert(0, MessagePart::Text(text.into()));
        self
    }

    /// Appends the text of another error.
    pub(crate) fn append(mut self, other: SettingsError) -> SettingsError {
        self.parts.extend(other.parts);
        self
    }

    /// The key of the setting that caused the error, if there is one.
    pub fn setting(&self) -> Option<&'static str> {
        self.setting
    }

    /// The error's text in the given notation.
    pub fn in_notation(&self, notation: Notation) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match (part, notation) {
                (MessagePart::Text(part), _) => text += part,
                (MessagePart::Name(key), Notation::Flags) => text += &flag_of(key),
                (MessagePart::Name(key), Notation::Keys) => text += key,
                (MessagePart::Value(key, value), Notation::Flags) => {
                    text += &format!("{} {value}", flag_of(key));
                }
                (MessagePart::Value(key, value), Notation::Keys) => {
                    text += &format!("{key} = {}", toml_value(value));
                }
            }
        }
        text
    }
}

impl From<String> for SettingsError {
    fn from(text: String) -> SettingsError {
        SettingsError {
            setting: None,
            parts: vec![MessagePart::Text(text)],
        }
    }
}

impl From<&str> for SettingsError {
    fn from(text: &str) -> SettingsError {
        SettingsError::from(text.to_owned())
    }
}

/// Formats the error in the notation of flags.
impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_notation(Notation::Flags))
    }
}

impl std::error::Error for SettingsError {}

/// Reason why a load can't run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// The settings are invalid or contradict each other.
    Settings(SettingsError),
    /// A host name has no address.
    Name {
        /// Host name that was looked up.
        host: String,
        /// Error that the resolver returned.
        error: String,
    },
    /// This machine can't generate the load.
    Environment(SettingsError),
}

impl SpecError {
    /// The key of the setting that caused the error, if there is one.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            SpecError::Settings(error) | SpecError::Environment(error) => error.setting(),
            SpecError::Name { .. } => None,
        }
    }

    /// The error's text, with settings named in the given notation.
    pub fn in_notation(&self, notation: Notation) -> String {
        match self {
            SpecError::Settings(error) | SpecError::Environment(error) => {
                error.in_notation(notation)
            }
            SpecError::Name { host, error } => {
                let text = format!(
                    "{host}: no address for this name ({error}); check the name, or give an address with "
                );
                let error = SettingsError::from(text).name("resolve");
                error.in_notation(notation)
            }
        }
    }
}

/// Formats the error in the notation of flags.
impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_notation(Notation::Flags))
    }
}

impl std::error::Error for SpecError {}

impl From<SettingsError> for SpecError {
    fn from(error: SettingsError) -> SpecError {
        SpecError::Settings(error)
    }
}

impl From<String> for SpecError {
    fn from(text: String) -> SpecError {
        SpecError::Settings(text.into())
    }
}

/// Formats a value as TOML: numbers and booleans are unquoted, everything else is quoted.
fn toml_value(value: &str) -> String {
    // Unlike Rust, TOML accepts neither `infinity` nor `.5` nor `5.`.
    let is_number = value.parse::<f64>().is_ok()
        && value.starts_with(|first: char| first.is_ascii_digit())
        && value.ends_with(|last: char| last.is_ascii_digit());
    let is_quoted = |quote| value.len() > 1 && value.starts_with(quote) && value.ends_with(quote);
    match is_number || matches!(value, "true" | "false") || is_quoted('"') || is_quoted('\'') {
        true => value.to_owned(),
        false => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_notation_formats_names_and_values() {
        let error = SettingsError::value("tls_max", "1.2")
            .text(" excludes it; see ")
            .name("no_resumption")
            .text(" or ")
            .and_value("source", "127.0.0.2");
        assert_eq!(error.setting(), Some("tls_max"));
        assert_eq!(
            error.to_string(),
            "--tls-max 1.2 excludes it; see --no-resumption or --source 127.0.0.2"
        );
        assert_eq!(
            error.in_notation(Notation::Keys),
            "tls_max = 1.2 excludes it; see no_resumption or source = \"127.0.0.2\""
        );
    }
}
