//! Steps of a journey, and what they read from responses.
//!
//! This file isn't part of the fuzz library: the tests of `crates/protocol` include the library and
//! don't depend on `prony_load`.

use prony_load::{JourneyStep, LoadSettings, captures_in};

/// Captures of every kind, and a check.
const STEP: &str = r#"{
    "url": "/", "expect_body": {"regex": "(a|b)*c?"},
    "capture": {
        "json": {"json": "/a/0/b", "default": ""},
        "header": {"header": "x-a", "default": ""},
        "regex": {"regex": "(a+)+b|id=(\\w*)", "default": ""},
        "field": {"field": "a", "default": ""},
        "required": {"field": "b"}
    }
}"#;

/// Reads the data as steps, as a response, and as a pattern. None of these may panic, and values
/// are text. Returns true if the data are valid steps.
pub fn run(data: &[u8]) -> bool {
    let step: JourneyStep = serde_json::from_str(STEP).unwrap();
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (head, body) = data.split_at(at);
    let head = [b"HTTP/1.1 200 OK\r\n", head].concat();
    if let Ok(values) = captures_in(&step, &head, body) {
        assert!(values.len() == 5 && values.iter().all(|(_, value)| value.len() <= 64 << 10));
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let pattern = serde_json::json!({
        "url": "/", "capture": {"a": {"regex": text}, "b": {"json": text}, "c": {"field": text}},
    });
    if let Ok(step) = serde_json::from_value::<JourneyStep>(pattern) {
        let _ = captures_in(&step, b"", body);
    }
    let Ok(settings) = serde_json::from_str::<LoadSettings>(&format!("{{\"step\": {text}}}"))
    else {
        return false;
    };
    // Nothing is sent, and the address needs no DNS lookup. Steps may name files.
    let has_files = settings
        .step
        .iter()
        .any(|step| step.files().next().is_some());
    let is_local = settings.step.iter().all(|step| step.url.starts_with('/'));
    if is_local && !has_files {
        let _ = settings.resolve(Some("http://127.0.0.1:1/"));
    }
    true
}
