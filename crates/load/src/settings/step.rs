//! Steps of a journey, as `--steps FILE` and `[[load.step]]` contain them.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Spanned;

use super::field::TextValue;
use super::form::FormField;
use super::grpc_method::GrpcMethod;
use super::setting::ValueKind;
use super::think_time::ThinkTime;
use crate::values::error::SettingsError;
use crate::values::input_file::{self, TEXT_BYTES_MAX};
use crate::values::status_set::StatusSet;

/// Maximum number of steps in a journey. Each step has results of its own.
pub(crate) const STEPS_MAX: usize = prony_record::ENTRIES_MAX;

/// One step of a journey: a request, the conditions for it, and what is read from its response.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JourneyStep {
    /// Name of the step in results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// URL, or a path on the load's own server.
    pub url: String,
    /// gRPC method to call, on the load's own server unless there is a URL. The body is its message
    /// as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcMethod>,
    /// Method; GET, or POST for a step with a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Header fields. They replace those of the same name that apply to all steps.
    #[serde(skip_serializing_if = "TextTable::is_empty")]
    pub headers: TextTable,
    /// Text of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// File with the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_file: Option<PathBuf>,
    /// Fields of a form that is sent as a browser does (`application/x-www-form-urlencoded`).
    #[serde(skip_serializing_if = "TextTable::is_empty")]
    pub form: TextTable,
    /// Fields of a multipart form, as for the setting `form`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub multipart: Vec<FormField>,
    /// Pause after the step, instead of the setting `think`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<StepThink>,
    /// Condition for the step: a share of the journeys, or a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Weight of the step among adjacent steps that also have weights. One of them is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Number of times that the step is repeated, or a range such as `1-5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// True if each user takes the step only in its first journey.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// Variables for later steps, each with its place in the response.
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub capture: Table<CapturePlace>,
    /// Statuses that count as success, instead of those of the setting `expect_status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_status: Option<StatusSet>,
    /// Text that the body must contain, or a regular expression that it must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_body: Option<BodyPattern>,
    /// True if the response is read as a stream of events, as the setting `events` says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// True if the images, scripts and style sheets of the page are requested, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub page: bool,
    /// Prefix of messages about the step: a file and line, or empty.
    #[serde(skip)]
    pub place: String,
}

/// A table of strings, in the order in which it was written.
pub(super) type TextTable = Table<String>;

/// A table, in the order in which it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Table<T>(pub Vec<(String, T)>);

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table(Vec::new())
    }
}

impl<T> Table<T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Serialize> Serialize for Table<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Table<T>, D::Error> {
        struct TableVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
            type Value = Table<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table such as { name = \"value\" }")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Table(entries))
            }
        }
        deserializer.deserialize_map(TableVisitor(std::marker::PhantomData))
    }
}

/// Place of a variable's value in a response. Exactly one place is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CapturePlace {
    /// Pointer into a JSON body (RFC 6901), such as `/data/0/token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// Name of a header field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Name of a cookie that the user has after the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// Regular expression for the body. The value is the first group, or the match if there is no
    /// group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Name of a field in an HTML form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Value if the place is not found. Without it, the journey then fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// A check of a body: a text that it contains, or a regular expression that it matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a text or { regex = \"…\" }")]
pub enum BodyPattern {
    /// The body contains this text.
    Text(String),
    /// The body matches this regular expression.
    Regex(RegexPattern),
}

/// A regular expression in a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegexPattern {
    /// The regular expression.
    pub regex: String,
}

/// Pause after a step; `None` is no pause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepThink(pub Option<ThinkTime>);

impl Serialize for StepThink {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(think) => serializer.collect_str(&think),
            None => serializer.serialize_str("0s"),
        }
    }
}

impl<'de> Deserialize<'de> for StepThink {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StepThink, D::Error> {
        let text = String::deserialize(deserializer)?;
        if matches!(text.as_str(), "0" | "0s" | "0ms") {
            return Ok(StepThink(None));
        }
        let think = text.parse().map_err(D::Error::custom)?;
        Ok(StepThink(Some(think)))
    }
}

