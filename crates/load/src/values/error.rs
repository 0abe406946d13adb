//! Reasons why a load can't run, as data: the place, the cause and hints, which name settings. A
//! [`Notation`] renders them: as flags, as keys of a plan, or as options of another tool.

use std::fmt;

use prony_record::quantity::QuantityError;

/// Notation in which a message names settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// Command-line flags: `--connections 10`.
    Flags,
    /// Keys of a plan: `connections = 10`.
    Keys,
    /// Options of another tool: pairs of a setting's key and what sets it there, such as
    /// `("connections", "-c")`. Hints that name another setting are omitted.
    Options(&'static [(&'static str, &'static str)]),
}

impl Notation {
    /// The name of a setting, if this notation has one.
    fn name(self, key: &str) -> Option<String> {
        match self {
            Notation::Flags => Some(flag_of(key)),
            Notation::Keys => Some(key.to_owned()),
            Notation::Options(names) => names
                .iter()
                .find(|(setting, _)| *setting == key)
                .map(|(_, name)| (*name).to_owned()),
        }
    }

    fn value(self, key: &str, value: &str) -> Option<String> {
        let name = self.name(key)?;
        Some(match self {
            Notation::Keys => format!("{name} = {}", toml_value(value)),
            Notation::Flags | Notation::Options(_) => format!("{name} {value}"),
        })
    }
}

