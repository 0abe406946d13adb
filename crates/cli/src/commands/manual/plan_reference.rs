//! Documents the keys of a plan as Markdown for docs/plan.md, and as a JSON schema for editors.

use prony_plan::reference::{self, ReferenceKey, ReferenceSection, TOP_LEVEL, ValueType};
use serde_json::{Map, Value, json};

/// The manual page of plans, which `prony man plan` prints.
pub(crate) const MANUAL: &str = include_str!("../../../plan.md");

/// Returns the reference with one table for each section of a plan.
pub(crate) fn markdown() -> String {
    let mut text = String::new();
    for section in reference::sections() {
        let heading = match section.heading {
            TOP_LEVEL => "Top level".to_owned(),
            other => match other.split_once(" of ") {
                Some((key, table)) => format!("`{key}` of `{table}`"),
                None => format!("`{other}`"),
            },
        };
        text.push_str(&format!(
            "### {heading}\n\n| key | type | default | example | meaning |\n|---|---|---|---|---|\n"
        ));
        for key in &section.keys {
            text.push_str(&key_row(key));
        }
        text.push('\n');
    }
    text
}

fn key_row(key: &ReferenceKey) -> String {
    let code = |value: &str| {
        if value.is_empty() {
            String::new()
        } else {
            format!("`{}`", value.replace('|', "\\|"))
        }
    };
    // Format literal values as code, but not defaults that are described in words.
    let is_number = key.default.parse::<f64>().is_ok();
    let is_value = is_number || key.default == "false" || key.default.starts_with(['"', '{', '[']);
    let default = match (key.required, is_value) {
        (true, _) => "required".to_owned(),
        (false, true) => code(&key.default),
        (false, false) => key.default.clone(),
    };
    format!(
        "| `{}` | {} | {default} | {} | {} |\n",
        key.name,
        type_name(&key.value),
        code(&key.example),
        key.meaning.replace('|', "\\|")
    )
}

fn type_name(value: &ValueType) -> String {
    match value {
        ValueType::Text => "string".to_owned(),
        ValueType::Path => "path".to_owned(),
        ValueType::Bool => "true or false".to_owned(),
        ValueType::Integer { min, max } if *max >= 1 << 30 => format!("whole number from {min}"),
        ValueType::Integer { min, max } => format!("{min} to {max}"),
        ValueType::Count => "number".to_owned(),
        ValueType::Rate => "requests per second".to_owned(),
        ValueType::Time => "time".to_owned(),
        ValueType::Size => "bytes".to_owned(),
        ValueType::Percent => "percentage".to_owned(),
        ValueType::BitRate => "bits per second".to_owned(),
        ValueType::Cores => "cores".to_owned(),
        ValueType::List => "string or array".to_owned(),
        ValueType::TextTable => "table of strings".to_owned(),
        ValueType::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            words.join(", ")
        }
        ValueType::Table => "table".to_owned(),
        ValueType::TableArray => "array of tables".to_owned(),
        ValueType::Either(types) => {
            let names: Vec<String> = types.iter().map(type_name).collect();
            names.join(", or ")
        }
    }
}

