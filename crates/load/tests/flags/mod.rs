//! Flags of `prony load` as settings, so tests can describe a load in one line.

use serde_json::{Map, Value, json};

const SHORT: [(&str, &str); 10] = [
    ("-F", "form"),
    ("-c", "connections"),
    ("-n", "requests"),
    ("-d", "duration"),
    ("-r", "rate"),
    ("-t", "threads"),
    ("-X", "method"),
    ("-H", "header"),
    ("-u", "user"),
    ("-k", "insecure"),
];
const SWITCHES: [&str; 9] = [
    "path_as_is",
    "busy_poll",
    "no_keepalive",
    "cookies",
    "insecure",
    "no_resumption",
    "early_data",
    "no_coalescing",
    "public",
];
const REPEATABLE: [&str; 7] = [
    "form",
    "stages",
    "header",
    "source",
    "proxy_source",
    "resolve",
    "ciphers",
];

/// Converts flags to settings in JSON.
///
/// # Panics
///
/// A flag lacks its value, or a word is not a flag.
pub(crate) fn settings<'a>(words: impl IntoIterator<Item = &'a str>) -> Value {
    let mut words = words.into_iter();
    let mut settings = Map::new();
    while let Some(word) = words.next() {
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word, None),
        };
        let short = SHORT.iter().find(|(short, _)| *short == flag);
        let key = match (short, flag.strip_prefix("--")) {
            (Some((_, key)), _) => (*key).to_owned(),
            (None, Some(long)) => long.replace('-', "_"),
            (None, None) => panic!("{word} is not a flag"),
        };
        if SWITCHES.contains(&key.as_str()) {
            settings.insert(key, json!(true));
            continue;
        }
        let value = attached.or_else(|| words.next());
        let value = value.unwrap_or_else(|| panic!("{word} lacks its value"));
        match REPEATABLE.contains(&key.as_str()) {
            true => {
                let values = settings.entry(key).or_insert_with(|| json!([]));
                values.as_array_mut().unwrap().push(json!(value));
            }
            false => {
                settings.insert(key, json!(value));
            }
        }
    }
    Value::Object(settings)
}
