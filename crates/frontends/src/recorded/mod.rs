//! Converts what a browser recorded into the steps of a journey: an HTTP archive (HAR), or curl
//! commands.
//!
//! The steps are a draft that somebody edits. Requests for images, scripts and other parts of pages
//! are left out, and so are header fields that prony or the browser adds by itself. A value that an
//! earlier response contained becomes a capture.

mod captures;
mod har;
mod written;

use prony_load::{JourneyStep, LoadSettings, SettingsError, Table, literal};

pub use self::written::steps_text;
use crate::curl;

/// Header fields that are left out, because prony, HTTP or the user's cookies determine them, or
/// because servers rarely need them.
const OMITTED_HEADERS: &[&str] = &[
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-length",
    "cookie",
    "dnt",
    "host",
    "if-modified-since",
    "if-none-match",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "proxy-connection",
    "referer",
    "te",
    "transfer-encoding",
    "upgrade-insecure-requests",
    "user-agent",
];

/// The steps of a recorded session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedSteps {
    /// URL of the server, without a path.
    pub server: String,
    /// The steps, with paths as URLs.
    pub steps: Vec<JourneyStep>,
    /// Requests that are not steps, by reason.
    pub omitted: Vec<(String, usize)>,
}

/// Reads an HTTP archive, or one or more curl commands.
///
/// # Errors
///
/// The text is neither, or contains no request that can be a step.
pub fn steps(text: &str) -> Result<RecordedSteps, SettingsError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let recorded = if text.starts_with('{') {
        har::steps(text)?
    } else {
        curl_steps(text)?
    };
    if recorded.steps.is_empty() {
        let error = SettingsError::from("there is no request that could be a step");
        return Err(error.hint("record the requests for pages, forms and APIs"));
    }
    Ok(recorded)
}

/// Returns true for a header field that becomes a part of a step.
fn is_kept(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_default_accept = lower == "accept" && (value == "*/*" || value.contains("text/html"));
    !(lower.starts_with(':')
        || lower.starts_with("sec-")
        || OMITTED_HEADERS.contains(&lower.as_str())
        || is_default_accept)
}

/// Converts curl commands, each on one or more lines, as "Copy all as cURL" copies them.
fn curl_steps(text: &str) -> Result<RecordedSteps, SettingsError> {
    let mut recorded = RecordedSteps::default();
    for command in commands(text) {
        let command = curl::parse(&command)?;
        let (server, path) = split_url(&command.url);
        if recorded.server.is_empty() {
            recorded.server = server.to_owned();
        }
        let mut step = step_of(&command.settings);
        step.url = if server == recorded.server {
            literal(path)
        } else {
            literal(&command.url)
        };
        recorded.steps.push(step);
    }
    Ok(recorded)
}

/// Splits a text before each line that begins a curl command. The separators between commands (`;`,
/// `&` and `&&`) are removed.
fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut continues = false;
    for line in text.lines() {
        let begins = !continues
            && line
                .trim_start()
                .trim_start_matches("$ ")
                .starts_with("curl");
        match commands.last_mut() {
            Some(last) if !begins => {
                last.push('\n');
                last.push_str(line);
            }
            _ => commands.push(line.to_owned()),
        }
        continues = line.trim_end().ends_with('\\');
    }
    for command in &mut commands {
        let end = command.trim_end().trim_end_matches([';', '&']).len();
        command.truncate(end);
    }
    commands
}

/// Returns the step that the settings of a curl command describe.
fn step_of(settings: &LoadSettings) -> JourneyStep {
    let fields = settings.header.iter().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    });
    let mut headers: Vec<(String, String)> = fields.filter(|(n, v)| is_kept(n, v)).collect();
    for (_, value) in &mut headers {
        *value = literal(value);
    }
    let mut step = JourneyStep {
        method: settings.method.clone(),
        body: settings.body.as_deref().map(literal),
        body_file: settings.body_file.clone(),
        multipart: settings.form.clone(),
        ..JourneyStep::default()
    };
    take_form(&mut step, &mut headers);
    step.headers = Table(headers);
    step
}

/// Replaces the body of a form that a browser sent with the form's fields.
fn take_form(step: &mut JourneyStep, headers: &mut Vec<(String, String)>) {
    const FORM: &str = "application/x-www-form-urlencoded";
    let is_form = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("content-type") && value.starts_with(FORM)
    };
    let (Some(body), Some(at)) = (&step.body, headers.iter().position(is_form)) else {
        return;
    };
    let pairs = body.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((url_decoded(name)?, url_decoded(value)?))
    });
    let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else {
        return;
    };
    step.form = Table(pairs);
    step.body = None;
    headers.remove(at);
    // POST is the default method of a step with a form.
    step.method.take_if(|method| method == "POST");
}

/// Decodes a part of a form's body. Returns `None` if it isn't UTF-8.
fn url_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        let hex = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let escape = rest.as_slice();
        bytes.push(match (byte, escape) {
            (b'+', _) => b' ',
            (b'%', [high, low, ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                let value = hex(*high)? << 4 | hex(*low)?;
                rest.nth(1);
                value
            }
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Splits a URL before its path.
fn split_url(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[host..].find(['/', '?', '#']);
    let end = end.map_or(url.len(), |at| host + at);
    let (server, rest) = url.split_at(end);
    let path = rest.split('#').next().unwrap_or_default();
    (server, if path.is_empty() { "/" } else { path })
}

#[cfg(test)]
mod tests;