/// Returns the JSON schema of plans (draft 2020-12), with which editors complete and check keys.
pub(crate) fn schema() -> String {
    let sections = reference::sections();
    let object = |heading: &str| match sections.iter().find(|section| section.heading == heading) {
        Some(section) => object_of(section),
        None => json!({}),
    };
    let mut plan = object(TOP_LEVEL);
    let mut service = object("[service.NAME]");
    let ready = object("ready of [service.NAME]");
    set_property(&mut service, "ready", json!({"anyOf": [template(), ready]}));
    let mut file = object("[service.NAME.files]");
    file["minProperties"] = json!(1);
    file["maxProperties"] = json!(1);
    set_property(
        &mut service,
        "files",
        json!({"anyOf": [template(), {"type": "object", "additionalProperties": file}]}),
    );
    let mut trials = object("[trials]");
    let blocks = object("blocks of [trials]");
    set_property(
        &mut trials,
        "blocks",
        json!({"anyOf": [integer(1, u64::from(prony_stats::BLOCKS_MAX)), blocks]}),
    );
    let named = |of: Value| json!({"type": "object", "additionalProperties": of});
    set_property(&mut plan, "service", named(service));
    set_property(&mut plan, "trials", trials);
    set_property(&mut plan, "load", object("[load]"));
    set_property(&mut plan, "place", named(object("[place.NAME]")));
    set_property(&mut plan, "link", named(object("[link.NAME]")));
    set_property(&mut plan, "telemetry", object("[telemetry]"));
    set_property(
        &mut plan,
        "factors",
        named(json!({"type": ["array", "string"]})),
    );
    let mut schema = Map::new();
    schema.insert(
        "$schema".to_owned(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    schema.insert("title".to_owned(), json!("A plan for prony"));
    if let Value::Object(plan) = plan {
        schema.extend(plan);
    }
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}

/// Replaces the schema of a property and keeps its description.
fn set_property(object: &mut Value, property: &str, mut schema: Value) {
    let old = &mut object["properties"][property];
    if let Some(description) = old.get("description") {
        schema["description"] = description.clone();
    }
    *old = schema;
}

fn object_of(section: &ReferenceSection) -> Value {
    let mut properties = Map::new();
    for key in &section.keys {
        let own = value_schema(&key.value);
        let mut schema = if section.templates && !accepts_text(&key.value) {
            json!({"anyOf": [own, template()]})
        } else {
            own
        };
        let mut description = key.meaning.clone();
        if !key.default.is_empty() {
            description.push_str(&format!(" (default: {})", key.default));
        }
        schema["description"] = json!(description);
        properties.insert(key.name.to_owned(), schema);
    }
    let required: Vec<&str> = section
        .keys
        .iter()
        .filter(|key| key.required)
        .map(|key| key.name)
        .collect();
    let mut object = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// Returns true if the type accepts any string, so the schema needs no alternative for templates.
fn accepts_text(value: &ValueType) -> bool {
    match value {
        ValueType::Choice(_) | ValueType::Bool | ValueType::Integer { .. } => false,
        ValueType::Table | ValueType::TableArray | ValueType::TextTable => false,
        ValueType::Either(types) => types.iter().any(accepts_text),
        _ => true,
    }
}

/// Returns the schema of a string that contains a template.
fn template() -> Value {
    json!({"type": "string", "pattern": "\\{[{%]"})
}

fn integer(min: u64, max: u64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

fn value_schema(value: &ValueType) -> Value {
    // Where a plan expects a string, it also accepts a number or a boolean and converts it to text.
    let scalar = json!({"type": ["string", "number", "boolean"]});
    match value {
        ValueType::Text | ValueType::Path => json!({"type": "string"}),
        ValueType::Bool => json!({"type": "boolean"}),
        ValueType::Integer { min, max } => integer(*min, *max),
        ValueType::Count | ValueType::Rate | ValueType::Size => {
            json!({"type": ["number", "string"]})
        }
        ValueType::Time | ValueType::BitRate => json!({"type": "string", "pattern": "[0-9{]"}),
        ValueType::Percent => json!({"type": "string", "pattern": "%$|\\}\\}$"}),
        ValueType::Cores => json!({"anyOf": [
            {"type": ["integer", "string"]},
            {"type": "array", "items": {"type": ["integer", "string"]}},
        ]}),
        ValueType::List => json!({"anyOf": [scalar, {"type": "array", "items": scalar}]}),
        ValueType::TextTable => json!({"type": "object", "additionalProperties": scalar}),
        ValueType::Choice(words) => {
            if words.iter().all(|word| word.parse::<f64>().is_ok()) {
                // Numeric words are also accepted without quotes, such as `http = 2`.
                let numbers = words.iter().filter_map(|word| word.parse::<f64>().ok());
                let values: Vec<Value> = words
                    .iter()
                    .map(|word| json!(word))
                    .chain(numbers.map(|number| json!(number)))
                    .collect();
                json!({"enum": values})
            } else {
                json!({"enum": words})
            }
        }
        ValueType::Table => json!({"type": "object"}),
        ValueType::TableArray => json!({"type": "array", "items": {"type": "object"}}),
        ValueType::Either(types) => {
            let schemas: Vec<Value> = types.iter().map(value_schema).collect();
            json!({"anyOf": schemas})
        }
    }
}

#[cfg(test)]
mod tests {
    use prony_machine::profile::MachineProfile;
    use prony_plan::{Plan, STARTER};

    use super::*;

    fn validator() -> jsonschema::Validator {
        let schema: Value = serde_json::from_str(&schema()).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    }

    fn as_json(plan: &str) -> Value {
        let table: toml::Table = plan.parse().unwrap();
        serde_json::to_value(table).unwrap()
    }

    #[test]
    fn the_schema_accepts_the_starter_and_every_study() {
        let validator = validator();
        let studies = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies");
        let mut plans = vec![("starter".to_owned(), STARTER.to_owned())];
        for entry in std::fs::read_dir(studies).unwrap() {
            let path = entry.unwrap().path().join("plan.toml");
            if let Ok(text) = std::fs::read_to_string(&path) {
                plans.push((path.display().to_string(), text));
            }
        }
        assert!(plans.len() > 5, "the studies were not found");
        for (name, text) in plans {
            let errors: Vec<String> = validator
                .iter_errors(&as_json(&text))
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}");
        }
    }

    #[test]
    fn the_schema_refuses_the_same_plans_as_the_reader() {
        let validator = validator();
        let plan = |load: &str| {
            format!(
                "baseline = {{ n = 1 }}\n[factors]\nn = [1, 2]\n[service.web]\n\
                 command = [\"prony\", \"origin\", \"{{{{ n }}}}\"]\n[load]\n{load}\n"
            )
        };
        let good = plan("target = \"web\"\nconnections = 4\nhttp = 2\nsource = \"127.0.0.0/16\"");
        assert!(validator.is_valid(&as_json(&good)));
        for bad in [
            "connections = 4",
            "target = \"web\"\nconections = 4",
            "target = \"web\"\nconnections = true",
            "target = \"web\"\nmodel = \"clsed\"",
        ] {
            let text = plan(bad);
            assert!(!validator.is_valid(&as_json(&text)), "schema takes {bad}");
            let origin = std::path::Path::new("plan.toml");
            assert!(
                Plan::from_str(&text, origin, MachineProfile::this()).is_err(),
                "reader takes {bad}"
            );
        }
    }

    #[test]
    fn the_stored_schema_and_the_manual_are_up_to_date() {
        let stored = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../schema/prony.plan-1.schema.json"
        );
        let stored = std::fs::read_to_string(stored).unwrap_or_default();
        assert!(
            stored == schema(),
            "schema/prony.plan-1.schema.json is out of date; run `cargo xtask docs`"
        );
        assert!(
            MANUAL.contains(markdown().trim_end()),
            "docs/plan.md is out of date; run `cargo xtask docs`"
        );
    }
}
