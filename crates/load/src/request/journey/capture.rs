//! Parts of responses that a step reads: values for variables, and the body's check.

use std::borrow::Cow;

use prony_record::truncated;
use regex::bytes::{Regex, RegexBuilder};

use super::html::field_value;
use super::json_pointer::JsonPointer;
use crate::settings::{BodyPattern, CapturePlace};
use crate::values::content_coding::{codings, decode_beginning};
use crate::values::error::SettingsError;

/// Maximum number of bytes of a body that captures and checks read.
pub(crate) const CAPTURED_BODY_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a captured value in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 64 << 10;
/// Maximum size of a compiled regular expression, and of its cache, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// Maximum number of characters of a pattern that a message shows.
const SHOWN_CHARS_MAX: usize = 60;

/// A variable's value in a response.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    /// Index of the variable.
    pub(crate) variable: usize,
    /// Name of the variable, for messages.
    name: String,
    source: CaptureSource,
    default: Option<String>,
}

#[derive(Debug, Clone)]
enum CaptureSource {
    Json(JsonPointer),
    Header(String),
    Cookie(String),
    Regex(Regex),
    Field(String),
}

/// A response, as a step reads it.
pub(crate) struct StepResponse<'a> {
    /// Status line and fields, one per line.
    pub(crate) head: &'a [u8],
    /// The received part of the body, at most [`CAPTURED_BODY_BYTES_MAX`].
    pub(crate) body: &'a [u8],
    /// Length of the whole body.
    pub(crate) length: u64,
    /// Returns the value of a cookie that the user has after the response.
    pub(crate) cookie: &'a dyn Fn(&str) -> Option<String>,
}

/// A check or a capture that failed, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CaptureFailure {
    /// The body does not contain what was expected.
    Body(String),
    /// A variable got no value.
    Capture(String),
}

impl StepResponse<'_> {
    /// Returns the body without its content codings. A body that can't be decoded is returned as it
    /// is.
    pub(crate) fn decoded_body(&self) -> Cow<'_, [u8]> {
        let values = fields(self.head).filter(|(name, _)| is_name(name, "content-encoding"));
        let values: Vec<String> = values
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
            .collect();
        let codings = codings(values.iter().map(String::as_str));
        if codings.is_empty() {
            return Cow::Borrowed(self.body);
        }
        let mut body = Cow::Borrowed(self.body);
        for coding in codings.iter().rev() {
            match decode_beginning(coding, &body, CAPTURED_BODY_BYTES_MAX) {
                Some(decoded) => body = Cow::Owned(decoded),
                None => return Cow::Borrowed(self.body),
            }
        }
        body
    }

    /// The end of a message about something that was not found in the body.
    fn truncation(&self) -> &'static str {
        if self.length > CAPTURED_BODY_BYTES_MAX as u64 {
            " in the first 1 MiB of the body"
        } else {
            ""
        }
    }
}

/// The names and values of the fields in a captured head.
fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

fn is_name(name: &[u8], expected: &str) -> bool {
    name.eq_ignore_ascii_case(expected.as_bytes())
}

fn shown(text: &str) -> Cow<'_, str> {
    truncated(text, SHOWN_CHARS_MAX)
}

/// Compiles a regular expression. Matching takes linear time, and memory is limited.
fn regex(pattern: &str) -> Result<Regex, SettingsError> {
    let regex = RegexBuilder::new(pattern)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build();
    regex.map_err(|error| {
        let text = error.to_string();
        let cause = text.lines().last().unwrap_or_default();
        let cause = cause.strip_prefix("error: ").unwrap_or(cause);
        SettingsError::from(format!(
            "the regular expression \"{}\": {cause}",
            shown(pattern)
        ))
    })
}

impl Capture {
    pub(super) fn new(
        variable: usize,
        name: &str,
        place: &CapturePlace,
    ) -> Result<Capture, SettingsError> {
        const HINT: &str = "write one of { json = \"/token\" }, { header = \"X-Token\" }, \
                            { cookie = \"sid\" }, { regex = 'id=(\\d+)' } or { field = \"csrf\" }";
        let CapturePlace {
            json,
            header,
            cookie,
            regex: pattern,
            field,
            default,
        } = place;
        let source = match (json, header, cookie, pattern, field) {
            (Some(pointer), None, None, None, None) => {
                CaptureSource::Json(JsonPointer::new(pointer)?)
            }
            (None, Some(name), None, None, None) => CaptureSource::Header(name.clone()),
            (None, None, Some(name), None, None) => CaptureSource::Cookie(name.clone()),
            (None, None, None, Some(pattern), None) => CaptureSource::Regex(regex(pattern)?),
            (None, None, None, None, Some(name)) => CaptureSource::Field(name.clone()),
            (None, None, None, None, None) => {
                return Err(SettingsError::from("the place of the value is missing").hint(HINT));
            }
            _ => return Err(SettingsError::from("a value has one place").hint(HINT)),
        };
        Ok(Capture {
            variable,
            name: name.to_owned(),
            source,
            default: default.clone(),
        })
    }

