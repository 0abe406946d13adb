//! Errors in settings, written so that each source of settings can name them its own way.

use std::fmt;

use super::flag_of;

/// How a text names settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// As flags of the command line: `--connections 10`.
    Flags,
    /// As keys of a plan: `connections = 10`.
    Keys,
}

/// Why settings can't be used. The text names settings, which [`SettingsError::in_notation`] writes
/// as flags or as keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsError {
    setting: Option<&'static str>,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(&'static str),
    Value(&'static str, String),
}

impl SettingsError {
    /// An error whose text begins with the name of a setting, which is at fault.
    pub(crate) fn of(setting: &'static str) -> SettingsError {
        SettingsError {
            setting: Some(setting),
            parts: vec![Part::Name(setting)],
        }
    }

    /// An error whose text begins with a setting and its value, which is at fault.
    pub(crate) fn value(setting: &'static str, value: impl fmt::Display) -> SettingsError {
        SettingsError {
            setting: Some(setting),
            parts: vec![Part::Value(setting, value.to_string())],
        }
    }

    /// An error of a setting, without text so far.
    pub(crate) fn about(setting: &'static str) -> SettingsError {
        SettingsError {
            setting: Some(setting),
            parts: Vec::new(),
        }
    }

    /// Appends text.
    pub(crate) fn text(mut self, text: impl Into<String>) -> SettingsError {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Appends the name of a setting.
    pub(crate) fn name(mut self, setting: &'static str) -> SettingsError {
        self.parts.push(Part::Name(setting));
        self
    }

    /// Appends a setting and a value of it.
    pub(crate) fn and_value(
        mut self,
        setting: &'static str,
        value: impl fmt::Display,
    ) -> SettingsError {
        self.parts.push(Part::Value(setting, value.to_string()));
        self
    }

    /// Puts text, such as a file and its line, before the error's own.
    pub(crate) fn after(mut self, text: impl Into<String>) -> SettingsError {
        self.parts.insert(0, Part::Text(text.into()));
        self
    }

    /// The key of the setting at fault, if there is one.
    pub fn setting(&self) -> Option<&'static str> {
        self.setting
    }

    /// The text in this notation.
    pub fn in_notation(&self, notation: Notation) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match (part, notation) {
                (Part::Text(part), _) => text += part,
                (Part::Name(key), Notation::Flags) => text += &flag_of(key),
                (Part::Name(key), Notation::Keys) => text += key,
                (Part::Value(key, value), Notation::Flags) => {
                    text += &format!("{} {value}", flag_of(key));
                }
                (Part::Value(key, value), Notation::Keys) => {
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
            parts: vec![Part::Text(text)],
        }
    }
}

impl From<&str> for SettingsError {
    fn from(text: &str) -> SettingsError {
        SettingsError::from(text.to_owned())
    }
}

/// In the notation of flags.
impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.in_notation(Notation::Flags))
    }
}

impl std::error::Error for SettingsError {}

/// A value as TOML has it: numbers and switches are bare, everything else is quoted.
fn toml_value(value: &str) -> String {
    let is_bare = value.parse::<f64>().is_ok() || matches!(value, "true" | "false");
    let is_quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
    match is_bare || is_quoted {
        true => value.to_owned(),
        false => format!("\"{value}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_notation_writes_names_and_values_its_own_way() {
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
