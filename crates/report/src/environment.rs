//! Conversion of a stored environment to lines of text. Documents of any structure are accepted,
//! because newer versions may store more facts.

use serde_json::Value;

use crate::number;

/// Converts a document to a list of paths and values: `machine › sysctls › net.core.somaxconn`,
/// `4096`.
pub(crate) fn flattened(value: &Value) -> Vec<(String, String)> {
    let mut out = Vec::new();
    flatten(value, "", &mut out);
    out
}

/// Returns the rank of a fact in a list that may be truncated. The machine, versions and settings
/// come first; digests and libraries come last.
pub(crate) fn environment_rank(path: &str) -> u8 {
    let has = |words: &[&str]| words.iter().any(|word| path.contains(word));
    if has(&["sha256", "digest", "librar", "built with", "configure"]) {
        return 3;
    }
    if has(&["version", "command", "path"]) {
        return 1;
    }
    match path.starts_with("machine") {
        true if has(&["sysctl", "limits", "mitigation", "vulnerab"]) => 2,
        true => 0,
        false => 2,
    }
}

/// Describes the machines of a run: processor, cores, memory and system. A new kernel doesn't make
/// another machine.
pub fn machine_name(environment: &Value) -> String {
    let others = environment["hosts"].as_object();
    let others = others.into_iter().flat_map(serde_json::Map::values);
    let all = [&environment["machine"]].into_iter().chain(others);
    let described = all.map(|machine| {
        let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_owned();
        let cores = machine["cores"].as_u64().unwrap_or_default();
        let gib = machine["memory_bytes"].as_f64().unwrap_or_default() / f64::from(1 << 30);
        let is_virtual = machine["virtualised"].as_bool() == Some(true);
        format!(
            "{}, {}, {gib:.0} GiB, {} {}{}",
            text("cpu"),
            number::plural(cores, "core", "cores"),
            text("system"),
            text("architecture"),
            if is_virtual { ", virtual" } else { "" }
        )
    });
    described.collect::<Vec<_>>().join(" + ")
}

fn flatten(value: &Value, path: &str, out: &mut Vec<(String, String)>) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path} › {key}")
        }
    };
    match value {
        Value::Object(map) if map.len() > 1 && all_equal(map.values()) => {
            // If all variants share a value, it is listed only once.
            if let Some(value) = map.values().next() {
                flatten(value, &below("(each)"), out);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                flatten(value, &below(key), out);
            }
        }
        Value::Array(list) if !list.iter().any(|v| v.is_array() || v.is_object()) => {
            let texts: Vec<String> = list.iter().filter_map(scalar).collect();
            if !texts.is_empty() {
                out.push((path.to_owned(), texts.join(", ")));
            }
        }
        Value::Array(list) => {
            for (place, value) in list.iter().enumerate() {
                flatten(value, &below(&(place + 1).to_string()), out);
            }
        }
        single => out.extend(scalar(single).map(|text| (path.to_owned(), text))),
    }
}

/// A scalar as text; `None` for null.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Returns true if all values are equal objects or arrays.
fn all_equal<'a>(mut values: impl Iterator<Item = &'a Value>) -> bool {
    let first = values.next();
    first.is_some_and(|v| v.is_object() || v.is_array()) && values.all(|v| Some(v) == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_becomes_lines_without_repetition() {
        let web = json!({"web": [{"path": "/usr/sbin/nginx", "version": null}]});
        let environment = json!({
            "machine": {"cores": 2, "open_files": [1024, null, 4096]},
            "services": {"native": web, "namespace": web}
        });
        let lines = flattened(&environment);
        let expected = [
            ("machine › cores", "2"),
            ("machine › open_files", "1024, 4096"),
            ("services › (each) › web › 1 › path", "/usr/sbin/nginx"),
        ];
        let owned = expected.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(lines, owned);
    }
}
