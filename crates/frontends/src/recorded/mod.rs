//! Converts what a browser recorded into the steps of a journey: an HTTP archive (HAR), or curl
//! commands.
//!
//! The steps are a draft that somebody edits. Requests for images, scripts and other parts of pages
//! are left out, and so are header fields that prony or the browser adds by itself. A value that an
//! earlier response contained becomes a capture.

mod captures;
mod har;
mod parts;
mod written;

use prony_load::{JourneyStep, LoadSettings, SettingsError, Table, literal};

pub use self::parts::RecordedSteps;
use self::parts::{is_kept, split_url, take_form};
pub use self::written::steps_text;
use crate::curl;

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

#[cfg(test)]
mod tests;
