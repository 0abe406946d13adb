//! Combines settings from two sources, such as flags and an imported command.

use serde_json::{Map, Value};

use super::{GivenSetting, LoadSettings};

impl LoadSettings {
    /// Adds the settings of `other`. Lists are concatenated.
    ///
    /// # Errors
    ///
    /// Returns a setting of `self` that can't be combined with `other`, because `other` also sets
    /// it: a setting with a single value, the body in either form, or a header of the same name.
    pub fn combined(&self, other: &LoadSettings) -> Result<LoadSettings, GivenSetting> {
        let body = |settings: &LoadSettings| match settings {
            settings if settings.body.is_some() => Some("body"),
            settings if settings.body_file.is_some() => Some("body_file"),
            settings => (!settings.form.is_empty()).then_some("form"),
        };
        if let (Some(key), Some(_)) = (body(self), body(other)) {
            return Err(GivenSetting {
                key: key.to_owned(),
                values: Vec::new(),
            });
        }
        let names: Vec<String> = other.header.iter().map(|line| name_of(line)).collect();
        let twice = |line: &&String| names.contains(&name_of(line));
        if let Some(line) = self.header.iter().find(twice) {
            return Err(GivenSetting {
                key: "header".to_owned(),
                values: vec![line.clone()],
            });
        }
        let mut all = map_of(self);
        for (key, value) in map_of(other) {
            match (all.get_mut(&key), value) {
                (Some(Value::Array(own)), Value::Array(more)) => own.extend(more),
                // A switch is present only if it is on, so combining two equal switches changes
                // nothing.
                (None | Some(Value::Bool(_)), value) => {
                    all.insert(key, value);
                }
                (Some(_), _) => {
                    let mut given = self.given().into_iter();
                    let both = given.find(|setting| setting.key == key);
                    return Err(both.unwrap_or(GivenSetting {
                        key,
                        values: Vec::new(),
                    }));
                }
            }
        }
        let combined = serde_json::from_value(Value::Object(all));
        // Settings are always written in a form that can be read back, so this can't fail.
        Ok(combined.unwrap_or_else(|_| self.clone()))
    }
}

/// Name of a header line, in lower case.
fn name_of(line: &str) -> String {
    let name = line.split(':').next().unwrap_or_default();
    name.trim().to_ascii_lowercase()
}

fn map_of(settings: &LoadSettings) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(json: &str) -> LoadSettings {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn settings_of_both_sources_apply() {
        let flags = settings(r#"{"connections": 3, "duration": "2s", "header": ["A: 1"]}"#);
        let import = settings(
            r#"{"method": "POST", "body": "x", "header": ["B: 2"], "insecure": true,
                "timeout": "2500ms", "user": "a:b"}"#,
        );
        let all = settings(
            r#"{"connections": 3, "duration": "2s", "header": ["A: 1", "B: 2"], "method": "POST",
                "body": "x", "insecure": true, "timeout": "2500ms", "user": "a:b"}"#,
        );
        assert_eq!(flags.combined(&import), Ok(all.clone()));
        let insecure = settings(r#"{"insecure": true}"#);
        assert_eq!(all.combined(&insecure), Ok(all));
    }

    #[test]
    fn settings_that_both_sources_have_are_named() {
        for (one, other, key, value) in [
            (
                r#"{"method": "GET"}"#,
                r#"{"method": "POST"}"#,
                "method",
                "GET",
            ),
            (r#"{"body_file": "f"}"#, r#"{"body": "x"}"#, "body_file", ""),
            (
                r#"{"header": ["Cookie: a"]}"#,
                r#"{"header": ["cookie: b"]}"#,
                "header",
                "Cookie: a",
            ),
        ] {
            let both = settings(one).combined(&settings(other)).unwrap_err();
            assert_eq!(
                (both.key.as_str(), both.values.concat().as_str()),
                (key, value)
            );
        }
    }
}