    pub(super) fn reads_body(&self) -> bool {
        !matches!(
            self.source,
            CaptureSource::Header(_) | CaptureSource::Cookie(_)
        )
    }

    /// Returns the value in a response.
    ///
    /// # Errors
    ///
    /// The response has no such value, and there is no default.
    pub(super) fn find<'r>(
        &'r self,
        body: &'r [u8],
        response: &StepResponse<'r>,
    ) -> Result<Cow<'r, [u8]>, CaptureFailure> {
        let found = match &self.source {
            CaptureSource::Json(pointer) => pointer.find(body).map(|text| text.into_bytes().into()),
            CaptureSource::Header(name) => fields(response.head)
                .find(|(own, _)| is_name(own, name))
                .map(|(_, value)| Cow::Borrowed(value)),
            CaptureSource::Cookie(name) => {
                (response.cookie)(name).map(|value| value.into_bytes().into())
            }
            CaptureSource::Regex(regex) => regex.captures(body).and_then(|groups| {
                let group = groups.get(1).or_else(|| groups.get(0))?;
                Some(Cow::Borrowed(group.as_bytes()))
            }),
            CaptureSource::Field(name) => field_value(body, name).map(Cow::Owned),
        };
        let value = match (found, &self.default) {
            (Some(value), _) => value,
            (None, Some(default)) => return Ok(Cow::Borrowed(default.as_bytes())),
            (None, None) => {
                let place = self.place();
                let end = if self.reads_body() {
                    response.truncation()
                } else {
                    ""
                };
                let text = format!("no value for {}: {place} was not found{end}", self.name);
                return Err(CaptureFailure::Capture(text));
            }
        };
        if value.len() > VALUE_BYTES_MAX {
            let text = format!(
                "the value for {} has {} bytes; the maximum is {VALUE_BYTES_MAX}",
                self.name,
                value.len()
            );
            return Err(CaptureFailure::Capture(text));
        }
        // Requests consist of text.
        Ok(match std::str::from_utf8(&value) {
            Ok(_) => value,
            Err(_) => String::from_utf8_lossy(&value)
                .into_owned()
                .into_bytes()
                .into(),
        })
    }

    /// The place of the value, for messages.
    fn place(&self) -> String {
        match &self.source {
            CaptureSource::Json(pointer) => format!("{} in the JSON body", shown(pointer.text())),
            CaptureSource::Header(name) => format!("header {}", shown(name)),
            CaptureSource::Cookie(name) => format!("cookie {}", shown(name)),
            CaptureSource::Regex(regex) => format!("/{}/", shown(regex.as_str())),
            CaptureSource::Field(name) => format!("form field {}", shown(name)),
        }
    }

    /// The failure of a value that can't be used in a request.
    pub(super) fn unusable(&self, value: &[u8], reason: &str) -> CaptureFailure {
        let value = String::from_utf8_lossy(value);
        let name = &self.name;
        CaptureFailure::Capture(format!("the value {:?} for {name} {reason}", shown(&value)))
    }
}

/// A check of a body.
#[derive(Debug, Clone)]
pub(crate) struct BodyCheck {
    regex: Regex,
    /// The expected text or pattern, for messages.
    shown: String,
}

impl BodyCheck {
    pub(super) fn new(pattern: &BodyPattern) -> Result<BodyCheck, SettingsError> {
        let within = |error: SettingsError| error.at("expect_body");
        match pattern {
            BodyPattern::Text(text) if text.is_empty() => {
                Err(within("the expected text is empty".into()))
            }
            BodyPattern::Text(text) if text.contains("{{") => {
                let error = SettingsError::from("placeholders have no value here");
                Err(within(error.hint(
                    "write { regex = \"…\" }, in which \\{\\{ is two braces",
                )))
            }
            BodyPattern::Text(text) => Ok(BodyCheck {
                regex: regex(&regex::escape(text)).map_err(within)?,
                shown: format!("{:?}", shown(text)),
            }),
            BodyPattern::Regex(pattern) => Ok(BodyCheck {
                regex: regex(&pattern.regex).map_err(within)?,
                shown: format!("/{}/", shown(&pattern.regex)),
            }),
        }
    }

    pub(super) fn judge(
        &self,
        body: &[u8],
        response: &StepResponse<'_>,
    ) -> Result<(), CaptureFailure> {
        if self.regex.is_match(body) {
            return Ok(());
        }
        let end = match response.truncation() {
            "" => " in the body",
            end => end,
        };
        let text = format!("{} was not found{end}", self.shown);
        Err(CaptureFailure::Body(text))
    }
}
