//! Loads given as flags, and assertions on every record.

use prony_load::{Control, LoadSettings};
use prony_record::{Outcome, Record};

/// The socket backends, as values of `--io`.
pub(crate) const BACKENDS: [&str; 2] = ["uring", "poll"];

#[path = "../flags/mod.rs"]
mod flags;

/// Parses these flags into settings.
pub(crate) fn settings(words: &[&str]) -> LoadSettings {
    let flags = flags::settings(words.iter().copied());
    serde_json::from_value(flags).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// Runs a load, with one worker by default.
pub(crate) fn run(url: &str, words: &[&str]) -> Record {
    let mut text = Vec::new();
    if !words.contains(&"-t") {
        text.extend(["-t", "1"]);
    }
    // Without `--timeout`, the limit is long, so a stall of the machine doesn't look like a stall
    // of the server.
    if !words.contains(&"--timeout") {
        text.extend(["--timeout", "2m"]);
    }
    text.extend(words);
    let spec = settings(&text).resolve(Some(url));
    let spec = spec.unwrap_or_else(|error| panic!("{url} {words:?}: {error}"));
    let record = prony_load::run(&spec, &Control::new(1)).unwrap();
    record.totals.check().unwrap();
    let totals = &record.totals;
    assert!(totals.bytes_in >= totals.body_bytes_in, "{url} {words:?}");
    record
}

/// Returns each outcome that occurred, with its count.
pub(crate) fn outcomes(record: &Record) -> Vec<(Outcome, u64)> {
    record.outcomes.clone().into_iter().collect()
}

/// Returns the text of a finding, or an empty string if there is none.
pub(crate) fn finding<'a>(record: &'a Record, id: &str) -> &'a str {
    let found = record
        .findings
        .iter()
        .find(|finding| finding.id.as_str() == id);
    found.map_or("", |finding| &finding.text)
}

/// Asserts that all `requests` of a load over HTTP/2 succeeded.
#[track_caller]
pub(crate) fn assert_all_ok(record: &Record, requests: u64, case: &str) {
    assert_eq!(
        outcomes(record),
        [(Outcome::Ok, requests)],
        "{case}: {}",
        finding(record, "errors")
    );
    assert_eq!(record.totals.started, requests, "{case}");
    assert_eq!(record.negotiated.http.as_deref(), Some("2"), "{case}");
}