/// Number of times that a step is taken: from `min` to `max`, each equally likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Minimum number, at least 1.
    pub min: u32,
    /// Maximum number.
    pub max: u32,
}

/// Maximum number of times that a step can be repeated.
const REPEAT_MAX: u32 = 1_000_000;

impl Serialize for Repeat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.min == self.max {
            serializer.serialize_u32(self.min)
        } else {
            serializer.collect_str(&format_args!("{}-{}", self.min, self.max))
        }
    }
}

impl<'de> Deserialize<'de> for Repeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Repeat, D::Error> {
        let texts = serde::de::DeserializeSeed::deserialize(ValueKind::Text, deserializer)?;
        let text = texts.concat();
        let (min, max) = text.split_once('-').unwrap_or((&text, &text));
        let number = |text: &str| {
            let number = text.trim().parse::<u32>().ok();
            number.filter(|number| (1..=REPEAT_MAX).contains(number))
        };
        match (number(min), number(max)) {
            (Some(min), Some(max)) if min <= max => Ok(Repeat { min, max }),
            _ => Err(D::Error::custom(format!(
                "\"{text}\" is not a number of times; write a number such as 3, or a range such \
                 as \"1-5\""
            ))),
        }
    }
}

impl Serialize for StatusSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for FormField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FormField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FormField, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// A step is read from JSON, in which a plan's table is passed on.
impl TextValue for JourneyStep {
    fn read(_: ValueKind, text: &str) -> Result<JourneyStep, SettingsError> {
        serde_json::from_str(text).map_err(|error| {
            let (text, place) = (error.to_string(), error.line());
            let suffix = format!(" at line {place} column {}", error.column());
            SettingsError::from(text.strip_suffix(&suffix).unwrap_or(&text).to_owned())
        })
    }

    fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl JourneyStep {
    /// The files that the step reads.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let fields = self.multipart.iter().filter_map(FormField::file);
        self.body_file.iter().chain(fields)
    }

    /// Replaces the paths of the files that the step reads.
    ///
    /// # Errors
    ///
    /// The first error that `replace` returns.
    pub fn replace_files<E>(
        &mut self,
        mut replace: impl FnMut(&Path) -> Result<PathBuf, E>,
    ) -> Result<(), E> {
        if let Some(file) = &mut self.body_file {
            *file = replace(file)?;
        }
        for field in &mut self.multipart {
            if let Some(file) = field.file() {
                let to = replace(file)?;
                field.set_file(to);
            }
        }
        Ok(())
    }
}

/// A file with steps.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepsFile {
    step: Vec<Spanned<JourneyStep>>,
}

/// Reads the steps in a file. Paths of files in it are relative to its folder.
///
/// # Errors
///
/// An error that names the file, and the line if its content is not valid.
pub fn read_steps(path: &Path) -> Result<Vec<JourneyStep>, SettingsError> {
    let of_file =
        |error: &str| SettingsError::value("steps", path.display()).text(format!(": {error}"));
    let bytes =
        input_file::read_file(path, TEXT_BYTES_MAX).map_err(|error| of_file(&error.to_string()))?;
    let text = input_file::decode(bytes).map_err(of_file)?;
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let place = |at: usize| format!("{}:{}", path.display(), line(at));
    let file: StepsFile = toml::from_str(&text).map_err(|error| {
        let text = error.message().trim_end().replace('\n', "; ");
        let error_at = SettingsError::about("steps").at(match error.span() {
            Some(span) => place(span.start),
            None => path.display().to_string(),
        });
        error_at
            .text(text)
            .hint("a step begins with [[step]] and has a url or grpc")
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let steps = file.step.into_iter().map(|spanned| {
        let at = spanned.span().start;
        let mut step = spanned.into_inner();
        step.place = place(at);
        let Ok(()) =
            step.replace_files(|file| Ok::<_, std::convert::Infallible>(folder.join(file)));
        step
    });
    Ok(steps.collect())
}