/// Returns the flag of a setting, such as `--no-keepalive` for `no_keepalive`.
pub fn flag_of(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// Reason why settings can't be used. [`SettingsError::in_notation`] composes the text.
///
/// An error is built from left to right: the cause first, then the hints. [`SettingsError::text`],
/// [`SettingsError::name`] and [`SettingsError::and_value`] append to the part that was begun last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsError {
    setting: Option<&'static str>,
    /// Location of the invalid text, such as a file and line; empty if the cause names the setting.
    place: String,
    cause: Vec<MessagePart>,
    hints: Vec<Hint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MessagePart {
    Text(String),
    Name(&'static str),
    Value(&'static str, String),
}

/// One way to correct the settings. Hints of the same form are alternatives.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hint {
    form: HintForm,
    parts: Vec<MessagePart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HintForm {
    AfterSemicolon,
    InParentheses,
}

impl SettingsError {
    /// Creates an error whose text begins with the name of the setting at fault.
    pub fn of(setting: &'static str) -> SettingsError {
        SettingsError::about(setting).name(setting)
    }

    /// Creates an error whose text begins with the setting at fault and its value.
    pub fn value(setting: &'static str, value: impl fmt::Display) -> SettingsError {
        SettingsError::about(setting).and_value(setting, value)
    }

    /// Creates an error for a setting, with an empty message.
    pub fn about(setting: &'static str) -> SettingsError {
        SettingsError {
            setting: Some(setting),
            ..SettingsError::default()
        }
    }

    /// Begins a hint after a semicolon, or an alternative to such a hint.
    pub fn hint(self, text: impl Into<String>) -> SettingsError {
        self.begin_hint(HintForm::AfterSemicolon, text)
    }

    /// Begins a hint in parentheses, or an alternative to such a hint.
    pub fn hint_in_parentheses(self, text: impl Into<String>) -> SettingsError {
        self.begin_hint(HintForm::InParentheses, text)
    }

    fn begin_hint(mut self, form: HintForm, text: impl Into<String>) -> SettingsError {
        self.hints.push(Hint {
            form,
            parts: vec![MessagePart::Text(text.into())],
        });
        self
    }

    fn push(mut self, part: MessagePart) -> SettingsError {
        match self.hints.last_mut() {
            Some(hint) => hint.parts.push(part),
            None => self.cause.push(part),
        }
        self
    }

    /// Appends text.
    pub fn text(self, text: impl Into<String>) -> SettingsError {
        self.push(MessagePart::Text(text.into()))
    }

    /// Appends the name of a setting.
    pub fn name(self, setting: &'static str) -> SettingsError {
        self.push(MessagePart::Name(setting))
    }

    /// Appends the name of a setting with its value.
    pub fn and_value(self, setting: &'static str, value: impl fmt::Display) -> SettingsError {
        self.push(MessagePart::Value(setting, value.to_string()))
    }

    /// Adds a place, such as a file and line, before the places that the error has. An empty place
    /// is none.
    pub fn at(mut self, place: impl Into<String>) -> SettingsError {
        let place = place.into();
        self.place = match (place.as_str(), self.place.as_str()) {
            (_, "") => place,
            ("", _) => self.place,
            (outer, inner) => format!("{outer}: {inner}"),
        };
        self
    }

    /// Appends another error, whose place becomes a part of the cause.
    pub fn append(mut self, other: SettingsError) -> SettingsError {
        if !other.place.is_empty() {
            let place = format!("{}: ", other.place);
            self.cause.push(MessagePart::Text(place));
        }
        self.cause.extend(other.cause);
        self.hints.extend(other.hints);
        self
    }

    /// Replaces the names of settings in the cause with their keys, for a table whose keys have
    /// these names.
    pub(crate) fn without_names(mut self) -> SettingsError {
        for part in &mut self.cause {
            if let MessagePart::Name(key) = part {
                *part = MessagePart::Text((*key).to_owned());
            }
        }
        self
    }

    /// Changes the texts of the cause.
    pub(crate) fn map_cause(mut self, change: impl Fn(&str) -> String) -> SettingsError {
        for part in &mut self.cause {
            if let MessagePart::Text(text) = part {
                *text = change(text);
            }
        }
        self
    }

    /// The key of the setting that caused the error, if there is one.
    pub fn setting(&self) -> Option<&'static str> {
        self.setting
    }

    /// The error's text in the given notation. A hint that names a setting without a name in the
    /// notation is omitted. In the cause, such a setting has the name of its flag.
    pub fn in_notation(&self, notation: Notation) -> String {
        let mut text = match self.place.as_str() {
            "" => String::new(),
            place => format!("{place}: "),
        };
        for part in &self.cause {
            let known = part.in_notation(notation);
            text += &known
                .or_else(|| part.in_notation(Notation::Flags))
                .unwrap_or_default();
        }
        let known: Vec<(HintForm, String)> = self
            .hints
            .iter()
            .filter_map(|hint| Some((hint.form, hint.in_notation(notation)?)))
            .collect();
        for alternatives in known.chunk_by(|(one, _), (other, _)| one == other) {
            let mut hints: Vec<&str> = alternatives.iter().map(|(_, hint)| hint.as_str()).collect();
            let last = hints.pop().unwrap_or_default();
            let hints = match hints.join(", ") {
                none if none.is_empty() => last.to_owned(),
                others => format!("{others}, or {last}"),
            };
            text += &match alternatives[0].0 {
                HintForm::AfterSemicolon => format!("; {hints}"),
                HintForm::InParentheses => format!(" ({hints})"),
            };
        }
        text
    }
}

impl MessagePart {
    fn in_notation(&self, notation: Notation) -> Option<String> {
        match self {
            MessagePart::Text(text) => Some(text.clone()),
            MessagePart::Name(key) => notation.name(key),
            MessagePart::Value(key, value) => notation.value(key, value),
        }
    }
}

impl Hint {
    fn in_notation(&self, notation: Notation) -> Option<String> {
        let parts = self.parts.iter();
        parts.map(|part| part.in_notation(notation)).collect()
    }
}

impl From<String> for SettingsError {
    fn from(text: String) -> SettingsError {
        SettingsError::default().text(text)
    }
}

impl From<QuantityError> for SettingsError {
    fn from(error: QuantityError) -> SettingsError {
        SettingsError::from(error.to_string())
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
    /// Adds a place before the places that the error has.
    #[must_use]
    pub fn at(self, place: &str) -> SpecError {
        match self {
            SpecError::Settings(error) => SpecError::Settings(error.at(place)),
            SpecError::Environment(error) => SpecError::Environment(error.at(place)),
            SpecError::Name { host, error } => {
                SpecError::Settings(name_error(&host, &error).at(place))
            }
        }
    }

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
            SpecError::Name { host, error } => name_error(host, error).in_notation(notation),
        }
    }
}

fn name_error(host: &str, error: &str) -> SettingsError {
    SettingsError::from(format!("{host}: no address for this name ({error})"))
        .hint("check the name")
        .hint("give an address with ")
        .name("resolve")
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
    if is_number || matches!(value, "true" | "false") || is_quoted('"') || is_quoted('\'') {
        value.to_owned()
    } else {
        format!("{value:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Notation =
        Notation::Options(&[("connections", "-c"), ("public", "PRONY_PUBLIC=1")]);

    #[test]
    fn each_notation_formats_names_and_values() {
        let error = SettingsError::value("connections", "10")
            .text(" contradicts ")
            .name("no_resumption")
            .text(" or ")
            .and_value("source", "127.0.0.2");
        assert_eq!(error.setting(), Some("connections"));
        assert_eq!(
            error.to_string(),
            "--connections 10 contradicts --no-resumption or --source 127.0.0.2"
        );
        assert_eq!(
            error.in_notation(Notation::Keys),
            "connections = 10 contradicts no_resumption or source = \"127.0.0.2\""
        );
        // In a cause, a setting without an option has the name of its flag.
        assert_eq!(
            error.in_notation(OPTIONS),
            "-c 10 contradicts --no-resumption or --source 127.0.0.2"
        );
    }

    #[test]
    fn each_notation_formats_hints_that_it_can_name() {
        let error = SettingsError::of("source")
            .text(" is refused")
            .hint("set ")
            .name("public")
            .hint("use ")
            .and_value("resolve", "a:80:127.0.0.1")
            .text(" for the host")
            .hint("ask for permission")
            .hint_in_parentheses("remove ")
            .name("source")
            .at("3")
            .at("urls.txt");
        assert_eq!(
            error.in_notation(Notation::Flags),
            "urls.txt: 3: --source is refused; set --public, use --resolve a:80:127.0.0.1 for \
             the host, or ask for permission (remove --source)"
        );
        assert_eq!(
            error.in_notation(Notation::Keys),
            "urls.txt: 3: source is refused; set public, use resolve = \"a:80:127.0.0.1\" for \
             the host, or ask for permission (remove source)"
        );
        assert_eq!(
            error.in_notation(OPTIONS),
            "urls.txt: 3: --source is refused; set PRONY_PUBLIC=1, or ask for permission"
        );
    }

    #[test]
    fn another_error_adds_its_place_cause_and_hints() {
        let inner = SettingsError::from("no value").hint("write one").at("a:1");
        let error = SettingsError::of("form").text(": ").append(inner);
        let error = error.map_cause(|text| text.replace("value", "name"));
        assert_eq!(error.to_string(), "--form: a:1: no name; write one");
    }

    #[test]
    fn a_name_without_an_address_has_hints_in_each_notation() {
        let error = SpecError::Name {
            host: "a.test".to_owned(),
            error: "no such name".to_owned(),
        };
        let cause = "a.test: no address for this name (no such name); check the name";
        assert_eq!(
            error.to_string(),
            format!("{cause}, or give an address with --resolve")
        );
        assert_eq!(error.in_notation(OPTIONS), cause);
    }
}
