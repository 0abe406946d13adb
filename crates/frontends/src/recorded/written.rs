//! Writes steps as TOML that somebody edits.

use std::fmt::Write as _;

use prony_load::{BodyPattern, CapturePlace, JourneyStep, Repeat};

use super::parts::RecordedSteps;

/// Returns the file for `--steps`, with comments. `name` is the file's name in them.
pub fn steps_text(recorded: &RecordedSteps, name: &str) -> String {
    let server = &recorded.server;
    let mut text = format!(
        "# Run it: prony load --steps {name} {server}\n\
         # It contains what was recorded, including passwords. Replace values that differ between\n\
         # users with {{{{ column }}}} and add --data users.csv.\n"
    );
    for (reason, count) in &recorded.omitted {
        let _ = writeln!(text, "# Left out: {count} {reason}");
    }
    for step in &recorded.steps {
        text.push_str("\n[[step]]\n");
        write_step(step, &mut text);
    }
    text
}

fn write_step(step: &JourneyStep, text: &mut String) {
    let mut line = |key: &str, value: String| {
        let _ = writeln!(text, "{key} = {value}");
    };
    if let Some(name) = &step.name {
        line("name", quoted(name));
    }
    line("url", quoted(&step.url));
    if let Some(method) = &step.method {
        line("method", quoted(method));
    }
    if !step.headers.0.is_empty() {
        line("headers", table(&step.headers.0, |value| quoted(value)));
    }
    if let Some(body) = &step.body {
        line("body", quoted(body));
    }
    if let Some(file) = &step.body_file {
        line("body_file", quoted(&file.to_string_lossy()));
    }
    if !step.form.0.is_empty() {
        line("form", table(&step.form.0, |value| quoted(value)));
    }
    if !step.multipart.is_empty() {
        let fields = step
            .multipart
            .iter()
            .map(|field| quoted(&field.to_string()));
        line(
            "multipart",
            format!("[{}]", fields.collect::<Vec<_>>().join(", ")),
        );
    }
    if let Some(when) = &step.when {
        line("when", quoted(when));
    }
    if let Some(weight) = step.weight {
        line("weight", weight.to_string());
    }
    match step.repeat {
        Some(Repeat { min, max }) if min == max => line("repeat", min.to_string()),
        Some(Repeat { min, max }) => line("repeat", quoted(&format!("{min}-{max}"))),
        None => {}
    }
    if step.stream {
        line("stream", "true".to_owned());
    }
    if step.page {
        line("page", "true".to_owned());
    }
    if step.once {
        line("once", "true".to_owned());
    }
    if let Some(status) = &step.expect_status {
        line("expect_status", quoted(&status.to_string()));
    }
    match &step.expect_body {
        Some(BodyPattern::Text(text)) => line("expect_body", quoted(text)),
        Some(BodyPattern::Regex(pattern)) => {
            line(
                "expect_body",
                format!("{{ regex = {} }}", quoted(&pattern.regex)),
            );
        }
        None => {}
    }
    for (name, place) in &step.capture.0 {
        line(&format!("capture.{}", key(name)), capture(place));
    }
    if let Some(think) = &step.think {
        let think = think
            .0
            .map_or_else(|| "0s".to_owned(), |think| think.to_string());
        line("think", quoted(&think));
    }
}

fn capture(place: &CapturePlace) -> String {
    let parts = [
        ("json", &place.json),
        ("header", &place.header),
        ("cookie", &place.cookie),
        ("regex", &place.regex),
        ("field", &place.field),
        ("default", &place.default),
    ];
    let given = parts.into_iter().filter_map(|(key, value)| {
        let value = value.as_ref()?;
        Some((key.to_owned(), value.clone()))
    });
    table(&given.collect::<Vec<_>>(), |value| quoted(value))
}

fn table<T>(entries: &[(String, T)], value: impl Fn(&T) -> String) -> String {
    let entries = entries
        .iter()
        .map(|(name, it)| format!("{} = {}", key(name), value(it)));
    format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
}

/// Returns a key, in quotes if it needs them.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// Returns a string on one line: literal if it contains quotes or backslashes, such as JSON,
/// otherwise with escapes.
fn quoted(text: &str) -> String {
    let is_literal = text.contains(['"', '\\']) && !text.contains('\'');
    if is_literal && !text.chars().any(char::is_control) {
        return format!("'{text}'");
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
