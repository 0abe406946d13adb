//! Flags of `prony load` as settings, so tests can describe a load in one line.

use prony_load::{LoadSettings, Setting, ValueKind};
use serde_json::{Map, Value, json};

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
        // Tests also use flags that no setting has.
        let (key, kind) = match (declared(flag), flag.strip_prefix("--")) {
            (Some(setting), _) => (setting.key.to_owned(), setting.kind),
            (None, Some(long)) => (long.replace('-', "_"), ValueKind::Text),
            (None, None) => panic!("{word} is not a flag"),
        };
        if kind == ValueKind::Switch {
            settings.insert(key, json!(true));
            continue;
        }
        let value = attached.or_else(|| words.next());
        let value = value.unwrap_or_else(|| panic!("{word} lacks its value"));
        match kind {
            ValueKind::List | ValueKind::Texts | ValueKind::Headers | ValueKind::Steps => {
                let values = settings.entry(key).or_insert_with(|| json!([]));
                values.as_array_mut().unwrap().push(json!(value));
            }
            _ => {
                settings.insert(key, json!(value));
            }
        }
    }
    Value::Object(settings)
}

fn declared(flag: &str) -> Option<&'static Setting> {
    let long = flag.strip_prefix("--").map(|long| long.replace('-', "_"));
    let is_named = |setting: &&Setting| match (&long, setting.short) {
        (Some(long), _) => setting.key == long,
        (None, Some(short)) => flag == format!("-{short}"),
        (None, None) => false,
    };
    LoadSettings::TABLE.iter().find(is_named)
}
