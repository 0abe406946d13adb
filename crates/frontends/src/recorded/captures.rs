//! Finds values of a request that earlier responses contained, such as tokens.

use std::collections::HashMap;

use html5gum::{Token, Tokenizer};
use prony_load::{CapturePlace, JourneyStep, placeholder};
use serde_json::Value;

/// Minimum length of a value that is looked for. Shorter values occur by chance.
const VALUE_CHARS_MIN: usize = 8;
/// Maximum size of a body that is searched, in bytes.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A recorded response.
pub(super) struct PastResponse {
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// Replaces the values of a step that earlier responses contained with variables, and adds their
/// captures to the earlier steps.
pub(super) fn find_captures(
    step: &mut JourneyStep,
    earlier: &mut [JourneyStep],
    past: &[PastResponse],
) {
    let mut known = HashMap::new();
    for (name, value) in &mut step.form.0 {
        if let Some(variable) = captured(name, value, earlier, past, &mut known) {
            *value = placeholder(&variable);
        }
    }
    for (name, value) in &mut step.headers.0 {
        // A token follows the name of its scheme.
        let at = value.find(' ').map_or(0, |space| space + 1);
        let token = value[at..].to_owned();
        let name = if name.eq_ignore_ascii_case("authorization") {
            "token"
        } else {
            name
        };
        if let Some(variable) = captured(name, &token, earlier, past, &mut known) {
            value.replace_range(at.., &placeholder(&variable));
        }
    }
}

/// Returns the variable with this value, after adding its capture to the last step whose response
/// contained the value. `known` has the variables of the step.
fn captured(
    name: &str,
    value: &str,
    earlier: &mut [JourneyStep],
    past: &[PastResponse],
    known: &mut HashMap<String, String>,
) -> Option<String> {
    if value.chars().count() < VALUE_CHARS_MIN {
        return None;
    }
    if let Some(variable) = known.get(value) {
        return Some(variable.clone());
    }
    let found = past.iter().enumerate().rev();
    let found = found.filter_map(|(at, response)| Some((at, place_of(name, value, response)?)));
    let (at, place) = found.into_iter().next()?;
    let step = earlier.get_mut(at)?;
    let same = step.capture.0.iter().find(|(_, own)| *own == place);
    let variable = match same {
        Some((variable, _)) => variable.clone(),
        None => {
            let variable = variable_name(name);
            let is_taken = step.capture.0.iter().any(|(own, _)| *own == variable);
            let variable = if is_taken {
                format!("{variable}_{}", step.capture.0.len() + 1)
            } else {
                variable
            };
            step.capture.0.push((variable.clone(), place));
            variable
        }
    };
    known.insert(value.to_owned(), variable.clone());
    Some(variable)
}

/// Returns the name of a variable for a field or header.
fn variable_name(name: &str) -> String {
    let word = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(word).collect();
    let name = name.trim_matches('_');
    match name {
        "" => "value".to_owned(),
        "seq" | "uuid" | "random" => format!("{name}_value"),
        name => name.to_owned(),
    }
}

/// Returns the place of a value in a response.
fn place_of(name: &str, value: &str, response: &PastResponse) -> Option<CapturePlace> {
    let fields = response.headers.iter();
    let mut same =
        fields.filter(|(own, it)| it == value && !own.eq_ignore_ascii_case("set-cookie"));
    if let Some((header, _)) = same.next() {
        return Some(CapturePlace {
            header: Some(header.clone()),
            ..CapturePlace::default()
        });
    }
    let body = &response.body;
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    if body.trim_start().starts_with(['{', '[']) {
        let json = serde_json::from_str::<Value>(body).ok()?;
        let pointer = pointer_to(&json, value)?;
        return Some(CapturePlace {
            json: Some(pointer),
            ..CapturePlace::default()
        });
    }
    let field = field_with(body, name, value)?;
    Some(CapturePlace {
        field: Some(field),
        ..CapturePlace::default()
    })
}

/// Returns a pointer to the string in a JSON document that equals a value.
fn pointer_to(json: &Value, value: &str) -> Option<String> {
    let mut open = vec![(String::new(), json)];
    while let Some((pointer, json)) = open.pop() {
        match json {
            Value::String(text) if text == value => return Some(pointer),
            Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                open.extend(items.map(|(index, item)| (format!("{pointer}/{index}"), item)));
            }
            Value::Object(members) => {
                let members = members.iter().rev();
                open.extend(members.map(|(name, member)| {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    (format!("{pointer}/{name}"), member)
                }));
            }
            _ => {}
        }
    }
    None
}

/// Returns the name of the form field or `meta` with a value: `name` if there is one, otherwise the
/// first one.
fn field_with(html: &str, name: &str, value: &str) -> Option<String> {
    let mut found: Option<String> = None;
    for token in Tokenizer::new(html).flatten() {
        let Token::StartTag(tag) = token else {
            continue;
        };
        let attribute = |key: &str| {
            let value = tag.attributes.get(key.as_bytes())?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        let key = match &tag.name[..] {
            b"input" | b"button" => "value",
            b"meta" => "content",
            _ => continue,
        };
        if attribute(key).as_deref() != Some(value) {
            continue;
        }
        match attribute("name") {
            Some(own) if own == name => return Some(own),
            Some(own) => {
                found.get_or_insert(own);
            }
            None => {}
        }
    }
    found
}
